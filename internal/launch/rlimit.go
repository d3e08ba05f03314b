package launch

import (
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/spec"
)

// rlimits are the job's resource limits. Those of the first block hold in every
// jail; the second stands in for cgroups where the operator accepts best effort.
func (j *Jail) rlimits(plan *policy.Plan) []spec.Rlimit {
	l := []spec.Rlimit{
		// 1 is the one value at which the kernel does not start a core_pattern
		// pipe handler on the host (fs/coredump.c); 0 does.
		{Type: "RLIMIT_CORE", Soft: 1, Hard: 1},
		// A huge limit makes old programs close a billion descriptors.
		{Type: "RLIMIT_NOFILE", Soft: 1024, Hard: 4096},
		{Type: "RLIMIT_MEMLOCK", Soft: 8 << 20, Hard: 8 << 20},
		{Type: "RLIMIT_MSGQUEUE", Soft: 819200, Hard: 819200},
		{Type: "RLIMIT_NICE", Soft: 0, Hard: 0},
		{Type: "RLIMIT_RTPRIO", Soft: 0, Hard: 0},
	}
	p := plan.Limits
	if plan.Workspace != nil && (j.persistent == nil || !j.persistent.hard) {
		// No single file is larger than the whole workspace may be: the watch has so
		// much less to catch.
		l = append(l, spec.Rlimit{Type: "RLIMIT_FSIZE", Soft: uint64(p.Workspace), Hard: uint64(p.Workspace)})
	}
	if !j.holds("memory") {
		// DATA, not AS: node, Go and Java reserve address space far beyond what
		// they use. It bounds each process, not the job.
		l = append(l, spec.Rlimit{Type: "RLIMIT_DATA", Soft: uint64(p.Memory), Hard: uint64(p.Memory)})
	}
	if !j.holds("pids") {
		// Counted in the job's own user namespace: PID 1 and the caller's other
		// processes are not in it.
		l = append(l, spec.Rlimit{Type: "RLIMIT_NPROC", Soft: uint64(p.PIDs), Hard: uint64(p.PIDs)})
	}
	if j.base == nil { // any cgroup counts the job's CPU time
		// Each process; SIGXCPU at the soft limit, SIGKILL at the hard one.
		cpu := uint64(math.Ceil(p.CPUTime.Seconds()))
		l = append(l, spec.Rlimit{Type: "RLIMIT_CPU", Soft: cpu, Hard: cpu + 1})
	}
	return l
}

// needs names the controllers of a plan's limits.
func needs(plan *policy.Plan) []string {
	need := cgroup.Controllers()
	if plan.CPUSet != "" {
		need = append(need, "cpuset")
	}
	if plan.Limits.IORead > 0 || plan.Limits.IOWrite > 0 {
		need = append(need, "io")
	}
	return need
}

// holds says whether a controller holds this run's limits.
func (j *Jail) holds(controller string) bool { return slices.Contains(j.held, controller) }

// cpuRlimit reports whether a process that used d and died of a signal did so by
// our limit: a job can send itself the signal. The kernel compares the limit
// with whole ticks, of which a busy host charges a process more than it used
// (seen: 0.83 s at a limit of 1 s), while d is exact. SIGKILL comes a second
// later, at the hard limit, to one that ignores SIGXCPU.
func (c *command) cpuRlimit(signal string, d time.Duration) bool {
	if c.j.base != nil {
		return false
	}
	switch signal {
	case "SIGXCPU":
		return d >= c.plan.Limits.CPUTime/2
	case "SIGKILL":
		return d >= c.plan.Limits.CPUTime
	}
	return false
}

var rlimitNumbers = map[string]uint32{
	"RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_NOFILE": unix.RLIMIT_NOFILE,
	"RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK, "RLIMIT_MSGQUEUE": unix.RLIMIT_MSGQUEUE,
	"RLIMIT_NICE": unix.RLIMIT_NICE, "RLIMIT_RTPRIO": unix.RLIMIT_RTPRIO,
	"RLIMIT_DATA": unix.RLIMIT_DATA, "RLIMIT_NPROC": unix.RLIMIT_NPROC,
	"RLIMIT_CPU": unix.RLIMIT_CPU, "RLIMIT_FSIZE": unix.RLIMIT_FSIZE,
}

// kernelRlimits gives them by number, never above what the launcher itself has:
// nobody can raise a hard limit without CAP_SYS_RESOURCE in the first namespace.
func kernelRlimits(in []spec.Rlimit) []pid1.Rlimit {
	var out []pid1.Rlimit
	for _, l := range in {
		n := rlimitNumbers[l.Type]
		hard := l.Hard
		var own unix.Rlimit
		if unix.Getrlimit(int(n), &own) == nil && own.Max < hard {
			hard = own.Max
		}
		out = append(out, pid1.Rlimit{Resource: n, Soft: min(l.Soft, hard), Hard: hard})
	}
	return out
}
