// Package pid1 is process 1 of a jail and the launcher's side of its protocol.
//
// The program itself is C without a library (src/, built by build.sh): a Go
// runtime there would cost milliseconds and threads, and a raw clone3 into a new
// user namespace needs a process with one thread. It is embedded behind the tag
// seccomp and handed to the container as a sealed memfd, so that no path of the
// jail leads to it and nobody, the owner of its uid included, can write it.
//
// Descriptors of PID 1: 0-2 open on anything, which it closes; 3 the control socket
// ([Pair]); 4 its own memfd. After [Conn.Setup] it runs jobs, one after another or
// side by side ([Conn.Exec]); what a job is given comes with it over the socket. A job
// has 0-2 only.
package pid1
