package files

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Remove removes a file, a link or an empty directory; with recursive a directory with
// all that is in it. A link is removed, never what it leads to.
func (d *Dir) Remove(ctx context.Context, p string, recursive bool) error {
	const op = "fs.rm"
	p, err := cleanBelow(op, p)
	if err != nil {
		return err
	}
	dir, name, err := d.Parent(p)
	if err != nil {
		return fail(op, p, err)
	}
	defer dir.Close()
	st, err := lstat(dir, name)
	if err != nil {
		return fail(op, p, err)
	}
	switch {
	case recursive:
		err = RemoveAll(ctx, dir, name)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		err = unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
	default:
		err = unix.Unlinkat(int(dir.Fd()), name, 0)
	}
	return fail(op, p, err)
}

const (
	// maxOpen bounds the descriptors of a removal. What lies deeper is moved up: a path
	// of 5000 directories has no name that the kernel would take, and to come back by
	// ".." would follow a directory that somebody moves meanwhile.
	maxOpen = 64
	// rounds bounds how often a tree is emptied that somebody fills meanwhile.
	rounds = 16
)

// RemoveAll removes what is at a name in a directory, whatever a job has made of it:
// trees of any depth, directories without permissions, for root immutable files. It
// follows no link and leaves what is mounted in it. One that is not there is no error.
func RemoveAll(ctx context.Context, parent *os.File, name string) error {
	err := unlink(parent, name)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	st, serr := lstat(parent, name)
	switch {
	case errors.Is(serr, unix.ENOENT):
		return nil
	case serr != nil:
		return serr
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return err
	}
	for n := 0; ; n++ {
		r, err := removalOf(parent, name, st.Dev)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return err
		}
		err = r.empty(ctx, r.top, 1)
		r.top.Close()
		if err != nil {
			return err
		}
		err = rmdir(parent, name)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.ENOTEMPTY) || n == rounds {
			return err
		}
	}
}

// A removal is of one tree.
type removal struct {
	top *os.File
	dev uint64
}

func removalOf(parent *os.File, name string, dev uint64) (*removal, error) {
	top, err := openToEmpty(parent, name)
	return &removal{top, dev}, err
}

// openToEmpty opens a directory, with the permissions that its owner needs to empty it.
func openToEmpty(parent *os.File, name string) (*os.File, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW
	f, err := openBeneath(parent, name, unix.O_RDONLY|flags, 0, beneath)
	if errors.Is(err, unix.EACCES) {
		var at *os.File
		if at, err = openBeneath(parent, name, unix.O_PATH|flags, 0, beneath); err != nil {
			return nil, err
		}
		// chmod(2) follows the name of a descriptor to what is open there.
		err = unix.Chmod(proc(at), 0o700)
		at.Close()
		if err == nil {
			f, err = openBeneath(parent, name, unix.O_RDONLY|flags, 0, beneath)
		}
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		f.Close()
		return nil, err
	}
	if st.Mode&0o700 != 0o700 {
		unlock(f)
		_ = unix.Fchmod(int(f.Fd()), 0o700) // what that is needed for fails then
	}
	return f, nil
}

// empty removes what is in a directory. Its names are read again until there are none:
// a reading may miss some while others are removed.
func (r *removal) empty(ctx context.Context, dir *os.File, depth int) error {
	for n := 0; ; n++ {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return err
		}
		seen, err := r.pass(ctx, dir, depth)
		if err != nil || !seen {
			return err
		}
		// What was seen is gone, so each pass but the first finds what is new.
		if depth > 1 && n == rounds || n == 1000*rounds {
			return unix.ENOTEMPTY
		}
	}
}

// pass removes the names of one reading.
func (r *removal) pass(ctx context.Context, dir *os.File, depth int) (seen bool, err error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return seen, err
		}
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			seen = true
			if err := r.one(ctx, dir, name, depth); err != nil {
				return seen, err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) {
			return seen, nil // one that another has removed has no entries any more
		}
		if err != nil {
			return seen, err
		}
	}
}

func (r *removal) one(ctx context.Context, dir *os.File, name string, depth int) error {
	err := unlink(dir, name)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	st, serr := lstat(dir, name)
	switch {
	case errors.Is(serr, unix.ENOENT):
		return nil
	case serr != nil:
		return serr
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return err
	case st.Dev != r.dev:
		return unix.EBUSY // a mount
	}
	if err := rmdir(dir, name); err == nil {
		return nil
	}
	child, err := openToEmpty(dir, name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil // changed meanwhile: the next pass sees
	}
	if err != nil {
		return err
	}
	defer child.Close()
	if depth >= maxOpen {
		err := unix.Renameat2(int(dir.Fd()), name, int(r.top.Fd()), tempName(), unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.ENOENT) {
			return nil // moved meanwhile
		}
		return err
	}
	if err := r.empty(ctx, child, depth+1); err != nil {
		return err
	}
	err = rmdir(dir, name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

func unlink(dir *os.File, name string) error { return removeName(dir, name, 0) }

func rmdir(dir *os.File, name string) error { return removeName(dir, name, unix.AT_REMOVEDIR) }

// removeName clears, for root, the attributes that keep a name where it is.
func removeName(dir *os.File, name string, flags int) error {
	err := unix.Unlinkat(int(dir.Fd()), name, flags)
	if !errors.Is(err, unix.EPERM) || os.Geteuid() != 0 {
		return err
	}
	freed := false
	if d, derr := reopen(dir, unix.O_RDONLY|unix.O_DIRECTORY); derr == nil {
		freed = unlock(d)
		d.Close()
	}
	if st, serr := lstat(dir, name); serr == nil && (st.Mode&unix.S_IFMT == unix.S_IFREG || st.Mode&unix.S_IFMT == unix.S_IFDIR) {
		// Looked at before it is opened: another may have its name by now.
		if at, aerr := openBeneath(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0, beneath); aerr == nil {
			var now unix.Stat_t
			if unix.Fstat(int(at.Fd()), &now) == nil && now.Mode&unix.S_IFMT == st.Mode&unix.S_IFMT {
				if f, ferr := reopen(at, unix.O_RDONLY); ferr == nil {
					freed = unlock(f) || freed
					f.Close()
				}
			}
			at.Close()
		}
	}
	if !freed {
		return err
	}
	return unix.Unlinkat(int(dir.Fd()), name, flags)
}

// The attributes of ioctl_iflags(2) that forbid removal.
const locks = 0x10 /* FS_IMMUTABLE_FL */ | 0x20 /* FS_APPEND_FL */

// unlock clears them, and says whether there were any. That takes
// CAP_LINUX_IMMUTABLE.
func unlock(f *os.File) bool {
	n, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil || n&locks == 0 {
		return false
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(n&^locks)) == nil
}
