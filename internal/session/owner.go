package session

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Watch closes the channel when the process has ended, which a pidfd tells of: a pid
// could be another's by then. A pid of 0 never ends.
func Watch(pid int) (gone <-chan struct{}, stop func(), err error) {
	if pid == 0 {
		return nil, func() {}, nil
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, nil, os.NewSyscallError("pidfd_open", err)
	}
	return watchFD(fd, unix.POLLIN)
}

// watchFD closes the channel when poll(2) says one of events of fd, which it owns. The
// runtime's poller wakes it: no thread waits.
func watchFD(fd int, events int16) (<-chan struct{}, func(), error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(fd), "watched")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	wait := raw.Read
	if events&unix.POLLIN == 0 {
		wait = raw.Write
	}
	gone := make(chan struct{})
	go func() {
		var perr error
		err := wait(func(fd uintptr) bool {
			p := []unix.PollFd{{Fd: int32(fd), Events: events & unix.POLLIN}}
			n, err := unix.Poll(p, 0)
			if err != nil && !errors.Is(err, unix.EINTR) {
				perr = err
				return true
			}
			return n == 1 && p[0].Revents&events != 0
		})
		if err == nil && perr == nil {
			close(gone)
		}
	}()
	return gone, func() { f.Close() }, nil
}
