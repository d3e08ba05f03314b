/* job.h: the job's own process, between its clone and its exec. */
#ifndef JAILER_JOB_H
#define JAILER_JOB_H

#include "payload.h"

/* What the job's process says to PID 1 when it fails. */
struct failure {
	uint32_t stage;
	uint32_t error;
	uint32_t detail;
};

/* job_run waits on the status socket until PID 1 has written the maps, becomes the
 * job and executes it, or makes the files of a seed. Its terminal is -1 if it has
 * none; stdio are its three files, if FLAG_STDIO says so. It never returns: where it
 * fails it sends a struct failure and exits. */
void job_run(const struct payload *p, char **argv, char **envp, int status, int terminal, const int *stdio)
	__attribute__((noreturn));

#endif
