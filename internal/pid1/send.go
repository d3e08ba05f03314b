package pid1

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// write sends one whole order, with files by its first bytes.
func (c *Conn) write(b []byte, files []*os.File) error {
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
			defer runtime.KeepAlive(f)
		}
		oob = unix.UnixRights(fds...)
	}
	raw, err := c.f.SyscallConn()
	if err != nil {
		return err
	}
	c.order.Lock()
	defer c.order.Unlock()
	for len(b) > 0 {
		var n int
		var werr error
		if err := raw.Write(func(fd uintptr) bool {
			n, werr = unix.SendmsgN(int(fd), b, oob, nil, unix.MSG_NOSIGNAL)
			return !errors.Is(werr, unix.EAGAIN) // false: wait until there is room
		}); err != nil {
			return err
		}
		switch {
		case errors.Is(werr, unix.EINTR):
		case werr != nil:
			return os.NewSyscallError("sendmsg", werr)
		}
		b, oob = b[n:], nil
	}
	return nil
}
