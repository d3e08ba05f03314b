package files

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/jailpath"
)

// PutOptions say how a file is written.
type PutOptions struct {
	Mode      uint32 // permission bits
	Max       int64  // bytes
	Parents   bool   // make the directories above it
	Exclusive bool   // refuse to replace a file
}

// Written is what a Put has done.
type Written struct {
	Bytes int64
	Made  string // the last of the directories that it made above the file, also where it failed then; "" for none
}

// Put writes a file, which is there whole or not at all: it has no name before its last
// byte is written (O_TMPFILE, open(2)), and then takes the place of an older one. What
// is no regular file is not replaced, and a link not written through. Its owner is that
// of the root.
func (d *Dir) Put(ctx context.Context, p string, r io.Reader, o PutOptions) (w Written, err error) {
	const op = "fs.put"
	if o.Mode > 0o777 {
		return w, refuse(InvalidRequest, op, p, "mode %04o given, only permission bits are possible", o.Mode)
	}
	if p, err = cleanBelow(op, p); err != nil {
		return w, err
	}
	if o.Parents {
		if w.Made, err = d.mkdirs(parentOf(p)); err != nil {
			return w, fail(op, p, err)
		}
	}
	dir, name, err := d.Parent(p)
	if err != nil {
		return w, fail(op, p, err)
	}
	defer dir.Close()
	if err := replaceable(op, p, dir, name, o.Exclusive); err != nil {
		return w, err
	}
	t, err := newTemp(dir)
	if err != nil {
		return w, fail(op, p, err)
	}
	defer t.remove()
	n, err := copyUpTo(ctx, t.f, r, o.Max)
	if errors.Is(err, errMore) {
		return w, refuse(TooLarge, op, p, "more than the %d bytes allowed", o.Max)
	}
	var in writeError
	if errors.As(err, &in) {
		err = in.err
	} else if err != nil && ctx.Err() != nil {
		return w, context.Cause(ctx)
	} else if err != nil {
		return w, &Error{Code: Internal, Op: op, Path: jailpath.Quote(p), Message: "the input can't be read", Err: err}
	}
	if err == nil {
		err = d.own(t.f)
	}
	if err == nil {
		err = unix.Fchmod(int(t.f.Fd()), o.Mode)
	}
	if cause := context.Cause(ctx); err == nil && cause != nil {
		return w, cause // the last moment at which nothing is there of it
	}
	if err == nil {
		err = t.name(name, o.Exclusive)
	}
	if err == nil {
		w.Bytes = n
	}
	return w, fail(op, p, err)
}

func parentOf(p string) string {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i]
	}
	return "."
}

// replaceable refuses what a file must not take the place of. Somebody may put it there
// later: then the rename replaces it, without a look through it.
func replaceable(op, p string, dir *os.File, name string, exclusive bool) error {
	st, err := lstat(dir, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fail(op, p, err)
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return onlyRegular(op, p, st)
	case exclusive:
		return fail(op, p, unix.EEXIST)
	}
	return nil
}

// own gives the root directory's owner a file that root made.
func (d *Dir) own(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var root, st unix.Stat_t
	if err := errors.Join(unix.Fstat(int(d.f.Fd()), &root), unix.Fstat(int(f.Fd()), &st)); err != nil {
		return err
	}
	if st.Uid == root.Uid && st.Gid == root.Gid {
		return nil
	}
	return unix.Fchown(int(f.Fd()), int(root.Uid), int(root.Gid))
}

// A temp is a file on its way to its name.
type temp struct {
	f    *os.File
	dir  *os.File
	path string // the name that it has meanwhile, in dir; "" for none
}

// tempMark begins the names that files have on their way.
const tempMark = ".jailer-"

