package pid1

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// receive fills b from the socket, with the one descriptor that may come with it.
func (c *Conn) receive(b []byte) (f *os.File, err error) {
	raw, err := c.f.SyscallConn()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && f != nil {
			f.Close()
			f = nil
		}
	}()
	for have := 0; have < len(b); {
		var n int
		var fds []int
		var rerr error
		if err := raw.Read(func(fd uintptr) bool {
			n, fds, rerr = recvmsg(int(fd), b[have:])
			return !errors.Is(rerr, unix.EAGAIN) // false: wait until readable
		}); err != nil {
			return f, err
		}
		for _, fd := range fds {
			if f != nil {
				unix.Close(fd)
				rerr = ErrReport
				continue
			}
			// Non-blocking, so that Close ends a Read of a terminal.
			_ = unix.SetNonblock(fd, true)
			f = os.NewFile(uintptr(fd), "pid1")
		}
		switch {
		case errors.Is(rerr, unix.EINTR):
		case errors.Is(rerr, unix.ECONNRESET): // it ended with something of ours unread
			return f, io.EOF
		case rerr != nil:
			return f, rerr
		case n == 0:
			return f, io.EOF
		}
		have += n
	}
	return f, nil
}

func recvmsg(fd int, b []byte) (n int, fds []int, err error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, flags, _, err := unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return 0, nil, err
	}
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return 0, fds, err
		}
		fds = append(fds, got...)
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return 0, fds, ErrReport
	}
	return n, fds, nil
}
