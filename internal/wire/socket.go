package wire

import (
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Name of the socket in the session's directory.
const Name = "ctl"

// A Listener is the supervisor's socket.
type Listener struct {
	f      *os.File
	closed atomic.Bool
}

// Listen makes the socket in dir, mode 0600. The path leads through a descriptor of
// dir, so that 108 bytes always do (unix(7)).
func Listen(dir string) (*Listener, error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	defer unix.Close(d)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	fail := func(call string, err error) (*Listener, error) {
		unix.Close(fd)
		return nil, os.NewSyscallError(call, err)
	}
	if err := unix.Bind(fd, through(d)); err != nil {
		return fail("bind", err)
	}
	// Nobody can connect before listen(2), and nobody else could enter the directory.
	if err := unix.Fchmodat(d, Name, 0o600, 0); err != nil {
		return fail("fchmodat", err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return fail("listen", err)
	}
	return &Listener{f: os.NewFile(uintptr(fd), Name)}, nil
}

// backlog: a client whose connect finds it full gets EAGAIN and tries again.
const backlog = 128

func through(dir int) *unix.SockaddrUnix {
	return &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(dir) + "/" + Name}
}

func openDir(dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return fd, nil
}

// Close ends Accept.
func (l *Listener) Close() error {
	l.closed.Store(true)
	return l.f.Close()
}

// Accept waits for the next client. After Close the error is os.ErrClosed.
func (l *Listener) Accept() (*Conn, error) {
	raw, err := l.f.SyscallConn()
	if err != nil {
		return nil, l.why(err)
	}
	nfd := -1
	var aerr error
	err = raw.Read(func(fd uintptr) bool {
		nfd, _, aerr = unix.Accept4(int(fd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return !errors.Is(aerr, unix.EAGAIN) && !errors.Is(aerr, unix.EINTR)
	})
	if err != nil {
		return nil, l.why(err)
	}
	if aerr != nil {
		return nil, os.NewSyscallError("accept4", aerr)
	}
	return New(nfd)
}

// why gives the runtime's own error for a closed file a name.
func (l *Listener) why(err error) error {
	if l.closed.Load() {
		return os.ErrClosed
	}
	return err
}

// Dial connects to the socket in dir. Errors wrap ENOENT where there is none yet, and
// ECONNREFUSED where nobody listens any more.
func Dial(dir string) (*Conn, error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	defer unix.Close(d)
	for end := time.Now().Add(dialWait); ; time.Sleep(10 * time.Millisecond) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, os.NewSyscallError("socket", err)
		}
		if err = unix.Connect(fd, through(d)); err == nil {
			return New(fd)
		}
		unix.Close(fd)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) || time.Now().After(end) {
			return nil, os.NewSyscallError("connect", err)
		}
	}
}

// dialWait bounds the wait for room in the backlog.
const dialWait = 5 * time.Second
