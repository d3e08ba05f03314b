package cgroup

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"
)

// freezeWait bounds the wait for a process that is on its way through the kernel.
const freezeWait = 200 * time.Millisecond

// CanFreeze says whether there is a cgroup v2 hierarchy that the jail is in.
func (j *Jail) CanFreeze() bool { return j.freezer() >= 0 }

func (j *Jail) freezer() int {
	return slices.IndexFunc(j.places, func(p place) bool { return p.mount.V2 })
}

// Freeze stops the processes of the commands that there are until thaw is called
// (cgroup.freeze, cgroup-v2.rst). PID 1 goes on, and a frozen process can be killed. One
// that sleeps in the kernel for more than 200 ms is stopped when it would return.
func (j *Jail) Freeze(ctx context.Context) (thaw func() error, err error) {
	n := j.freezer()
	if n < 0 {
		return nil, errors.New("cgroup: nothing can freeze the jail")
	}
	dir := j.places[n].dir
	top, err := openPath(dir)
	if err != nil {
		return nil, fail("open", dir, "", err)
	}
	names, err := below(top, ".")
	top.Close()
	if err != nil {
		return nil, fail("read", dir, "", err)
	}
	var jobs []string
	for _, name := range names {
		if name != initName {
			jobs = append(jobs, filepath.Join(dir, name))
		}
	}
	thaw = func() error { return setFreeze(jobs, "0") }
	if err := setFreeze(jobs, "1"); err != nil {
		return nil, errors.Join(err, thaw())
	}
	ctx, cancel := context.WithTimeout(ctx, freezeWait)
	defer cancel()
	for _, job := range jobs {
		if err := waitEvent(ctx, job, "frozen", 1); err != nil && ctx.Err() == nil {
			return nil, errors.Join(err, thaw())
		}
	}
	return thaw, nil
}

func setFreeze(dirs []string, value string) error {
	var errs []error
	for _, dir := range dirs {
		if err := writeFile(filepath.Join(dir, "cgroup.freeze"), value); err != nil && !gone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