func newTemp(dir *os.File) (*temp, error) {
	f, err := openBeneath(dir, ".", unix.O_TMPFILE|unix.O_WRONLY, 0o600, beneath)
	if err == nil {
		return &temp{f: f, dir: dir}, nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EINVAL) {
		return nil, err
	}
	name := tempName()
	f, err = openBeneath(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW, 0o600, beneath)
	if err != nil {
		return nil, err
	}
	return &temp{f: f, dir: dir, path: name}, nil
}

func tempName() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	return tempMark + hex.EncodeToString(b[:])
}

// name gives the file its name, and takes that from an older one unless exclusive.
func (t *temp) name(name string, exclusive bool) error {
	dir := int(t.dir.Fd())
	if t.path == "" {
		err := unix.Linkat(unix.AT_FDCWD, proc(t.f), dir, name, unix.AT_SYMLINK_FOLLOW)
		if err == nil || exclusive || !errors.Is(err, unix.EEXIST) {
			return err
		}
		t.path = tempName() // link(2) replaces nothing, rename(2) does
		if err := unix.Linkat(unix.AT_FDCWD, proc(t.f), dir, t.path, unix.AT_SYMLINK_FOLLOW); err != nil {
			t.path = ""
			return err
		}
	}
	flags := uint(0)
	if exclusive {
		flags = unix.RENAME_NOREPLACE
	}
	err := unix.Renameat2(dir, t.path, dir, name, flags)
	if err == nil {
		t.path = ""
	}
	return err
}

func (t *temp) remove() {
	if t.path != "" {
		_ = unix.Unlinkat(int(t.dir.Fd()), t.path, 0)
	}
	t.f.Close()
}

// Mkdir makes a directory. With parents those above it are made too, and one that is
// there is no error. made is the last one that it made, also where it failed then; "" for
// none.
func (d *Dir) Mkdir(p string, parents bool, mode uint32) (made string, err error) {
	const op = "fs.mkdir"
	if mode > 0o777 {
		return "", refuse(InvalidRequest, op, p, "mode %04o given, only permission bits are possible", mode)
	}
	if p, err = cleanBelow(op, p); err != nil {
		return "", err
	}
	if parents {
		if made, err = d.mkdirs(parentOf(p)); err != nil {
			return made, fail(op, p, err)
		}
	}
	dir, name, err := d.Parent(p)
	if err != nil {
		return made, fail(op, p, err)
	}
	defer dir.Close()
	err = d.mkdirAt(dir, name, mode)
	if err == nil {
		return p, nil
	}
	if errors.Is(err, unix.EEXIST) && parents {
		st, serr := lstat(dir, name)
		switch {
		case serr != nil:
			err = serr
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			err = nil
		default:
			return made, refuse(NotRegular, op, p, "is a %s, no directory", typeOf(st.Mode))
		}
	}
	return made, fail(op, p, err)
}

// mkdirs makes every directory of a clean path that is not there. made is the last one.
func (d *Dir) mkdirs(p string) (made string, err error) {
	if p == "." {
		return "", nil
	}
	for end := 0; end < len(p); {
		next := strings.IndexByte(p[end:], '/')
		if next < 0 {
			next = len(p) - end
		}
		upTo := p[:end+next]
		end += next + 1
		f, err := d.Open(upTo, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err == nil {
			f.Close()
			continue
		}
		if !errors.Is(err, unix.ENOENT) {
			return made, err
		}
		dir, name, err := d.Parent(upTo)
		if err != nil {
			return made, err
		}
		err = d.mkdirAt(dir, name, 0o755)
		dir.Close()
		if err == nil {
			made = upTo
		} else if !errors.Is(err, unix.EEXIST) {
			return made, err
		}
	}
	return made, nil
}

// mkdirAt makes one directory with exactly this mode.
func (d *Dir) mkdirAt(dir *os.File, name string, mode uint32) error {
	if err := unix.Mkdirat(int(dir.Fd()), name, 0o700); err != nil {
		return err
	}
	// Somebody may have put another directory of his there: then that gets the mode.
	f, err := openBeneath(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0, beneath)
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(d.own(f), unix.Fchmod(int(f.Fd()), mode))
}
