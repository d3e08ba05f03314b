package files

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxFrames bounds the descriptors of a walk.
const maxFrames = 64

// Usage adds up what is in a directory: the bytes that are allocated to it and all its
// files (st_blocks, in units of 512), and how many files these are, itself included. A
// file of many names counts once. What is mounted in it doesn't count. What changes
// meanwhile may count or not. A directory that its owner can't read is made readable:
// what is hidden there counts. EAGAIN: directories were moved, and some were not found
// again.
func Usage(ctx context.Context, dir *os.File) (bytes, inodes int64, err error) {
	top, err := openBeneath(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0, beneath)
	if err != nil {
		return 0, 0, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(top.Fd()), &st); err != nil {
		top.Close()
		return 0, 0, err
	}
	w := &usage{dev: st.Dev, many: map[uint64]bool{}}
	w.count(&st)
	defer w.close()
	if err := w.enter(ctx, top, &st); err != nil {
		return 0, 0, err
	}
	for len(w.stack) > 0 {
		if err := context.Cause(ctx); err != nil {
			return 0, 0, err
		}
		if err := w.step(ctx); err != nil {
			return 0, 0, err
		}
	}
	if w.lost {
		return w.bytes, w.inodes, unix.EAGAIN
	}
	return w.bytes, w.inodes, nil
}

type usage struct {
	dev           uint64
	bytes, inodes int64
	many          map[uint64]bool // files with other names, that were counted
	stack         []frame
	lost          bool
}

// A frame is a directory on the way down, with those in it that are still to be entered.
type frame struct {
	f    *os.File // nil: closed, as too many were open
	ino  uint64
	dirs []string
}

func (w *usage) count(st *unix.Stat_t) {
	if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
		if w.many[st.Ino] {
			return
		}
		w.many[st.Ino] = true
	}
	w.bytes += st.Blocks * 512
	w.inodes++
}

// enter counts what is in a directory, and takes it over.
func (w *usage) enter(ctx context.Context, f *os.File, st *unix.Stat_t) error {
	fr := frame{f: f, ino: st.Ino}
	w.stack = append(w.stack, fr)
	top := &w.stack[len(w.stack)-1]
	if n := len(w.stack) - 1 - maxFrames; n >= 0 && w.stack[n].f != nil && n > 0 {
		w.stack[n].f.Close()
		w.stack[n].f = nil
	}
	if st.Mode&0o500 != 0o500 {
		_ = unix.Fchmod(int(f.Fd()), st.Mode&0o7777|0o500)
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			st, err := lstat(f, name)
			if err != nil || st.Dev != w.dev {
				continue // removed meanwhile, or a mount
			}
			w.count(st)
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				top.dirs = append(top.dirs, name)
			}
		}
		if err != nil {
			// A directory that is removed meanwhile has no entries any more.
			w.lost = w.lost || !errors.Is(err, io.EOF) && !errors.Is(err, unix.ENOENT)
			return nil
		}
	}
}

// step enters the next directory of the deepest frame, or goes back up.
func (w *usage) step(ctx context.Context) error {
	top := &w.stack[len(w.stack)-1]
	if len(top.dirs) == 0 || top.f == nil {
		w.lost = w.lost || len(top.dirs) > 0
		w.leave()
		return nil
	}
	name := top.dirs[len(top.dirs)-1]
	top.dirs = top.dirs[:len(top.dirs)-1]
	f, err := openReadable(top.f, name)
	if err != nil {
		w.lost = w.lost || !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Dev != w.dev {
		f.Close()
		return nil
	}
	return w.enter(ctx, f, &st)
}

// openReadable opens a directory, if need be with the permission that its owner has
// taken from himself.
func openReadable(parent *os.File, name string) (*os.File, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW
	f, err := openBeneath(parent, name, unix.O_RDONLY|flags, 0, beneath)
	if !errors.Is(err, unix.EACCES) {
		return f, err
	}
	at, err := openBeneath(parent, name, unix.O_PATH|flags, 0, beneath)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(at.Fd()), &st); err != nil {
		return nil, err
	}
	if err := unix.Chmod(proc(at), st.Mode&0o7777|0o500); err != nil { // follows it to what is open there
		return nil, err
	}
	return openBeneath(parent, name, unix.O_RDONLY|flags, 0, beneath)
}

// leave goes back up. A directory that was closed is found again by "..", and is taken
// for it only if it is the same: the one below may have been moved.
func (w *usage) leave() {
	last := w.stack[len(w.stack)-1]
	w.stack = w.stack[:len(w.stack)-1]
	if last.f == nil {
		return
	}
	defer last.f.Close()
	if len(w.stack) == 0 {
		return
	}
	up := &w.stack[len(w.stack)-1]
	if up.f != nil || len(up.dirs) == 0 && len(w.stack) == 1 {
		return
	}
	fd, err := unix.Openat(int(last.f.Fd()), "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Dev != w.dev || st.Ino != up.ino {
		unix.Close(fd)
		return
	}
	up.f = os.NewFile(uintptr(fd), "..")
}

func (w *usage) close() {
	for _, fr := range w.stack {
		if fr.f != nil {
			fr.f.Close()
		}
	}
}
