/* landlock.h: what the job may execute. */
#ifndef JAILER_LANDLOCK_H
#define JAILER_LANDLOCK_H

#include <stdint.h>

/* landlock_executables lets the calling process, and all that comes of it, execute these
 * files and no other (landlock(7)), and, where the kernel can, send signals and connect
 * to abstract sockets within its own kind alone. 0, or a negative errno with the number of
 * the path in *which. It takes no_new_privs. */
long landlock_executables(const char *const *paths, uint32_t n, uint32_t *which);

#endif
