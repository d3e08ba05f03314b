/* control.h: what the launcher says to PID 1. */
#ifndef JAILER_CONTROL_H
#define JAILER_CONTROL_H

#include <stdint.h>

/* control_setup reads SETUP, waiting for it, into a buffer of PROTOCOL_SETUP_MAX
 * bytes, and gives the length of its body. */
uint32_t control_setup(unsigned char *body);

/* control_obey takes what has come of one order, and follows it once it is whole. The
 * end of the stream is the launcher's, and so PID 1's. */
void control_obey(void);

#endif
