package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killPlaces kills what is in the directories and below. cgroup.kill (5.14)
// kills a tree at once, forks under way included. What v1 alone holds is then
// killed one by one. note, if not nil, hears how often a directory's pids limit
// was hit before killing spoilt that counter.
func killPlaces(ps []place, note func(dir string, hits int64)) error {
	var errs []error
	for _, p := range ps {
		if p.mount.V2 {
			err := writeFile(filepath.Join(p.dir, "cgroup.kill"), "1")
			if err != nil && !gone(err) {
				errs = append(errs, err)
			}
		}
	}
	for _, pids := range []bool{true, false} { // pids first: there forks can be forbidden
		for _, p := range ps {
			if p.mount.V2 || slices.Contains(p.ctls, "pids") != pids {
				continue
			}
			if err := killV1(p, note); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// killRounds bounds the race with a job that forks; with pids.max at 0 two
// rounds do.
const killRounds = 200

// killV1 kills every process in and below a v1 cgroup.
func killV1(p place, note func(string, int64)) error {
	sent := map[int]bool{}
	for range killRounds {
		all, err := subtree(p.dir)
		if err != nil {
			return err
		}
		fresh := 0
		for _, dir := range all {
			pids, err := readPids(dir)
			if err != nil {
				if gone(err) {
					continue
				}
				return fail("read", filepath.Join(dir, "cgroup.procs"), "", err)
			}
			if len(pids) > 0 && slices.Contains(p.ctls, "pids") {
				fence(dir, note)
			}
			for _, pid := range pids {
				if pid == 0 {
					return fail("kill", dir, "", errors.New("holds a process of another pid namespace"))
				}
				if sent[pid] {
					continue
				}
				fresh++
				done, err := killMember(dir, pid)
				if err != nil {
					return fail("kill", dir, fmt.Sprint(pid), err)
				}
				sent[pid] = done
			}
		}
		if fresh == 0 {
			return nil
		}
	}
	return fail("kill", p.dir, "", errors.New("processes appear faster than they can be killed"))
}

// fence forbids forks, so that a fork bomb can't outrun the loop. The forks that
// fail from now on count in pids.events; the number before is kept for Usage.
func fence(dir string, note func(string, int64)) {
	file := filepath.Join(dir, "pids.max")
	if s, err := readString(file); err != nil || s == "0" {
		return
	}
	if note != nil {
		if kv, err := readKV(filepath.Join(dir, "pids.events")); err == nil {
			note(dir, kv["max"])
		}
	}
	_ = writeFile(file, "0")
}

// killMember kills pid if it is still in dir. Between the reading of a pid and
// the signal the process may end and its number go to a stranger: the pidfd
// holds the process, and only then is the membership looked at again.
func killMember(dir string, pid int) (done bool, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return false, nil // gone, or (EINVAL) no longer a thread group's leader
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	now, err := readPids(dir)
	if err != nil {
		if gone(err) {
			return true, nil
		}
		return false, err
	}
	if !slices.Contains(now, pid) {
		return false, nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, err
	}
	return true, nil
}

// treeLimit is how many cgroups may be in one jail: many times its jobs, and what
// can still be gone through.
const treeLimit = 1 << 16

// subtree lists dir and all cgroups below it, parents first; nothing if dir is
// gone. It follows no link and enters nothing that is mounted below: what is
// there is not the jail's, and is neither killed nor removed.
func subtree(dir string) ([]string, error) {
	top, err := openPath(dir)
	if err != nil {
		if gone(err) {
			return nil, nil
		}
		return nil, fail("open", dir, "", err)
	}
	defer top.Close()
	out := []string{dir}
	for i := 0; i < len(out); i++ {
		names, err := below(top, "."+strings.TrimPrefix(out[i], dir))
		if err != nil {
			if gone(err) {
				out = slices.Delete(out, i, i+1)
				i--
				continue
			}
			return nil, fail("read", out[i], "", err)
		}
		for _, name := range names {
			out = append(out, filepath.Join(out[i], name))
		}
		if len(out) > treeLimit {
			return nil, fail("read", dir, "", fmt.Errorf("more than %d cgroups", treeLimit))
		}
	}
	return out, nil
}

// below lists the cgroups in a directory that is in top.
func below(top *os.File, rel string) ([]string, error) {
	fd, err := unix.Openat2(int(top.Fd()), rel, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	es, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range es {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// waitPlaces waits until no process is in the directories or below.
func waitPlaces(ctx context.Context, ps []place) error {
	for _, p := range ps {
		if !p.mount.V2 {
			continue
		}
		if err := waitEvent(ctx, p.dir, "populated", 0); err != nil {
			return fmt.Errorf("cgroup: processes left in %s: %w", p.dir, err)
		}
	}
	for _, p := range ps {
		if p.mount.V2 {
			continue
		}
		if err := waitProcs(ctx, p.dir); err != nil {
			return err
		}
	}
	return nil
}

// waitEvent waits for a line of cgroup.events to be as wanted, which the kernel
// announces to poll. A cgroup that is gone is no error.
func waitEvent(ctx context.Context, dir, key string, want int64) error {
	file := filepath.Join(dir, "cgroup.events")
	f, err := os.Open(file)
	if err != nil {
		if gone(err) {
			return nil
		}
		return fail("read", file, "", err)
	}
	defer f.Close()
	w, err := newWaker(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	for {
		kv, err := rereadKV(f)
		if err != nil {
			if gone(err) {
				return nil
			}
			return fail("read", file, "", err)
		}
		if n, ok := kv[key]; !ok {
			return fail("read", file, "", errors.New("no line "+key))
		} else if n == want {
			return nil
		}
		if _, err := w.poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}); err != nil {
			return err
		}
	}
}

// waitProcs is for v1, which announces nothing: it looks again and again.
func waitProcs(ctx context.Context, dir string) error {
	for wait := 500 * time.Microsecond; ; wait = min(2*wait, 20*time.Millisecond) {
		all, err := subtree(dir)
		if err != nil {
			return err
		}
		empty := true
		for _, d := range all {
			pids, err := readPids(d)
			if err != nil && !gone(err) {
				return fail("read", filepath.Join(d, "cgroup.procs"), "", err)
			}
			empty = empty && len(pids) == 0
		}
		if empty {
			return nil
		}
		if err := sleep(ctx, wait); err != nil {
			return fmt.Errorf("cgroup: processes left in %s: %w", dir, err)
		}
	}
}

// removePlaces removes the directories and the cgroups below them.
func removePlaces(ctx context.Context, ps []place) error {
	var errs []error
	for _, p := range ps {
		if err := removeTree(ctx, p.dir); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeTree removes dir and what is below, the deepest first. Just after a
// kill rmdir answers EBUSY in more than half of all tries, though the cgroup
// empties within milliseconds; one that says "populated 0" goes at once.
func removeTree(ctx context.Context, dir string) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		all, err := subtree(dir)
		if err != nil {
			return err
		}
		var last error
		for _, d := range slices.Backward(all) {
			// rmdir, not os.Remove, which would also unlink a file.
			if err := unix.Rmdir(d); err != nil && !gone(err) {
				last = fail("rmdir", d, "", err)
			}
		}
		if last == nil {
			return nil
		}
		if !errors.Is(last, unix.EBUSY) && !errors.Is(last, unix.ENOTEMPTY) && !errors.Is(last, unix.EINTR) {
			return last
		}
		if err := sleep(ctx, wait); err != nil {
			return errors.Join(last, err)
		}
	}
}

func openPath(dir string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
