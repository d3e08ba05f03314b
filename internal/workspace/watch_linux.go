package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/files"
)

// A Quota bounds what a workspace takes on its file system.
type Quota struct {
	Bytes, Inodes int64
}

// Usage is what it takes.
type Usage struct {
	Bytes, Inodes int64
}

func (u Usage) over(q Quota) bool { return u.Bytes > q.Bytes || u.Inodes > q.Inodes }

// An Excess is why a watch ended.
type Excess struct {
	Usage  Usage
	Reason string // for people
}

const (
	tick     = 20 * time.Millisecond // between two looks at the file system as a whole
	walkMost = time.Second           // between two walks, if those are quick
	// share: a watch pauses for so many times as long as its walk took, and so costs a
	// fifth of a CPU at most.
	share = 4
	// lostMost is how often in a row directories may be moved away under a walk, before
	// that is taken for a way to hide them.
	lostMost = 10
)

// A Watch looks after a quota that the kernel doesn't hold.
type Watch struct {
	Dir   *os.File // of the files; read by the watch alone
	Quota Quota
	// PID1 is the jail's, as this process sees it. Files that its processes hold open
	// without a name, or have mapped, count.
	PID1 int
	// MinFree is what the file system as a whole must keep free. Where it has less
	// than that already, half of what it has.
	MinFree int64
	// Report is told of each measurement; may be nil.
	Report func(Usage)
}

// DefaultMinFree bounds what a jail leaves free of a file system of this size, in bytes:
// a twentieth, at most 1 GiB.
func DefaultMinFree(size int64) int64 { return min(size/20, 1<<30) }

// Run watches until ctx ends (nil), or the quota is exceeded.
//
// How far it may be exceeded: by what can be written in a tick, or, in a tree of very many
// files, in five times the time that a walk over it takes. The file system's own count of
// what is free is looked at each tick, and a walk follows as soon as that could have
// brought the workspace to its quota. Where others free space on that file system
// meanwhile, or it doesn't count its inodes (btrfs), that is seen by the next walk, a
// second later. What the watch can't see, open files on their way through a socket, the
// parts of a nameless file that are not mapped, on btrfs all that is only mapped, and a
// directory that a job moves, each time that it sees a walk coming (inotify(7)), to where
// the walk has been, is bounded by MinFree.
func (w *Watch) Run(ctx context.Context) (*Excess, error) {
	var fs unix.Statfs_t
	if err := statfs(w.Dir, &fs); err != nil {
		return nil, err
	}
	floor := w.MinFree
	if floor == 0 {
		floor = DefaultMinFree(int64(fs.Blocks) * fs.Frsize)
	}
	if free := int64(fs.Bavail) * fs.Frsize; free < 2*floor {
		floor = free / 2
	}
	var last Usage              // at the last walk
	var was unix.Statfs_t       // then
	var walked time.Time        // when it ended
	var pause time.Duration     // until the next may begin
	known := map[uint64]int64{} // bytes of large files, by inode
	lost := 0
	t := time.NewTicker(tick)
	defer t.Stop()
	for first := true; ; first = false {
		if !first {
			select {
			case <-ctx.Done():
				return nil, nil
			case <-t.C:
			}
		}
		if err := statfs(w.Dir, &fs); err != nil {
			return nil, err
		}
		if free := int64(fs.Bavail) * fs.Frsize; free < floor {
			return &Excess{last, fmt.Sprintf("its file system has %d bytes left", free)}, nil
		}
		grown := Usage{
			Bytes:  last.Bytes + (int64(was.Bfree)-int64(fs.Bfree))*fs.Frsize,
			Inodes: last.Inodes + int64(was.Ffree) - int64(fs.Ffree),
		}
		since := time.Since(walked)
		if !first && (since < pause || since < walkMost && !grown.over(w.Quota)) {
			continue
		}
		began := time.Now()
		was = fs // before the walk: what comes meanwhile counts twice, not never
		u, err := w.measure(ctx, known)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case errors.Is(err, unix.EAGAIN):
			if lost++; lost == lostMost {
				return &Excess{u, "what it takes can't be measured: directories are moved all the time"}, nil
			}
		case err != nil:
			return nil, err
		default:
			lost = 0
		}
		last, walked = u, time.Now()
		if w.Report != nil {
			w.Report(u)
		}
		pause = share * walked.Sub(began)
		if u.over(w.Quota) {
			return &Excess{u, fmt.Sprintf("it has %d bytes in %d files, %d and %d are allowed", u.Bytes, u.Inodes, w.Quota.Bytes, w.Quota.Inodes)}, nil
		}
	}
}

