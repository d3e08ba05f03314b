/* terminal.h: a terminal of the jail's own. */
#ifndef JAILER_TERMINAL_H
#define JAILER_TERMINAL_H

#include <stdint.h>

/* terminal_open makes a pseudo-terminal in the devpts instance of the jail, of cols
 * and rows characters. It gives the slave, or a negative errno, and the master in
 * *master. Both are close-on-exec, and neither becomes the caller's terminal. */
long terminal_open(uint32_t cols, uint32_t rows, int *master);

/* terminal_take makes the slave the controlling terminal of the calling session
 * leader, and its descriptors 0-2. It gives 0, or a negative errno. */
long terminal_take(int slave);

#endif
