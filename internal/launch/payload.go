package launch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/limits"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/seccomp"
)

// confinement is what holds every process that PID 1 starts.
func (j *Jail) confinement(plan *policy.Plan) *pid1.Payload {
	p := &pid1.Payload{
		UIDMap:   j.ids.maps(),
		GIDMap:   j.ids.maps(),
		UID:      jobUID,
		GID:      jobGID,
		Rlimits:  kernelRlimits(j.rlimits(plan)),
		Affinity: affinity(plan.Limits.CPUs, j.cpus(plan.CPUSet)),
		Umask:    0o022,
	}
	if j.heldWorkspace(plan) == "watch" {
		p.Filters = append(p.Filters, seccomp.NoPreallocation())
	}
	if j.executables != nil {
		p.Filters = append(p.Filters, seccomp.NoMemfd())
	}
	p.Filters = append(p.Filters, j.filter) // the last: it may refuse to load another
	if j.armor {
		p.AppArmor = pid1.AppArmor{Stack: apparmor.Job, JobLabel: apparmor.JobLabel}
	}
	if j.ids.n == 0 {
		p.Flags |= pid1.SetgroupsDeny
	} else {
		p.Flags |= pid1.SetIDs
	}
	return p
}

// orders are what PID 1 is told to run.
func (c *command) orders() *pid1.Payload {
	p := c.j.confinement(c.plan)
	p.Executables = c.j.loadable
	p.Cwd, p.Args, p.Env = c.plan.Cwd, c.plan.Argv, environment(c.plan, c.o.TTY)
	if tty := c.o.TTY; tty != nil {
		p.Cols, p.Rows = tty.Size.Cols, tty.Size.Rows
	}
	return p
}

// placeJob gives the descriptors by which PID 1 puts a process into the job's cgroup:
// the directory on v2, the cgroup.procs files, opened by us, on v1 (there the opener's
// rights count, and PID 1 has none). The caller closes them.
func (j *Jail) placeJob(job *cgroup.Job, p *pid1.Payload) ([]*os.File, error) {
	if job == nil {
		p.Flags |= pid1.NewCgroup
		return nil, nil
	}
	// By kind, never by what else is mounted: a v1 cpuacct beside a v2 hierarchy
	// that holds the limits changes nothing.
	if j.base.Kind() == cgroup.V2 {
		dir, err := job.Dir()
		if err != nil {
			return nil, err
		}
		p.Flags |= pid1.NewCgroup | pid1.IntoCgroup
		return []*os.File{dir}, nil
	}
	procs, err := job.Procs()
	if err != nil {
		return nil, err
	}
	if len(procs) == 0 {
		return nil, errors.New("no cgroup to put the command into") // it would run without limits
	}
	p.Flags |= pid1.UnshareCgroupNS
	return procs, nil
}

// keepCgroupWarm rewrites the launcher's own place in its own cgroup every few
// ms while the container starts. On v1 the first write to any cgroup.procs
// after a pause waits 5 to 15 ms for an RCU grace period; PID 1's would.
// The returned function ends it.
func (j *Jail) keepCgroupWarm() func() {
	if j.group == nil || j.base.Kind() == cgroup.V2 {
		return func() {}
	}
	f, err := j.base.OwnProcs()
	if err != nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer f.Close()
		pid := fmt.Append(nil, os.Getpid())
		t := time.NewTicker(3 * time.Millisecond)
		defer t.Stop()
		for range 100 { // 0.3 s: a start that takes longer gains nothing
			if _, err := f.WriteAt(pid, 0); err != nil {
				return
			}
			select {
			case <-done:
				return
			case <-t.C:
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}

// cpus are those that the job may use: of its cpuset those that the launcher may
// use too, or, where that is none, the whole set. Of CPUs outside its cpuset the
// kernel takes no mask.
func (j *Jail) cpus(allowed limits.CPUSet) []int {
	var have unix.CPUSet
	if unix.SchedGetaffinity(0, &have) != nil {
		return nil
	}
	var own, both []int
	for i := range len(have) * 64 {
		if have.IsSet(i) {
			own = append(own, i)
		}
	}
	if !j.holds("cpuset") {
		return own
	}
	set := allowed.CPUs()
	for _, i := range own {
		if slices.Contains(set, i) {
			both = append(both, i)
		}
	}
	if len(both) == 0 {
		return set
	}
	return both
}

// affinity picks as many CPUs as the job may use, so that programs that ask how
// many there are get an answer that fits the quota. They start at a random
// place of those that it may use: jails side by side spread out.
func affinity(c limits.CPUs, cpus []int) []byte {
	n := cpuCount(c)
	if n >= len(cpus) {
		return nil
	}
	first := rand.IntN(len(cpus))
	mask := make([]byte, 8)
	for i := range n {
		cpu := cpus[(first+i)%len(cpus)]
		for len(mask) <= cpu/8 {
			mask = append(mask, make([]byte, 8)...)
		}
		mask[cpu/8] |= 1 << (cpu % 8)
	}
	return mask
}

// cpuCount is the number of whole CPUs that a quota touches.
func cpuCount(c limits.CPUs) int { return int((c + 999) / 1000) }
