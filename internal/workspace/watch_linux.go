package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
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

func (u Usage) add(v Usage) Usage { return Usage{u.Bytes + v.Bytes, u.Inodes + v.Inodes} }

// beyond says it for people.
func (u Usage) beyond(q Quota) string {
	return fmt.Sprintf("it has %d bytes in %d files, %d and %d are allowed", u.Bytes, u.Inodes, q.Bytes, q.Inodes)
}

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
	// Below these nothing is unexplained: a file system's own bookkeeping.
	slackBytes  = 16 << 20
	slackInodes = 1 << 10
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
	// Freeze stops the jail's processes until thaw is called; nil where nothing can.
	Freeze func(context.Context) (thaw func() error, err error)
	// Report is told of each measurement; may be nil.
	Report func(Usage)

	begun *count
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
// A job can see a walk coming (inotify(7)), and move what it has to where the walk has
// been. So the walk is done again with the job stopped (Freeze) when the file system has
// lost much more than the walks explain, or the tree is not to be gone through.
//
// The watch can't see open files on their way through a socket, the parts of a nameless
// file that are not mapped, on btrfs all that is only mapped, nor, without Freeze, what is
// moved. For those the job is ended when less than MinFree is left, as seen at a tick.
//
// While a process of the jail hides its open files from an unprivileged watch (it is not
// dumpable, prctl(2)), all that the file system loses counts as the workspace's.
func (w *Watch) Run(ctx context.Context) (*Excess, error) {
	if w.begun == nil {
		if over, err := w.Begin(ctx); over != nil || err != nil {
			return over, err
		}
	}
	floor := w.MinFree
	if floor == 0 {
		floor = DefaultMinFree(int64(w.begun.fs.Blocks) * w.begun.fs.Frsize)
	}
	if free := int64(w.begun.fs.Bavail) * w.begun.fs.Frsize; free < 2*floor {
		floor = free / 2
	}
	// The last walk, the last that nothing could mislead, the last from which nothing was hidden.
	last, sure, open := *w.begun, *w.begun, *w.begun
	walked := time.Now()
	var pause time.Duration     // until the next walk may begin
	known := map[uint64]int64{} // bytes of nameless files, by inode
	lost, hidden := 0, 0        // so many walks in a row
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-t.C:
		}
		var fs unix.Statfs_t
		if err := statfs(w.Dir, &fs); err != nil {
			return nil, err
		}
		if free := int64(fs.Bavail) * fs.Frsize; free < floor {
			return &Excess{last.Usage, fmt.Sprintf("its file system has %d bytes left", free)}, nil
		}
		since := time.Since(walked)
		if since < pause || since < walkMost && !last.add(last.lost(&fs)).over(w.Quota) {
			continue
		}
		began := time.Now()
		now, hides, err := w.walk(ctx, known)
		if w.Freeze != nil && (errors.Is(err, unix.EAGAIN) || err == nil && now.unexplained(&sure).over(w.slack())) {
			now, hides, err = w.frozen(ctx, known)
			sure = now
		}
		if !hides {
			open, hidden = now, 0
		} else if hidden++; hidden > 1 { // the first may have met a process on its way to its exec
			now.Bytes = max(now.Bytes, open.Bytes+open.lost(&now.fs).Bytes)
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case errors.Is(err, unix.EAGAIN):
			if lost++; lost == lostMost {
				return &Excess{now.Usage, "what it takes can't be measured: directories are moved all the time"}, nil
			}
		case err != nil:
			return nil, err
		default:
			lost = 0
		}
		last, walked = now, time.Now()
		if w.Report != nil {
			w.Report(last.Usage)
		}
		pause = share * walked.Sub(began)
		if last.over(w.Quota) {
			why := last.beyond(w.Quota)
			if hidden > 1 {
				why += "; a process of it hides its open files, so that all that its file system lost was counted"
			}
			return &Excess{last.Usage, why}, nil
		}
	}
}

// Begin measures what the workspace has before the jail writes to it. What is over its
// quota now is not for Run, which would end the jail at once.
func (w *Watch) Begin(ctx context.Context) (*Excess, error) {
	c, _, err := w.walk(ctx, map[uint64]int64{})
	if err != nil {
		return nil, err
	}
	w.begun = &c
	if c.over(w.Quota) {
		return &Excess{c.Usage, c.beyond(w.Quota)}, nil
	}
	return nil, nil
}

// walk counts. The file system's count is taken before: what comes meanwhile counts
// twice, not never.
func (w *Watch) walk(ctx context.Context, known map[uint64]int64) (c count, hides bool, err error) {
	if err := statfs(w.Dir, &c.fs); err != nil {
		return c, false, err
	}
	c.Usage, hides, err = w.measure(ctx, known)
	return c, hides, err
}

// frozen counts while the jail is stopped.
func (w *Watch) frozen(ctx context.Context, known map[uint64]int64) (c count, hides bool, err error) {
	thaw, err := w.Freeze(ctx)
	if err != nil {
		return c, false, err
	}
	c, hides, err = w.walk(ctx, known)
	return c, hides, errors.Join(err, thaw())
}

// A count is what a walk found, and the file system's own count before it.
type count struct {
	Usage
	fs unix.Statfs_t
}

// lost is what the file system has less of now, whoever took it.
func (c *count) lost(now *unix.Statfs_t) Usage {
	return Usage{
		Bytes:  (int64(c.fs.Bfree) - int64(now.Bfree)) * now.Frsize,
		Inodes: int64(c.fs.Ffree) - int64(now.Ffree),
	}
}

// unexplained is what the file system lost since an earlier count and no walk found.
func (c *count) unexplained(earlier *count) Usage {
	u := earlier.lost(&c.fs)
	return Usage{Bytes: u.Bytes - (c.Bytes - earlier.Bytes), Inodes: u.Inodes - (c.Inodes - earlier.Inodes)}
}

// slack is what may be unexplained before the job is stopped for a walk: others write to
// that file system too.
func (w *Watch) slack() Quota {
	return Quota{Bytes: max(w.Quota.Bytes/4, slackBytes), Inodes: max(w.Quota.Inodes/4, slackInodes)}
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
