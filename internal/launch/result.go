package launch

import (
	"cmp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/internal/stream"
	"github.com/jailer-project/jailer/policy"
)

// result decides the status from what the kernel and jailer saw. The first
// cause on which jailer acted wins; then any out-of-memory kill in the job's
// cgroup, whatever the exit code; then the wait status.
func (c *command) result() *jailer.Result {
	res := c.summary()
	if c.o.Streams != nil {
		return res // the one who reads them fills them in
	}
	if c.o.Stdout == nil {
		text, enc := stream.Text(c.stdout.Bytes())
		res.Stdout, res.StdoutEncoding = &text, enc
	}
	if c.o.Stderr == nil && c.stderr != nil {
		text, enc := stream.Text(c.stderr.Bytes())
		res.Stderr, res.StderrEncoding = &text, enc
	}
	return res
}

// summary is the result without the output.
func (c *command) summary() *jailer.Result {
	res := &jailer.Result{
		V:         jailer.ProtocolVersion,
		SessionID: c.j.o.ID, ExecID: c.execID(),
		Profile: c.plan.Profile, Tenant: c.plan.Tenant, Labels: c.plan.Labels, TraceParent: c.plan.TraceParent,
		StartedAt:  c.startedAt.UTC().Truncate(time.Millisecond),
		DurationMs: c.endedAt.Sub(c.startedAt).Milliseconds(),
		SetupMs:    ptr(c.setup.Milliseconds()),
		Isolation:  c.j.isolation(c.plan),
		Error:      cmp.Or(c.failure, c.j.failure),
		Artifacts:  c.artifacts,
	}
	res.ExitCode, res.Signal = endedBy(c.exit)
	c.status(res)
	c.output(res)
	c.measured(res)
	c.limitsHit(res)
	return res
}

func (c *command) status(res *jailer.Result) {
	oom := c.usage != nil && c.usage.OOMKills > 0
	switch {
	case c.cause != cause{}:
		res.Status = c.cause.status
		if c.cause.limit != "" {
			res.Limit = ptr(c.cause.limit)
		}
		if c.cause.status == jailer.StatusSignaled {
			res.ExitCode, res.Signal = nil, ptr("SIGKILL") // also of a main process that came to its end meanwhile
		}
	case oom:
		res.Status, res.Limit = jailer.StatusOOMKilled, ptr(jailer.LimitMemory)
	case c.exit == nil:
		// PID 1 is gone without a word. A job could bring that about, so it is
		// never called a failure of jailer's.
		res.Status, res.Signal, res.InitLost = jailer.StatusSignaled, ptr("SIGKILL"), true
	case res.Signal != nil && c.cpuRlimit(*res.Signal, c.exit.Main.User+c.exit.Main.System):
		res.Status, res.Limit = jailer.StatusTimedOut, ptr(jailer.LimitCPU)
	case res.Signal != nil:
		res.Status = jailer.StatusSignaled
	default:
		res.Status = jailer.StatusExited
	}
	switch {
	case c.cause != cause{} || oom:
	case c.j.only == nil:
		res.LeftoverKilled = c.leftover // PID 1 counts what other commands left too
	case c.exit != nil && c.exit.Leftover != pid1.LeftoverUnknown:
		res.LeftoverKilled = ptr(int64(c.exit.Leftover))
	}
}

func (c *command) output(res *jailer.Result) {
	if c.o.Streams != nil {
		t := c.totals
		if t == nil {
			t = new(Totals)
		}
		res.StdoutBytes, res.StdoutTruncated = t.Stdout, t.StdoutTruncated
		res.StderrBytes, res.StderrTruncated = t.Stderr, t.StderrTruncated
		res.Terminal = c.o.TTY != nil
		return
	}
	res.StdoutBytes, res.StdoutTruncated = c.stdout.Total(), c.stdout.Truncated()
	if c.stderr == nil { // a terminal has one stream
		res.Terminal = true
		return
	}
	res.StderrBytes, res.StderrTruncated = c.stderr.Total(), c.stderr.Truncated()
}

