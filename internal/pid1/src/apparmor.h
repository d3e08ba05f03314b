/* apparmor.h: the profiles that PID 1 and the job are under. */
#ifndef JAILER_APPARMOR_H
#define JAILER_APPARMOR_H

/* apparmor_is compares the calling thread's label, with its mode, to what it should
 * be. 0; -EPERM if it is another one, or any other negative errno. */
long apparmor_is(const char *label);

/* apparmor_stack adds a profile to the calling thread's label, for good: with
 * no_new_privs a label can only grow. 0, or a negative errno. */
long apparmor_stack(const char *profile);

#endif
