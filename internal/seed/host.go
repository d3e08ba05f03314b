package seed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/jailpath"
)

// A source is where a file's bytes come from.
type source interface {
	// open gives them, and how many they are.
	open() (io.ReaderAt, int64, func(), error)
	// String names it in messages; "" for what came with the request.
	String() string
}

// inline bytes came with the request.
type inline []byte

func (b inline) open() (io.ReaderAt, int64, func(), error) {
	return bytes.NewReader(b), int64(len(b)), func() {}, nil
}

func (inline) String() string { return "" }

// opened is a file that was named itself.
type opened struct {
	f    *os.File
	name string
}

func (o opened) open() (io.ReaderAt, int64, func(), error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(o.f.Fd()), &st); err != nil {
		return nil, 0, nil, hostError(o.name, err)
	}
	return o.f, st.Size, func() {}, nil
}

func (o opened) String() string { return o.name }

// beneath is a file in a directory that was named.
type beneath struct {
	top *os.File
	rel string
}

func (b beneath) open() (io.ReaderAt, int64, func(), error) {
	fd, err := openBeneath(b.top, b.rel, 0)
	if err != nil {
		return nil, 0, nil, hostError(b.String(), err)
	}
	f := os.NewFile(uintptr(fd), b.String())
	st, err := regular(f)
	if err != nil {
		f.Close()
		return nil, 0, nil, err
	}
	return f, st.Size, func() { f.Close() }, nil
}

func (b beneath) String() string { return b.top.Name() + "/" + b.rel }

// openFlags: no symbolic link; no waiting for the writer of a FIFO or for another's
// lease (fcntl(2), F_SETLEASE); no terminal that becomes ours.
const openFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// openFile opens a regular file of the host by its name. What it is is asked
// before, since to open a device may do something, and again of the descriptor.
func openFile(name string) (*os.File, *unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return nil, nil, hostError(name, err)
	}
	if err := checkKind(name, st.Mode, unix.S_IFREG); err != nil {
		return nil, nil, err
	}
	fd, err := ignoringEINTR(func() (int, error) { return unix.Open(name, openFlags, 0) })
	if err != nil {
		return nil, nil, hostError(name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	now, err := regular(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, now, nil
}

// regular wants f to be a regular file.
func regular(f *os.File) (*unix.Stat_t, error) {
	st := new(unix.Stat_t)
	if err := unix.Fstat(int(f.Fd()), st); err != nil {
		return nil, hostError(f.Name(), err)
	}
	return st, checkKind(f.Name(), st.Mode, unix.S_IFREG)
}

// openBeneath opens rel below top, through no symbolic link anywhere in it.
func openBeneath(top *os.File, rel string, flags uint64) (int, error) {
	return ignoringEINTR(func() (int, error) {
		return unix.Openat2(int(top.Fd()), rel, &unix.OpenHow{
			Flags:   openFlags | flags,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
	})
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR {
			return n, err
		}
	}
}

var kinds = map[uint32]string{
	unix.S_IFREG: "a file", unix.S_IFDIR: "a directory", unix.S_IFLNK: "a symbolic link", unix.S_IFIFO: "a FIFO",
	unix.S_IFSOCK: "a socket", unix.S_IFCHR: "a character device", unix.S_IFBLK: "a block device",
}

// checkKind refuses what isn't of the kind want.
func checkKind(name string, mode, want uint32) error {
	kind := mode & unix.S_IFMT
	if kind == want {
		return nil
	}
	e := &jailer.Error{Code: jailer.CodeNotRegular, Op: op, Path: jailpath.Quote(name), Message: fmt.Sprintf("is %s, want %s", kinds[kind], kinds[want])}
	switch {
	case kind == unix.S_IFLNK:
		e.Code = jailer.CodeInvalidPath
		e.Hint = "symbolic links are not followed: name what it leads to, as `readlink -f` prints it"
	case kind == unix.S_IFDIR:
		e.Code = jailer.CodeIsDirectory
		e.Hint = "--dir DST=SRC copies a directory"
	case want == unix.S_IFDIR && kind == unix.S_IFREG:
		e.Code = jailer.CodeInvalidPath
		e.Hint = "--file DST=SRC copies a file"
	}
	return e
}

// hostError is err of a host path, as an error of ours.
func hostError(name string, err error) *jailer.Error {
	e := &jailer.Error{Code: jailer.CodeInvalidPath, Op: op, Path: jailpath.Quote(name), Err: err}
	switch {
	case errors.Is(err, unix.ENOENT):
		e.Code = jailer.CodeNotFound
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		e.Code = jailer.CodePermissionDenied
	case errors.Is(err, unix.ELOOP):
		e.Message = "a symbolic link has come into its place"
	case errors.Is(err, unix.EAGAIN):
		e.Code, e.Retryable = jailer.CodePermissionDenied, true
		e.Message, e.Err = "another process holds a lease on it", nil
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		e.Code, e.Hint = jailer.CodeInternal, "raise the limit of open files (ulimit -n), or put the files into one directory for --dir"
	}
	return e
}
