package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/trust"
)

// A Log is a file that is appended to. No descriptor is held between two records:
// none can leak into a jail, and a file that was moved away is left for a new one.
type Log struct {
	path string
	last int64 // highest seq that this process wrote: it rises although the file is a new one

	inode  uint64 // of the file, when it was opened first
	begins string
	size   int64
}

// lockWait bounds the wait for the other writers, who need microseconds each.
const lockWait = 5 * time.Second

// lockGrace is waited whatever happens: a log that is busy is not one that is held.
const lockGrace = 100 * time.Millisecond

// Open judges the directory and the file at path, and makes the file. It must be
// the caller's own, regular, mode 0640 or less, in a directory that nobody but
// the caller or root can write to. The *jailer.Error has the reason events.sink.
func Open(path string) (*Log, error) {
	l := &Log{path: path}
	if err := l.checkDir(); err != nil {
		return nil, err
	}
	f, err := l.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, l.failed("open", err)
	}
	l.inode, l.size = inode(st), st.Size()
	if l.begins, err = begins(f); err != nil {
		return nil, l.failed("open", err)
	}
	return l, nil
}

// Check says whether Open and Append would take the log at path, which it leaves as
// it is, or not there. What only a write shows, as a full disk, it can't tell.
func Check(path string) error {
	l := &Log{path: path}
	if err := l.checkDir(); err != nil {
		return err
	}
	for _, file := range []struct {
		path      string
		forbidden uint32
	}{{path, logForbids}, {path + ".lock", lockForbids}} {
		f, err := l.openFile(file.path, unix.O_RDWR, file.forbidden)
		switch {
		case errors.Is(err, os.ErrNotExist):
			dir := filepath.Dir(path)
			if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
				return l.failed("open", &os.PathError{Op: "create a file in", Path: dir, Err: err})
			}
			continue
		case err != nil:
			return err
		}
		if file.path == path {
			_, err = readTail(f)
		}
		f.Close()
		if err != nil {
			return l.failed("open", err)
		}
	}
	return nil
}

// Append writes the events, all of them or none, each with its place in the file.
// The *jailer.Error has the reason events.sink. The end of ctx ends the wait for
// other writers alone, and not at once.
func (l *Log) Append(ctx context.Context, events ...Event) error {
	return l.locked(ctx, func(f *os.File, t tail) error { return l.write(f, t, events) })
}

// locked calls do with the file, while no other process writes to it.
func (l *Log) locked(ctx context.Context, do func(*os.File, tail) error) error {
	lock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	f, err := l.open()
	if err != nil {
		return err
	}
	defer f.Close() // what write(2) took is there for every reader
	t, err := readTail(f)
	if err == nil {
		err = do(f, t)
	}
	return l.failed("write", err)
}

func (l *Log) write(f *os.File, t tail, events []Event) error {
	var buf []byte
	if t.torn {
		// Its writer died between two bytes. What comes next must not be glued to it.
		buf = append(buf, '\n')
	}
	seq := max(t.seq, l.last)
	if seq > math.MaxInt64-int64(len(events)) {
		return refused(l.path, fmt.Sprintf("ends with seq %d, which can't rise: somebody forged it", seq), "mv "+trust.Quote(l.path)+" "+trust.Quote(l.path+".forged"))
	}
	now := time.Now()
	for _, e := range events {
		seq++
		e.Seq = seq
		line, err := e.line(now)
		if err != nil {
			return err
		}
		buf = append(buf, line...)
	}
	if _, err := f.Write(buf); err != nil {
		// What a full disk took is no record.
		return errors.Join(err, f.Truncate(t.size))
	}
	l.last = seq
	return nil
}

// lock takes the lock, a file of its own: whoever can read the log, but is not its
// owner, could otherwise hold every run up (flock(2) asks for no right to write).
func (l *Log) lock(ctx context.Context) (*os.File, error) {
	path := l.path + ".lock"
	f, err := l.openFile(path, unix.O_RDWR|unix.O_CREAT, lockForbids)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 2*time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case err == unix.EINTR:
			continue
		case err == unix.EWOULDBLOCK:
			waited := time.Since(began)
			if waited < lockGrace {
				time.Sleep(pause)
				continue
			}
			if waited < lockWait && sleep(ctx, pause) {
				continue
			}
			f.Close()
			return nil, heldBy(ctx, path)
		}
		f.Close()
		return nil, l.failed("lock", &os.PathError{Op: "flock", Path: path, Err: err})
	}
}

// ErrLocked is in the error of a log that another process kept locked.
var ErrLocked = errors.New("locked")

