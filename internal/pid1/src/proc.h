/* proc.h: what PID 1 reads from the jail's /proc. */
#ifndef JAILER_PROC_H
#define JAILER_PROC_H

#include <stdint.h>

/* proc_path writes "/proc/PID/NAME" into a buffer of 64 bytes. */
void proc_path(char *buf, uint32_t pid, const char *name);

/* proc_executed tells whether an unreaped process has been through an exec since
 * it was forked: 1, 0, or a negative errno. */
int proc_executed(uint32_t pid);

/* proc_exiting tells whether an unreaped process is ending or has ended: 1, 0, or a
 * negative errno. */
int proc_exiting(uint32_t pid);

/* proc_living counts the processes of the namespace that are alive, without pid 1
 * and zombies. LEFTOVER_UNKNOWN if /proc can't be read. */
uint32_t proc_living(void);

#endif
