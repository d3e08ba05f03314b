package launch

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
)

// checkOwner refuses a run whose owner is gone before anything is made.
func checkOwner(pid int) error {
	if pid <= 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer unix.Close(fd)
		if !pidfdDone(fd) {
			return nil
		}
		err = unix.ESRCH
	}
	return &jailer.Error{
		Code: jailer.CodeInvalidRequest, Path: "--owner-pid " + strconv.Itoa(pid), Err: err,
		Hint: "it must be a process that lives, in this pid namespace",
	}
}

// WatchOwner tells when a process has ended, by a pidfd: a pid could be reused. One that
// is gone has ended; a pid of 0 or less never does. stop frees the descriptor.
func WatchOwner(pid int) (ended <-chan struct{}, stop func()) {
	if pid <= 0 {
		return nil, func() {}
	}
	gone := make(chan struct{})
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		close(gone) // it is gone already
		return gone, func() {}
	}
	f := os.NewFile(uintptr(fd), "owner")
	go func() {
		raw, err := f.SyscallConn()
		if err != nil {
			return
		}
		first := true
		err = raw.Read(func(uintptr) bool {
			if first {
				first = false
				return pidfdDone(fd)
			}
			return true
		})
		if err == nil {
			close(gone)
		}
	}()
	return gone, func() { f.Close() }
}

func pidfdDone(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1
}
