package session

import (
	"encoding/json"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/stream"
)

// An Answer is the pipe on which a supervisor tells the program that started it what
// became of the session: one document, then the end.
type Answer struct {
	f    *os.File
	said bool
}

// TakeAnswer takes over the descriptor, which must be the writing end of a pipe that
// was inherited.
func TakeAnswer(fd int) (*Answer, error) {
	f, err := Inherited(fd, unix.O_WRONLY)
	if err != nil {
		return nil, err
	}
	return &Answer{f: f}, nil
}

// Inherited takes over a descriptor that must be an end of a pipe that was inherited, of
// this mode (O_RDONLY or O_WRONLY).
func Inherited(fd, mode int) (*os.File, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if fd < 3 || err != nil || flags&unix.FD_CLOEXEC != 0 { // the runtime's own, which has the number by chance
		return nil, errors.New("no pipe was inherited")
	}
	// Looked at first: what is refused stays its owner's. An os.File of it would close
	// the number later, which by then may be another file's.
	if err := checkPipe(uintptr(fd), mode); err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "inherited"), nil
}

// Broken closes the channel when nobody can read the answer any more.
func (a *Answer) Broken() (gone <-chan struct{}, stop func(), err error) {
	fd, err := unix.FcntlInt(a.f.Fd(), unix.F_DUPFD_CLOEXEC, 3) // blocking already
	if err != nil {
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return watchReader(fd)
}

// State answers that the session lives.
func (a *Answer) State(s State) error { return a.write(s) }

// Fail answers why there is no session. It is nothing where an answer was given, and
// an error where nobody takes it.
func (a *Answer) Fail(e *jailer.Error) error {
	if a.said {
		return nil
	}
	defer a.Close()
	doc := struct {
		V     int           `json:"v"`
		Error *jailer.Error `json:"error"`
	}{jailer.ProtocolVersion, e}
	return a.write(doc)
}

func (a *Answer) write(doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if _, err := a.f.Write(append(stream.EscapeJSON(b), '\n')); err != nil {
		return err
	}
	a.said = true
	return nil
}

// Close is the end of the answer.
func (a *Answer) Close() { a.f.Close() }

// watchReader closes the channel when nobody reads the pipe any more, of whose writing
// end it owns a descriptor. The runtime's poller wakes it: no thread waits.
func watchReader(fd int) (gone <-chan struct{}, stop func(), err error) {
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
	lost := make(chan struct{})
	go func() {
		var perr error
		err := raw.Write(func(fd uintptr) bool {
			p := []unix.PollFd{{Fd: int32(fd)}}
			n, err := unix.Poll(p, 0)
			if err != nil && !errors.Is(err, unix.EINTR) {
				perr = err
				return true
			}
			return n == 1 && p[0].Revents&unix.POLLERR != 0
		})
		if err == nil && perr == nil {
			close(lost)
		}
	}()
	return lost, func() { f.Close() }, nil
}
