package usermanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// socket finds the user's bus: in XDG_RUNTIME_DIR, or where logind makes that
// directory, since a cron job or a service has no such variable.
// DBUS_SESSION_BUS_ADDRESS is not asked: it can name any program.
func (o Options) socket() (string, error) {
	usual := filepath.Join(o.runUser, strconv.Itoa(o.uid))
	for _, dir := range []string{o.RuntimeDir, usual} {
		if !filepath.IsAbs(dir) {
			continue // the variable is not set, or no path (basedir spec: to be ignored)
		}
		st, err := os.Stat(filepath.Join(dir, "bus"))
		if err == nil && st.Mode().Type() == fs.ModeSocket {
			return filepath.Join(dir, "bus"), nil
		}
	}
	_, err := os.Stat(filepath.Join(usual, "systemd", "private"))
	switch {
	case err == nil:
		return "", &Error{
			ID: "cgroup.manager.bus", File: filepath.Join(usual, "bus"),
			Reason: "a user manager runs, but the user has no message bus",
			Hint: "run `apt-get install dbus-user-session` (Fedora: `dnf install dbus-daemon`) and `systemctl restart user@" +
				strconv.Itoa(o.uid) + ".service` as root",
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", &Error{
			ID: "cgroup.manager.bus", File: usual, Err: err,
			Reason: "the user's runtime directory can't be searched", Hint: o.hintManager(),
		}
	}
	return "", &Error{
		ID: "cgroup.manager", File: usual, Reason: "no systemd user manager runs for uid " + strconv.Itoa(o.uid),
		Hint: "run `loginctl enable-linger " + strconv.Itoa(o.uid) + "` as root (without systemd: run jailer as root)",
	}
}

// connect opens the bus and says hello. At the end of ctx the socket is closed,
// and with that everything that waits for it ends.
func connect(ctx context.Context, socket string, uid int) (*dbus.Conn, error) {
	f, err := dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	if err := listener(f, uid); err != nil {
		f.Close()
		return nil, err
	}
	in := &bounded{File: f}
	in.left.Store(maxHello)
	// Not left to the library: it waits for a message that is being written first.
	context.AfterFunc(ctx, func() { f.Close() })
	conn, err := dbus.NewConn(in, dbus.WithContext(ctx))
	if err != nil {
		f.Close()
		return nil, err
	}
	if err := hello(conn, uid); err != nil {
		conn.Close()
		if in.left.Load() <= 0 {
			return nil, errTooMuch // the library may say no more than that it is closed
		}
		return nil, err
	}
	in.left.Store(maxAnswers)
	return conn, nil
}

func hello(conn *dbus.Conn, uid int) error {
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(uid))}); err != nil {
		return err
	}
	return conn.Hello()
}

// What a listener may send, in bytes: the library reads a line of any length
// into memory. The answers up to the hello's take some 400; what follows are a
// few more and the signals of other jobs, some 200 each.
const (
	maxHello   = 16 << 10
	maxAnswers = 1 << 20
)

var errTooMuch = errors.New("more is sent than a message bus has to say")

// bounded reads no more than left bytes.
type bounded struct {
	*os.File
	left atomic.Int64
}

func (b *bounded) Read(p []byte) (int, error) {
	left := b.left.Load()
	if left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.File.Read(p[:min(int64(len(p)), left)])
	b.left.Add(-int64(n))
	return n, err
}

// dial connects without ever blocking: connect(2) waits for as long as a
// listener's queue is full.
func dial(ctx context.Context, socket string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	for {
		err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			unix.Close(fd)
			return nil, os.NewSyscallError("connect", err)
		}
		select {
		case <-ctx.Done():
			unix.Close(fd)
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return os.NewFile(uintptr(fd), socket), nil // not blocking, so Close ends a Read
}

// listener wants the bus to be the user's own: somebody else's could move this
// process where he likes, or say that it did. SO_PEERCRED names who called
// listen(2), unix(7).
func listener(f *os.File, uid int) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var ask error
	if err := c.Control(func(fd uintptr) { cred, ask = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if ask != nil {
		return os.NewSyscallError("getsockopt", ask)
	}
	if int(cred.Uid) != uid {
		return fmt.Errorf("it belongs to uid %d, not %d", int32(cred.Uid), uid)
	}
	return nil
}
