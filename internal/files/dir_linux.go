package files

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/jailpath"
)

// A Dir is the root that every path is resolved beneath.
type Dir struct {
	f        *os.File
	straight bool
}

// New takes the descriptor of a directory over; O_PATH is enough.
func New(f *os.File) *Dir { return &Dir{f: f} }

// Straight is the same root, beneath which no link is followed: a path then names one
// place, whatever links a job has made.
func (d *Dir) Straight() *Dir { return &Dir{d.f, true} }

// Close closes it.
func (d *Dir) Close() error { return d.f.Close() }

// beneath: no way out by "..", by an absolute link or by one of /proc's, and no way into
// another mount.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// tries bounds how often a path is resolved that somebody renames a part of meanwhile:
// the kernel can't tell that from a way out, and says EAGAIN (openat2(2)).
const tries = 100

// Open opens a clean path beneath the root. O_CLOEXEC, O_NONBLOCK and O_NOCTTY are
// added. The error is the kernel's.
func (d *Dir) Open(path string, flags int, mode uint32) (*os.File, error) {
	resolve := uint64(beneath)
	if d.straight {
		resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	return openBeneath(d.f, path, flags, mode, resolve)
}

func openBeneath(dir *os.File, path string, flags int, mode uint32, resolve uint64) (*os.File, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	if flags&unix.O_PATH == 0 { // with it these are refused
		how.Flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	if flags&(unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY) != 0 {
		how.Mode = uint64(mode)
	}
	for n := 0; ; n++ {
		fd, err := unix.Openat2(int(dir.Fd()), path, &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN) && n < tries && flags&(unix.O_PATH|unix.O_DIRECTORY) != 0:
		default:
			return nil, err
		}
	}
}

// look opens a path without opening what is there (O_PATH), and says what that is.
// Links in the path are followed where they stay beneath, the last one too.
func (d *Dir) look(path string) (*os.File, *unix.Stat_t, error) {
	return told(d.Open(path, unix.O_PATH, 0))
}

// told adds what an open file is.
func told(f *os.File, err error) (*os.File, *unix.Stat_t, error) {
	if err != nil {
		return nil, nil, err
	}
	st := new(unix.Stat_t)
	if err := unix.Fstat(int(f.Fd()), st); err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// OpenStraight is Open without following any link.
func (d *Dir) OpenStraight(path string, flags int) (*os.File, error) {
	return openBeneath(d.f, path, flags|unix.O_NOFOLLOW, 0, beneath|unix.RESOLVE_NO_SYMLINKS)
}

// Plain is Regular without following any link.
func (d *Dir) Plain(op, path string) (*os.File, *unix.Stat_t, error) {
	at, st, err := told(d.OpenStraight(path, unix.O_PATH))
	if err != nil {
		return nil, nil, fail(op, path, err)
	}
	defer at.Close()
	return regular(op, path, at, st)
}

// Regular opens a regular file for reading. What it is, is known before it is opened
// for that: to open a FIFO wakes its writer, and to open a device may do anything. A
// lease of somebody's is an error at once (O_NONBLOCK, fcntl(2) "Leases").
func (d *Dir) Regular(op, path string) (*os.File, *unix.Stat_t, error) {
	at, st, err := d.look(path)
	if err != nil {
		return nil, nil, fail(op, path, err)
	}
	defer at.Close()
	return regular(op, path, at, st)
}

// regular opens what at stands for, which st tells of.
func regular(op, path string, at *os.File, st *unix.Stat_t) (*os.File, *unix.Stat_t, error) {
	if err := onlyRegular(op, path, st); err != nil {
		return nil, nil, err
	}
	f, st, err := told(reopen(at, unix.O_RDONLY))
	return f, st, fail(op, path, err)
}

func onlyRegular(op, path string, st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return &Error{Code: IsDirectory, Op: op, Path: jailpath.Quote(path), Message: "is a directory"}
	}
	return &Error{Code: NotRegular, Op: op, Path: jailpath.Quote(path), Message: "is a " + string(typeOf(st.Mode)) + ", no regular file"}
}

// reopen opens what an O_PATH descriptor stands for, whatever its name leads to by now.
func reopen(f *os.File, flags int) (*os.File, error) {
	fd, err := unix.Open(proc(f), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// proc is a name of an open file, for calls that take none by O_PATH descriptor.
func proc(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// Parent opens the directory of a clean path, and gives the last name in it, which is
// not looked at.
func (d *Dir) Parent(p string) (parent *os.File, name string, err error) {
	dir, name := path.Split(p)
	parent, err = d.Open(path.Clean(dir), unix.O_PATH|unix.O_DIRECTORY, 0)
	return parent, name, err
}

// lstat says what is at a name in a directory, following no link.
func lstat(dir *os.File, name string) (*unix.Stat_t, error) {
	st := new(unix.Stat_t)
	return st, unix.Fstatat(int(dir.Fd()), name, st, unix.AT_SYMLINK_NOFOLLOW)
}

// fail makes the error of a system call one of ours.
func fail(op, path string, err error) error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	e := &Error{Code: Internal, Op: op, Path: jailpath.Quote(path), Err: err}
	for _, m := range []struct {
		errno     unix.Errno
		code      string
		message   string
		retryable bool
	}{
		{unix.ENOENT, NotFound, "there is no such file", false},
		{unix.ENOTDIR, NotFound, "a part of it is no directory", false},
		{unix.ELOOP, InvalidPath, "has a link that is not followed", false},
		{unix.EXDEV, InvalidPath, "leads out of the workspace", false},
		{unix.ENAMETOOLONG, InvalidPath, "is too long", false},
		{unix.EACCES, PermissionDenied, "", false},
		{unix.EPERM, PermissionDenied, "", false},
		{unix.EROFS, PermissionDenied, "the workspace can't be written to", false},
		{unix.ENOSPC, NoSpace, "the workspace is full", false},
		{unix.EDQUOT, NoSpace, "the workspace is full", false},
		{unix.EFBIG, TooLarge, "", false},
		{unix.EISDIR, IsDirectory, "is a directory", false},
		{unix.EEXIST, InvalidState, "is there already", false},
		{unix.ENOTEMPTY, InvalidState, "is a directory that is not empty", false},
		{unix.EAGAIN, InvalidState, "somebody in the jail holds or moves it", true},
		{unix.ETXTBSY, InvalidState, "is being executed", true},
	} {
		if errors.Is(err, m.errno) {
			e.Code, e.Message, e.Retryable = m.code, m.message, m.retryable
			if m.message != "" {
				e.Err = nil
			}
			break
		}
	}
	return e
}

func refuse(code, op, path, format string, args ...any) *Error {
	return &Error{Code: code, Op: op, Path: jailpath.Quote(path), Message: fmt.Sprintf(format, args...)}
}
