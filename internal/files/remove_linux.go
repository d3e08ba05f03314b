package files

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Remove removes a file, a link or an empty directory; with recursive a directory with
// all that is in it. A link is removed, never what it leads to. some says that anything
// is gone, also where it failed then.
func (d *Dir) Remove(ctx context.Context, p string, recursive bool) (some bool, err error) {
	const op = "fs.rm"
	if p, err = cleanBelow(op, p); err != nil {
		return false, err
	}
	dir, name, err := d.Parent(p)
	if err != nil {
		return false, fail(op, p, err)
	}
	defer dir.Close()
	st, err := lstat(dir, name)
	if err != nil {
		return false, fail(op, p, err)
	}
	flags := 0
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	}
	if recursive {
		some, err = removeAll(ctx, dir, name)
	} else {
		err = unix.Unlinkat(int(dir.Fd()), name, flags)
		some = err == nil
	}
	return some, fail(op, p, err)
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
	_, err := removeAll(ctx, parent, name)
	return err
}

func removeAll(ctx context.Context, parent *os.File, name string) (some bool, err error) {
	var r removal
	st, err := r.leaf(parent, name)
	if st == nil {
		return r.some, err
	}
	r.dev = st.Dev
	for n := 0; ; n++ {
		r.top, err = openToEmpty(parent, name)
		if errors.Is(err, unix.ENOENT) {
			return r.some, nil
		}
		if err != nil {
			return r.some, err
		}
		err = r.empty(ctx, r.top, 1)
		r.top.Close()
		if err != nil {
			return r.some, err
		}
		err = r.rmdir(parent, name)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return r.some, nil
		}
		if !errors.Is(err, unix.ENOTEMPTY) || n == rounds {
			return r.some, err
		}
	}
}

// A removal is of one tree.
type removal struct {
	top  *os.File
	dev  uint64
	some bool // of it is gone
}

// leaf removes what is no directory. Of a directory it gives what that is, else nil.
func (r *removal) leaf(dir *os.File, name string) (*unix.Stat_t, error) {
	err := removeName(dir, name, 0)
	if err == nil {
		r.some = true
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	st, serr := lstat(dir, name)
	switch {
	case errors.Is(serr, unix.ENOENT):
		return nil, nil
	case serr != nil:
		return nil, serr
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil, err
	}
	return st, nil
}

func (r *removal) rmdir(dir *os.File, name string) error {
	err := removeName(dir, name, unix.AT_REMOVEDIR)
	r.some = r.some || err == nil
	return err
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
	st, err := r.leaf(dir, name)
	if st == nil {
		return err
	}
	if st.Dev != r.dev {
		return unix.EBUSY // a mount
	}
	if err := r.rmdir(dir, name); err == nil {
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
	err = r.rmdir(dir, name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

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
