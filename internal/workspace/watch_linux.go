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
// files, in five times the time that a walk over it takes; a job must have
// seccomp.NoPreallocation, or it takes what it wants in one call. The file system's own
// count of what is free is looked at each tick, and a walk follows as soon as that could
// have brought the workspace to its quota. Where others free space on that file system
// meanwhile, or it doesn't count its inodes (btrfs), that is seen by the next walk, a
// second later.
//
// The watch can't see open files on their way through a socket, the parts of a nameless
// file that are not mapped, on btrfs all that is only mapped, nor what a job moves, each
// time that it sees a walk coming (inotify(7)), to where the walk has been. For those the
// job is ended when less than MinFree is left, as seen at a tick.
//
// While a process of the jail hides its open files from an unprivileged watch (it is not
// dumpable, prctl(2)), all that the file system loses counts as the workspace's.
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
	var last Usage                              // at the last walk
	var was unix.Statfs_t                       // then
	var walked time.Time                        // when it ended
	var pause time.Duration                     // until the next may begin
	known := map[uint64]int64{}                 // bytes of nameless files, by inode
	open, openUsage := unix.Statfs_t{}, Usage{} // when no process hid anything
	lost, hidden := 0, 0                        // so many walks in a row
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
		u, hides, err := w.measure(ctx, known)
		if !hides {
			open, openUsage, hidden = was, u, 0
		} else if hidden++; hidden > 1 { // the first may have met a process on its way to its exec
			u.Bytes = max(u.Bytes, openUsage.Bytes+(int64(open.Bfree)-int64(was.Bfree))*was.Frsize)
		}
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
			why := fmt.Sprintf("it has %d bytes in %d files, %d and %d are allowed", u.Bytes, u.Inodes, w.Quota.Bytes, w.Quota.Inodes)
			if hidden > 1 {
				why += "; a process of it hides its open files, so that all that its file system lost was counted"
			}
			return &Excess{u, why}, nil
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

// Measure is what the workspace takes now, and whether that is more than its quota. It
// may be called while Run runs.
func (w *Watch) Measure(ctx context.Context) (u Usage, over bool, err error) {
	u, _, err = w.measure(ctx, map[uint64]int64{})
	return u, u.over(w.Quota), err
}

// measure adds what has no name to what has. hides: not all of that could be seen.
func (w *Watch) measure(ctx context.Context, known map[uint64]int64) (u Usage, hides bool, err error) {
	u.Bytes, u.Inodes, err = files.Usage(ctx, w.Dir)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		return u, false, err
	}
	var st unix.Stat_t
	if serr := unix.Fstat(int(w.Dir.Fd()), &st); serr != nil {
		return u, false, serr
	}
	n := nameless{dev: st.Dev, known: maps.Clone(known), seen: map[uint64]int64{}}
	clear(known) // what is gone would pile up
	pids, perr := inNamespace(w.PID1)
	if perr != nil {
		return u, false, perr
	}
	for _, pid := range pids {
		if ctx.Err() != nil {
			break
		}
		hidden, lerr := n.look(pid)
		if lerr != nil {
			return u, false, lerr
		}
		hides = hides || hidden && pid != w.PID1 // which is ours, and holds no file of the job's
	}
	maps.Copy(known, n.seen)
	for _, b := range n.seen {
		u.Bytes += b
		u.Inodes++
	}
	return u, hides, err
}

// nameless finds files that are in use and removed.
type nameless struct {
	dev   uint64
	known map[uint64]int64
	seen  map[uint64]int64
}

// look looks at a process, each thread of it by itself: one can have descriptors of its
// own (clone(2) without CLONE_FILES). One that has ended is no error; that this process
// has no descriptor left is.
func (n *nameless) look(pid int) (hidden bool, err error) {
	dir := "/proc/" + strconv.Itoa(pid)
	threads, err := os.ReadDir(dir + "/task")
	if lacking(err) {
		return false, err
	}
	for _, t := range threads {
		task := dir + "/task/" + t.Name()
		err := n.descriptors(task)
		if lacking(err) {
			return false, err
		}
		// A process that has lost its memory on its way to its end looks the same.
		hidden = hidden || errors.Is(err, unix.EACCES) && inMemory(task)
	}
	return hidden, n.maps(dir)
}

// inMemory says whether a thread still has an address space (proc_pid_statm(5)).
func inMemory(dir string) bool {
	b, err := os.ReadFile(dir + "/statm")
	return err == nil && !bytes.HasPrefix(b, []byte("0 "))
}

// lacking tells what this process lacks from what the other one is.
func lacking(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// descriptors looks for those that are open, and at the directories that a thread is in.
func (n *nameless) descriptors(dir string) error {
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return err
	}
	n.one(dir + "/cwd")
	n.one(dir + "/root")
	for _, fd := range fds {
		n.one(dir + "/fd/" + fd.Name())
	}
	return nil
}

// one counts a file by a link of procfs, which leads to what is open itself.
func (n *nameless) one(link string) {
	var st unix.Stat_t
	if unix.Stat(link, &st) == nil && st.Dev == n.dev && st.Nlink == 0 {
		n.seen[st.Ino] = st.Blocks * 512
	}
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
