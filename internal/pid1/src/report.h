/* report.h: what PID 1 says to the launcher. */
#ifndef JAILER_REPORT_H
#define JAILER_REPORT_H

#include "protocol.h"

#include <stdint.h>

struct report {
	uint32_t magic;
	uint16_t type, stage;
	int32_t error, status;
	uint32_t leftover, pid;
	uint64_t utime_us, stime_us, maxrss_kb;
	uint64_t children_utime_us, children_stime_us, children_maxrss_kb;
	uint32_t detail;
	uint32_t space; /* EXITED: what is known of the workspace */
	uint64_t space_used;
	uint32_t job; /* 0: PID 1 itself */
	unsigned char zero[PROTOCOL_REPORT - 92];
};
_Static_assert(sizeof(struct report) == PROTOCOL_REPORT, "report");

/* report_send sends one. It waits for a launcher that doesn't read; one that is gone
 * is the end of PID 1. */
void report_send(struct report *r);

/* report_send_with sends one with a descriptor, which stays open. 0, or a negative
 * errno. */
long report_send_with(struct report *r, int fd);

/* fail says why PID 1 can't go on, and ends it. error is a negative errno. */
void fail(uint16_t stage, long error, uint32_t detail) __attribute__((noreturn));

/* must gives r back, unless that is a negative errno: then it fails. */
long must(uint16_t stage, long r);

#endif