// measured fills in the usage: the cgroup's, or, without one, what PID 1
// reaped.
func (c *command) measured(res *jailer.Result) {
	u := &res.Usage
	switch {
	case c.space != nil:
		u.WorkspaceBytes = ptr(c.space.Bytes)
	case c.j.persistent == nil && c.exit != nil && c.exit.SpaceKnown:
		u.WorkspaceBytes = ptr(c.exit.SpaceUsed)
	}
	if c.usage == nil {
		if c.exit != nil {
			u.CPUUserMs, u.CPUSystemMs = ptr(c.exit.All.User.Milliseconds()), ptr(c.exit.All.System.Milliseconds())
		}
		return
	}
	u.CPUUserMs, u.CPUSystemMs = ptr(c.usage.CPUUser.Milliseconds()), ptr(c.usage.CPUSystem.Milliseconds())
	u.MemoryPeakBytes, u.PidsPeak = c.usage.MemoryPeak, c.usage.PidsPeak
	if c.j.holds("memory") {
		u.OOMKills = ptr(c.usage.OOMKills)
	}
	if c.usage.Throttled != nil {
		u.ThrottledMs = ptr(c.usage.Throttled.Milliseconds())
	}
	if p := c.usage.Pressure; p != nil {
		u.Pressure = &jailer.Pressure{CPU: stall(p.CPU), Memory: stall(p.Memory), IO: stall(p.IO)}
	}
}

func stall(s *cgroup.Stall) *jailer.Stall {
	if s == nil {
		return nil
	}
	return &jailer.Stall{SomeMs: s.Some.Milliseconds(), FullMs: s.Full.Milliseconds()}
}

func (c *command) limitsHit(res *jailer.Result) {
	hit := []string{}
	if res.Limit != nil {
		hit = append(hit, string(*res.Limit))
	}
	add := func(name string, yes bool) {
		if yes && (res.Limit == nil || string(*res.Limit) != name) {
			hit = append(hit, name)
		}
	}
	add("memory", c.usage != nil && c.usage.OOMKills > 0)
	add("pids", c.usage != nil && c.usage.PidsMaxHits > 0)
	add("workspace", c.workspaceFull())
	add("output", res.StdoutTruncated || res.StderrTruncated)
	res.LimitsHit = hit
}

// workspaceFull: nothing more fits into what the kernel bounds, or there is more in what
// is watched than fits.
func (c *command) workspaceFull() bool {
	if c.j.persistent == nil {
		return c.exit != nil && c.exit.SpaceFull
	}
	return c.spaceFull
}

// isolation says what holds a command of this plan: a command in a session may have
// limits that the session asked for none of. It is asked before the start, for the
// profile's require list, and after it, for the result.
func (j *Jail) isolation(plan *policy.Plan) jailer.Isolation {
	i := jailer.Isolation{
		UserNS: true, NetNS: true, Seccomp: plan.Seccomp,
		Limits: map[string]string{},
	}
	if how := j.heldWorkspace(plan); how != "" {
		i.Limits["workspace"] = how
	}
	if j.armor {
		i.AppArmor = apparmor.Default
	}
	if plan.Exec != nil {
		i.Exec, i.LandlockABI = plan.Exec.Enforce, j.landlock
	}
	kind := "rlimit"
	if j.base != nil {
		kind = string(j.base.Kind())
	}
	i.Limits["cpuTime"] = kind
	for _, c := range needs(plan) {
		switch {
		case j.holds(c):
			i.Limits[c] = kind
		case c == "memory", c == "pids":
			i.Limits[c] = "rlimit"
		default:
			i.NotEnforced = append(i.NotEnforced, c) // there is no such rlimit
		}
	}
	if !j.holds("memory") && swapOn() {
		i.NotEnforced = append(i.NotEnforced, "swap") // nor for this
	}
	return i
}

var swapOn = cgroup.SwapOn

func ptr[T any](v T) *T { return &v }

// endedBy says how the main process ended, as the kernel saw it.
func endedBy(rep *pid1.Report) (code *int, signal *string) {
	if rep == nil {
		return nil, nil
	}
	ws := rep.WaitStatus
	if ws.Signaled() {
		name := unix.SignalName(ws.Signal())
		return nil, &name
	}
	n := ws.ExitStatus()
	return &n, nil
}
