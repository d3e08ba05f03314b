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
	"sync"
	"time"
)

// Jail is the tree of one jail.
type Jail struct {
	base   *Base
	owner  int
	places []place

	mu     sync.Mutex
	fenced map[string]int64 // v1: a job's pids.events before killing forbade all forks
}

// jailPrefix begins the name of each jail's directory; Reap touches no other.
const jailPrefix = "jail-"

// Plan returns every directory that Create(id) would make, so that the caller
// can write them down first: a launcher killed in between must not leave a
// cgroup that no record names. What is made later lies below these.
func (b *Base) Plan(id string) []string { return dirs(b.plan(id)) }

func (b *Base) plan(id string) []place {
	out := make([]place, len(b.places))
	for i, p := range b.places {
		out[i] = p.child(jailPrefix + id)
	}
	return out
}

func checkID(id string) error {
	ok := id != "" && len(id) <= 128 && strings.IndexFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' || r == '+')
	}) < 0
	if !ok {
		return fmt.Errorf("cgroup: bad jail id %q", id)
	}
	return nil
}

// Create makes the tree of a new jail. One that exists already is refused
// (fs.ErrExist): two jails in one cgroup would die together. owner ≥ 0, for
// real root, is the jail's host uid, which on v2 gets the cgroup.procs files:
// CLONE_INTO_CGROUP checks the caller, PID 1, against those of the target and
// of the common ancestor. On v1 the opener of a descriptor counts instead.
func (b *Base) Create(id string, owner int) (_ *Jail, err error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	j := &Jail{base: b, owner: owner}
	defer func() {
		if err != nil {
			for _, p := range j.places {
				_ = os.Remove(p.dir) // what we made; nobody is in it yet
			}
		}
	}()
	for _, p := range b.plan(id) {
		if err := b.o.mkdir(p.dir); err != nil {
			return nil, fail("mkdir", p.dir, "", err)
		}
		j.places = append(j.places, p)
		if b.kind == V1 {
			continue
		}
		if err := b.o.enable(p.dir, p.ctls, nil); err != nil {
			return nil, err
		}
		if err := j.give(p.dir); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// give lets the jail's owner join dir.
func (j *Jail) give(dir string) error {
	if j.owner < 0 || j.base.kind == V1 {
		return nil
	}
	file := filepath.Join(dir, "cgroup.procs")
	if err := os.Lchown(file, j.owner, -1); err != nil {
		return fail("chown", file, fmt.Sprint(j.owner), err)
	}
	return nil
}

// initName is PID 1's cgroup in a jail's.
const initName = "init"

// InitPath is the cgroup for libcontainer's init as libcontainer wants it, from
// the mount point of the hierarchy; "" on v1, where init stays in the
// launcher's cgroup. Either libcontainer makes it, or Adopt does; Remove removes
// it with the rest.
func (j *Jail) InitPath() string {
	if j.base.kind == V1 {
		return ""
	}
	p := j.places[0]
	return strings.TrimPrefix(filepath.Join(p.dir, initName), strings.TrimSuffix(p.mount.Point, "/"))
}

// Adopt makes the cgroup of InitPath and moves pid there: PID 1, before it has
// started anything. On v1 it does nothing.
func (j *Jail) Adopt(pid int) error {
	if j.base.kind == V1 {
		return nil
	}
	dir := filepath.Join(j.places[0].dir, initName)
	if err := j.base.o.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return fail("mkdir", dir, "", err)
	}
	return j.base.o.write(filepath.Join(dir, "cgroup.procs"), fmt.Sprint(pid))
}

// Paths returns the jail's directories, as Plan did.
func (j *Jail) Paths() []string { return dirs(j.places) }

// Kill sends SIGKILL to every process of the jail, PID 1 too on v2. It doesn't
// wait. On v1 PID 1 is in no cgroup of ours: the caller kills it.
func (j *Jail) Kill() error { return killPlaces(j.places, j.note) }

func (j *Jail) note(dir string, hits int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.fenced[dir]; ok {
		return
	}
	if j.fenced == nil {
		j.fenced = map[string]int64{}
	}
	j.fenced[dir] = hits
}

// pidsHits is the pids limit's counter of a job's directory, which now reads n.
func (j *Jail) pidsHits(dir string, n int64) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if before, ok := j.fenced[dir]; ok {
		return before
	}
	return n
}

// forget drops what was noted about directories: the next job there counts anew.
func (j *Jail) forget(dirs []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, dir := range dirs {
		delete(j.fenced, dir)
	}
}

