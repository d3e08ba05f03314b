/* seed.h: files made by the job's own process, from frames on its stdin. */
#ifndef JAILER_SEED_H
#define JAILER_SEED_H

#include <stdint.h>

/* seed_make reads frames from descriptor 0 up to the one that ends them, and makes
 * their directories and files. 0, or a negative errno with the number of the frame
 * in *frame: EBADMSG for what is no frame, EPROTO for a stream that ends early, or
 * the file system's own. What was made before stays. */
long seed_make(uint32_t *frame);

#endif
