// Package pid1 is process 1 of a jail and the launcher's side of its protocol.
//
// The program itself is C without a library (src/, built by build.sh): a Go
// runtime there would cost milliseconds and threads, and a raw clone3 into a new
// user namespace needs a process with one thread. It is embedded behind the tag
// seccomp and handed to the container as a sealed memfd, so that no path of the
// jail leads to it and nobody, the owner of its uid included, can write it.
//
// Descriptors of PID 1: 0-2 the job's stdio, 3 the control socket ([Pair]), 4 its
// own memfd, from 5 on those that the [Payload] names. The job gets 0-2 only.
package pid1
