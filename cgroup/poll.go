package cgroup

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// waker ends a poll(2) when its context ends.
type waker struct {
	ctx  context.Context
	f    *os.File // an eventfd
	stop func() bool
}

func newWaker(ctx context.Context) (*waker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	w := &waker{ctx: ctx, f: os.NewFile(uintptr(fd), "eventfd")}
	w.stop = context.AfterFunc(ctx, func() { _, _ = w.f.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}) })
	return w, nil
}

func (w *waker) close() {
	w.stop()
	w.f.Close() // an os.File, so that a late Write can't meet another descriptor of this number
}

// poll waits for one of fds or the end of the context, whose error it returns.
func (w *waker) poll(fds []unix.PollFd) ([]unix.PollFd, error) {
	c, err := w.f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var wake int32
	if err := c.Control(func(fd uintptr) { wake = int32(fd) }); err != nil {
		return nil, err
	}
	fds = append(fds, unix.PollFd{Fd: wake, Events: unix.POLLIN})
	for {
		if _, err = unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		err = w.ctx.Err()
	}
	return fds[:len(fds)-1], err
}

// rereadKV reads an open flat-keyed file from its start. Reading is also what
// arms the next poll of a cgroup file.
func rereadKV(f *os.File) (map[string]int64, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<16))
	if err != nil {
		return nil, err
	}
	return parseKV(string(b))
}
