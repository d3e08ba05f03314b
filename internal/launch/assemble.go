package launch

import (
	"errors"
	"path/filepath"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/limits"
	"github.com/jailer-project/jailer/rootfs"
	"github.com/jailer-project/jailer/spec"
)

// Step 7: the cgroup tree, every limit set and read back.
func (j *Jail) makeCgroup() error {
	if j.base == nil {
		if j.only == nil {
			// Without cgroups one command of many can't be ended by itself.
			return &jailer.Error{
				Code: jailer.CodeIsolationUnavailable, Reason: "session.cgroup",
				Message: "a session needs cgroups: without them nothing ends one command's processes and spares another's",
				Hint:    "`jailer doctor` says what this host lacks; `jailer run` does without where the policy says so",
			}
		}
		return nil
	}
	owner := -1
	if j.ids.owned {
		owner = int(j.ids.uid)
	}
	group, err := j.base.Create(j.cgroupName, owner)
	if err != nil {
		return unavailable(err)
	}
	j.group = group
	j.later(j.removeCgroup)
	if j.only == nil && j.holds("memory") {
		// As much as all the commands that may run at once can have: no more by what
		// one after another leaves behind.
		if err := group.LimitMemory(maxCommands*j.plan.Limits.Memory, maxCommands*j.plan.Limits.Swap); err != nil {
			return unavailable(err)
		}
	}
	return nil
}

// makeCgroups is step 7 of a run: the jail's and its command's.
func (c *command) makeCgroups() error {
	c.plan = c.j.plan
	if err := c.j.makeCgroup(); err != nil || c.j.group == nil {
		return err
	}
	return c.makeCgroup()
}

// makeCgroup makes the command's own.
func (c *command) makeCgroup() error {
	job, err := c.j.newGroup(c.n, c.plan.Limits, c.plan.CPUSet)
	if err != nil {
		return err
	}
	c.job = job
	events, err := job.Watch(c.ctx)
	if err != nil {
		return unavailable(err)
	}
	c.events = events
	return nil
}

// newGroup makes the cgroup of the n-th command.
func (j *Jail) newGroup(n uint32, l limits.Limits, set limits.CPUSet) (*cgroup.Job, error) {
	var g cgroup.Limits
	if j.holds("memory") {
		g.Memory, g.Swap = l.Memory, l.Swap
	}
	if j.holds("pids") {
		g.Pids = l.PIDs
	}
	if j.holds("cpu") {
		g.CPUMilli = int64(l.CPUs)
	}
	if j.holds("cpuset") {
		g.CPUSet = string(set)
	}
	if j.holds("io") {
		g.IORead, g.IOWrite = l.IORead, l.IOWrite
	}
	job, err := j.group.NewJob(int(n), g)
	if err != nil {
		return nil, unavailable(err)
	}
	return job, nil
}

// Step 8: the launcher-owned root.
func (j *Jail) assembleRoot() error {
	layout, err := rootfs.Assemble(j.session.Path, rootfs.Source{
		Name: j.plan.Rootfs.Name, Path: j.plan.Rootfs.Path, Terminal: j.hasTerminal(), Mounts: j.mounts, Executables: j.executables,
	})
	if err != nil {
		e := &jailer.Error{Code: jailer.CodeIsolationUnavailable, Reason: "rootfs", Err: err}
		var re *rootfs.Error
		if errors.As(err, &re) {
			e.Hint = re.Hint
		}
		return e
	}
	j.layout = layout
	return nil
}

// Step 9: the OCI spec.
func (j *Jail) buildSpec() error {
	c, err := j.specConfig(*j.layout)
	if err != nil {
		return err
	}
	s, err := spec.Build(c)
	if err != nil {
		return err
	}
	if j.group != nil {
		s.Linux.CgroupsPath = j.group.InitPath()
	}
	j.spec = s
	return nil
}

func (j *Jail) privateDir(name string) string { return filepath.Join(j.session.Priv, name) }

// hasTerminal says whether the jail has a devpts of its own: any command of a session
// may ask for a terminal.
func (j *Jail) hasTerminal() bool { return j.only == nil || j.o.TTY != nil }