func heldBy(ctx context.Context, path string) error {
	e := refused(path, "another process holds the lock of the event log", "fuser -v "+trust.Quote(path))
	e.Op, e.Err, e.Retryable = "events.lock", ErrLocked, true
	if ctx.Err() != nil {
		e.Message += ", and the wait for it was ended"
	}
	return e
}

func (l *Log) open() (*os.File, error) {
	return l.openFile(l.path, unix.O_RDWR|unix.O_CREAT|unix.O_APPEND, logForbids)
}

// The bits that the two files must not have.
const (
	logForbids  = 0o027
	lockForbids = 0o077
)

// openFile opens a file of the log's and judges what was opened, not what the path
// may name a moment later. O_NONBLOCK: a FIFO would wait for a reader.
func (l *Log) openFile(path string, flags int, forbidden uint32) (*os.File, error) {
	flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := unix.Open(path, flags, 0o600)
	if err == unix.ELOOP {
		return nil, refused(path, "is a symbolic link: nobody can say whose file it will name next", "rm "+trust.Quote(path)+", or name the file itself with [events] path in the policy")
	}
	if err != nil {
		return nil, l.failed("open", &os.PathError{Op: "open", Path: path, Err: err})
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, l.failed("open", err)
	}
	var e *jailer.Error
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		e = refused(path, "is not a regular file", "")
	case int(st.Uid) != os.Geteuid():
		e = refused(path, fmt.Sprintf("is owned by uid %d, not by uid %d", st.Uid, os.Geteuid()), "each user who runs jailer needs an event log of his own")
	case st.Mode&forbidden != 0:
		e = refused(path, fmt.Sprintf("is open to others (mode %04o)", st.Mode&0o7777), fmt.Sprintf("chmod %04o %s", st.Mode&0o7777&^forbidden, trust.Quote(path)))
	default:
		return f, nil
	}
	f.Close()
	return nil, e
}

// checkDir: who may write to a directory on the way can put another file in the
// log's place, and who made a link on it says where it is. The log of the state
// directory is held to it too: in a directory of the caller's own nobody else makes a
// file, but who renames that directory, or puts another of the caller's there, hides
// what was recorded, and the sessions from gc. That a group has no other members, as
// the private ones that go with umask 002, a mode doesn't show, and /etc/group only
// where no directory service adds some.
func (l *Log) checkDir() error {
	if !filepath.IsAbs(l.path) {
		return refused(l.path, "is no absolute path", "")
	}
	dir := filepath.Dir(l.path)
	err := trust.Rules{Owners: []int{0, os.Geteuid()}, Links: true, Sticky: true, Userns: true}.Path(dir)
	if err == nil {
		var st unix.Stat_t
		if err = unix.Stat(dir, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			err = unix.ENOTDIR
		}
	}
	b, breach := errors.AsType[*trust.Breach](err)
	switch {
	case err == nil:
		return nil
	case breach:
		return refused(b.Path, b.Reason, narrow(b)+"name a directory of its own with [events] path in the policy, or with --state-dir if it has none: "+ownDir())
	case !errors.Is(err, os.ErrNotExist):
		e := refused(dir, "can't be the directory of the event log", "")
		e.Err = err
		return e
	}
	e := refused(dir, "can't be the directory of the event log", "install -d -m 0750 "+trust.Quote(dir))
	e.Err = err
	return e
}

// narrow is a hint where the directory is a user's own. One of root's may be what
// others work in, as /tmp or /var/log.
func narrow(b *trust.Breach) string {
	if !b.Shared || b.Sticky || b.UID == 0 || b.UID != os.Geteuid() {
		return ""
	}
	who := "go-w "
	if b.Group {
		who = "g-w "
	}
	return "chmod " + who + trust.Quote(b.Path) + ", or "
}

// ownDir makes a directory that nobody else writes to, nor above it.
func ownDir() string {
	if os.Geteuid() == 0 {
		return "install -d -m 0750 /var/lib/jailer" // /var/log is its group's in Ubuntu
	}
	return `install -d -m 0750 "$HOME/.local/state/jailer"`
}

// failed gives an error its reason, unless it has one.
func (l *Log) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	var e *jailer.Error
	if errors.As(err, &e) {
		return e
	}
	e = refused(l.path, "the event log can't be used", "")
	e.Op, e.Err, e.Retryable = "events."+op, err, true
	return e
}

// refused is the error of a log that must not be written to.
func refused(path, msg, hint string) *jailer.Error {
	return &jailer.Error{
		Code: jailer.CodeInternal, Op: "events.open", Reason: "events.sink", Path: path, Message: msg,
		Hint: cmp.Or(hint, `make room for it, or name another with [events] path in the policy; sink_on_error = "log" runs without`),
	}
}