func statfs(f *os.File, st *unix.Statfs_t) error {
	for {
		err := unix.Fstatfs(int(f.Fd()), st)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fstatfs", err)
		}
	}
}

// measure adds what has no name to what has.
func (w *Watch) measure(ctx context.Context, known map[uint64]int64) (u Usage, err error) {
	u.Bytes, u.Inodes, err = files.Usage(ctx, w.Dir)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		return u, err
	}
	var st unix.Stat_t
	if serr := unix.Fstat(int(w.Dir.Fd()), &st); serr != nil {
		return u, serr
	}
	n := nameless{dev: st.Dev, known: maps.Clone(known), seen: map[uint64]int64{}}
	clear(known) // what is gone would pile up
	pids, perr := inNamespace(w.PID1)
	if perr != nil {
		return u, perr
	}
	for _, pid := range pids {
		if ctx.Err() != nil {
			break
		}
		if lerr := n.look(pid); lerr != nil {
			return u, lerr
		}
	}
	maps.Copy(known, n.seen)
	for _, b := range n.seen {
		u.Bytes += b
		u.Inodes++
	}
	return u, err
}

// nameless finds files that are open and removed.
type nameless struct {
	dev   uint64
	known map[uint64]int64
	seen  map[uint64]int64
}

// look looks at a process, each thread of it by itself: one can have descriptors of its
// own (clone(2) without CLONE_FILES). One that has ended is no error, and one that can't
// be looked at is another user's; that this process has no descriptor left is.
func (n *nameless) look(pid int) error {
	dir := "/proc/" + strconv.Itoa(pid)
	threads, err := os.ReadDir(dir + "/task")
	if lacking(err) {
		return err
	}
	for _, t := range threads {
		if err := n.descriptors(dir + "/task/" + t.Name()); lacking(err) {
			return err
		}
	}
	return n.maps(dir)
}

// lacking tells what this process lacks from what the other one is.
func lacking(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

func (n *nameless) descriptors(dir string) error {
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return err
	}
	for _, fd := range fds {
		var st unix.Stat_t
		// By the link of procfs, which leads to the open file itself.
		if unix.Stat(dir+"/fd/"+fd.Name(), &st) != nil || st.Dev != n.dev || st.Nlink > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		n.seen[st.Ino] = st.Blocks * 512
	}
	return nil
}

// maps looks for those that are only mapped (proc_pid_maps(5)): of them the kernel tells
// the inode and the mapped part, and what was known of their size while they were open.
func (n *nameless) maps(dir string) error {
	b, err := os.ReadFile(dir + "/maps")
	if lacking(err) {
		return err
	}
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		if !bytes.HasSuffix(line, []byte(" (deleted)")) {
			continue
		}
		f := strings.Fields(string(line))
		if len(f) < 6 {
			continue
		}
		major, minor, _ := strings.Cut(f[3], ":")
		ma, err1 := strconv.ParseUint(major, 16, 32)
		mi, err2 := strconv.ParseUint(minor, 16, 32)
		ino, err3 := strconv.ParseUint(f[4], 10, 64)
		from, to, _ := strings.Cut(f[0], "-")
		a, err4 := strconv.ParseUint(from, 16, 64)
		z, err5 := strconv.ParseUint(to, 16, 64)
		if errors.Join(err1, err2, err3, err4, err5) != nil || unix.Mkdev(uint32(ma), uint32(mi)) != n.dev {
			continue
		}
		n.seen[ino] = max(n.seen[ino], n.known[ino], int64(z-a))
	}
	return nil
}

// inNamespace gives the processes of a jail, which are those of its pid namespace.
func inNamespace(pid1 int) ([]int, error) {
	if pid1 <= 0 {
		return nil, nil
	}
	own, err := os.Readlink("/proc/" + strconv.Itoa(pid1) + "/ns/pid")
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil, nil // it has ended, and all others with it
	}
	if err != nil {
		return nil, err
	}
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if ns, err := os.Readlink("/proc/" + name + "/ns/pid"); err == nil && ns == own {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
