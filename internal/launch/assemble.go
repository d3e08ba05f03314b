package launch

import (
	"errors"
	"path/filepath"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/rootfs"
	"github.com/jailer-project/jailer/spec"
)

// Step 6: the cgroup tree, every limit set and read back.
func (r *run) makeCgroup() error {
	if r.base == nil {
		return nil
	}
	owner := -1
	if r.ids.owned {
		owner = int(r.ids.uid)
	}
	jail, err := r.base.Create(r.cgroupName, owner)
	if err != nil {
		return unavailable(err)
	}
	r.jail = jail
	r.later(func() error { return r.removeCgroup() })
	l := r.plan.Limits
	var c cgroup.Limits
	if r.holds("memory") {
		c.Memory, c.Swap = l.Memory, l.Swap
	}
	if r.holds("pids") {
		c.Pids = l.PIDs
	}
	if r.holds("cpu") {
		c.CPUMilli = int64(l.CPUs)
	}
	if r.holds("cpuset") {
		c.CPUSet = string(r.plan.CPUSet)
	}
	if r.holds("io") {
		c.IORead, c.IOWrite = l.IORead, l.IOWrite
	}
	job, err := jail.NewJob(1, c)
	if err != nil {
		return unavailable(err)
	}
	r.job = job
	events, err := job.Watch(r.ctx)
	if err != nil {
		return unavailable(err)
	}
	r.events = events
	return nil
}

// Step 7: the launcher-owned root.
func (r *run) assembleRoot() error {
	layout, err := rootfs.Assemble(r.session.Path, rootfs.Source{
		Name: r.plan.Rootfs.Name, Path: r.plan.Rootfs.Path, Terminal: r.o.TTY != nil,
	})
	if err != nil {
		e := &jailer.Error{Code: jailer.CodeIsolationUnavailable, Reason: "rootfs", Err: err}
		var re *rootfs.Error
		if errors.As(err, &re) {
			e.Hint = re.Hint
		}
		return e
	}
	r.layout = layout
	return nil
}

// Step 8: the OCI spec.
func (r *run) buildSpec() error {
	c, err := r.specConfig(*r.layout)
	if err != nil {
		return err
	}
	s, err := spec.Build(c)
	if err != nil {
		return err
	}
	if r.jail != nil {
		s.Linux.CgroupsPath = r.jail.InitPath()
	}
	r.spec = s
	return nil
}

func (r *run) privateDir(name string) string { return filepath.Join(r.session.Priv, name) }