// WaitEmpty returns when no process is left in the jail, else ctx's error.
func (j *Jail) WaitEmpty(ctx context.Context) error { return waitPlaces(ctx, j.places) }

// Remove removes the jail's cgroups, children first, trying again while the
// kernel says EBUSY and ctx lasts. Cgroups that are gone already are fine.
func (j *Jail) Remove(ctx context.Context) error { return removePlaces(ctx, j.places) }

// Job is the cgroup of one command.
type Job struct {
	jail   *Jail
	places []place
	limits Limits
}

// removeWait bounds Job.Remove: past it gc gets the directory.
const removeWait = 2 * time.Second

// NewJob makes the cgroup of a command, which n ≥ 1 tells from the jail's others
// (one whose cgroup is there is fs.ErrExist), sets all its limits and reads each
// one back. A limit that did not take is an error.
func (j *Jail) NewJob(n int, l Limits) (_ *Job, err error) {
	if n < 1 {
		return nil, fmt.Errorf("cgroup: bad job number %d", n)
	}
	if min(l.Memory, l.Swap, l.Pids, l.CPUMilli, l.IORead, l.IOWrite) < 0 {
		return nil, fmt.Errorf("cgroup: negative limit in %+v", l)
	}
	o := &Job{jail: j, limits: l}
	defer func() {
		if err != nil {
			for _, p := range o.places {
				_ = os.Remove(p.dir)
			}
		}
	}()
	for _, p := range j.places {
		p = p.child(fmt.Sprintf("job-%d", n))
		if err := j.base.o.mkdir(p.dir); err != nil {
			return nil, fail("mkdir", p.dir, "", err)
		}
		o.places = append(o.places, p)
	}
	set := o.setV2
	if j.base.kind == V1 {
		set = o.setV1
	}
	if err := set(l); err != nil {
		return nil, err
	}
	for _, p := range o.places {
		if err := j.give(p.dir); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// dir returns the directory where the controller's files of this job are.
func (o *Job) dir(ctl string) (string, bool) {
	for _, p := range o.places {
		if slices.Contains(p.ctls, ctl) {
			return p.dir, true
		}
	}
	return "", false
}

// v2dir returns the job's directory in the v2 hierarchy, with or without
// controllers.
func (o *Job) v2dir() (string, bool) {
	for _, p := range o.places {
		if p.mount.V2 {
			return p.dir, true
		}
	}
	return "", false
}

// Dir opens the job's v2 cgroup for CLONE_INTO_CGROUP. Whoever holds the
// descriptor can walk up from it and leave the cgroup: it must never reach the
// job. On v1 there is none.
func (o *Job) Dir() (*os.File, error) {
	if o.jail.base.kind != V2 {
		return nil, errors.New("cgroup: no directory to clone into on cgroup v1")
	}
	f, err := openPath(o.places[0].dir)
	if err != nil {
		return nil, fail("open", o.places[0].dir, "", err)
	}
	return f, nil
}

// Procs opens, on v1, cgroup.procs of each hierarchy (and of the v2 one beside
// them) for writing; on v2 it returns nothing. The kernel checks a write
// against whoever opened the file, so PID 1 needs no rights of its own.
func (o *Job) Procs() (_ []*os.File, err error) {
	if o.jail.base.kind == V2 {
		return nil, nil
	}
	var out []*os.File
	for _, p := range o.places {
		file := filepath.Join(p.dir, "cgroup.procs")
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			for _, f := range out {
				f.Close()
			}
			return nil, fail("open", file, "", err)
		}
		out = append(out, f)
	}
	return out, nil
}

// Paths returns the job's directories.
func (o *Job) Paths() []string { return dirs(o.places) }

// Kill sends SIGKILL to every process of the job and doesn't wait.
func (o *Job) Kill() error { return killPlaces(o.places, o.jail.note) }

// Processes counts those of the job, zombies aside.
func (o *Job) Processes() (int, error) {
	pids, err := readPids(o.places[0].dir)
	return len(pids), err
}

// WaitEmpty returns when no process is left in the job, else ctx's error.
// Stopped and frozen processes die like others; one in an uninterruptible sleep
// does not, so ctx needs an end.
func (o *Job) WaitEmpty(ctx context.Context) error { return waitPlaces(ctx, o.places) }

// Remove removes the job's cgroups, and its statistics with them. Other jobs of
// the jail may live; the number is free again.
func (o *Job) Remove() error {
	defer o.jail.forget(o.Paths())
	ctx, cancel := context.WithTimeout(context.Background(), removeWait)
	defer cancel()
	return removePlaces(ctx, o.places)
}
