/* jobs.h: the jobs that live, from their EXEC to their last report. */
#ifndef JAILER_JOBS_H
#define JAILER_JOBS_H

#include "job.h"

#include <linux/poll.h>
#include <stdint.h>

/* What an EXEC brought: the payload, and descriptors that the caller closes. */
struct order {
	uint32_t job;
	unsigned char *body;
	uint32_t nbody;
	const int *files;
	uint32_t nfiles;
};

/* jobs_init says what SETUP asked for: an end with the first job that is no seed,
 * and whether jobs must be under an AppArmor profile. Descriptors of PID 1 that no
 * job may have for a moment longer than its clone lasts: signals, and FD_CONTROL. */
void jobs_init(int once, int confined, int signals);

/* jobs_full tells whether there is room for another one. */
int jobs_full(void);

/* jobs_pid gives the main process of a job, unreaped, so that its number can't be
 * another's; 0 if there is no such job. */
int jobs_pid(uint32_t job);

/* jobs_exec starts a job. Whatever fails is reported as that job's failure. */
void jobs_exec(const struct order *o);

/* jobs_refuse reports a job as failed that there never was. */
void jobs_refuse(uint32_t job, struct failure f);

/* jobs_poll fills p with the status sockets of those that were not executed yet, and
 * gives their number. jobs_settle looks at those of them that spoke. */
uint32_t jobs_poll(struct pollfd *p);
void jobs_settle(const struct pollfd *p, uint32_t n);

/* jobs_reap reaps up to WAIT_ROUND zombies, reports those that were a job's main
 * process, and gives their number. */
#define WAIT_ROUND 256
int jobs_reap(void);

#endif
