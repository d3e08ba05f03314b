package stream

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// drain counts what is left to read. splice(2) to /dev/null moves the pipe's
// pages without copying them, several times as fast as read, and answers the
// exact count; where it can't (r is no pipe: a terminal, a socket), read does.
func (c *Capture) drain(buf []byte) {
	if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		defer null.Close()
		if c.splice(null) {
			return
		}
	}
	for {
		n, err := c.r.Read(buf)
		c.count(int64(n))
		if err != nil {
			return
		}
	}
}

// splice reports whether it came to the end of the stream.
func (c *Capture) splice(null *os.File) bool {
	raw, err := c.r.SyscallConn()
	if err != nil {
		return false
	}
	out, err := null.SyscallConn()
	if err != nil {
		return false
	}
	for {
		var n int64
		var serr error
		err := raw.Read(func(in uintptr) bool {
			if err := out.Control(func(o uintptr) {
				n, serr = unix.Splice(int(in), nil, int(o), nil, 1<<20, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
			}); err != nil {
				serr = err
			}
			return !errors.Is(serr, unix.EAGAIN) // false: wait until readable
		})
		switch {
		case err != nil:
			return errors.Is(err, os.ErrClosed)
		case errors.Is(serr, unix.EINTR):
		case serr != nil:
			return false
		case n == 0:
			return true
		default:
			c.count(n)
		}
	}
}
