// Package files is file tools on a directory in which somebody hostile works at the
// same time: the workspace of a jail, seen from the host.
//
// Every path is relative and resolved beneath one directory descriptor by the kernel
// (openat2(2)), so that no link, no ".." and no rename while it is looked at leads out.
// Nothing but a regular file is ever opened for its content, and none in a way that its
// owner could make wait: no FIFO, device or lease (fcntl(2)) holds a caller up.
package files
