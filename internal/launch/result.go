package launch

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/internal/stream"
)

// result decides the status from what the kernel and jailer saw. The first
// cause on which jailer acted wins; then any out-of-memory kill in the job's
// cgroup, whatever the exit code; then the wait status.
func (r *run) result() *jailer.Result {
	res := r.summary()
	if r.o.Stdout == nil {
		text, enc := stream.Text(r.stdout.Bytes())
		res.Stdout, res.StdoutEncoding = &text, enc
	}
	if r.o.Stderr == nil && r.stderr != nil {
		text, enc := stream.Text(r.stderr.Bytes())
		res.Stderr, res.StderrEncoding = &text, enc
	}
	return res
}

// summary is the result without the output.
func (r *run) summary() *jailer.Result {
	res := &jailer.Result{
		V:         jailer.ProtocolVersion,
		SessionID: r.o.ID, ExecID: execID,
		Profile: r.plan.Profile, Tenant: r.plan.Tenant, Labels: r.plan.Labels,
		StartedAt:  r.startedAt.UTC().Truncate(time.Millisecond),
		DurationMs: r.endedAt.Sub(r.startedAt).Milliseconds(),
		SetupMs:    ptr(r.setup.Milliseconds()),
		Isolation:  r.isolation(),
		Error:      r.failure,
	}
	res.ExitCode, res.Signal = endedBy(r.exit)
	r.status(res)
	r.output(res)
	r.measured(res)
	r.limitsHit(res)
	return res
}

func (r *run) status(res *jailer.Result) {
	oom := r.usage != nil && r.usage.OOMKills > 0
	switch {
	case r.cause != cause{}:
		res.Status = r.cause.status
		if r.cause.limit != "" {
			res.Limit = ptr(r.cause.limit)
		}
	case oom:
		res.Status, res.Limit = jailer.StatusOOMKilled, ptr(jailer.LimitMemory)
	case r.exit == nil:
		// PID 1 is gone without a word. A job could bring that about, so it is
		// never called a failure of jailer's.
		res.Status, res.Signal, res.InitLost = jailer.StatusSignaled, ptr("SIGKILL"), true
	case res.Signal != nil && r.cpuRlimit(*res.Signal, r.exit.Main.User+r.exit.Main.System):
		res.Status, res.Limit = jailer.StatusTimedOut, ptr(jailer.LimitCPU)
	case res.Signal != nil:
		res.Status = jailer.StatusSignaled
	default:
		res.Status = jailer.StatusExited
	}
	if r.exit != nil && r.exit.Leftover != pid1.LeftoverUnknown && r.cause == (cause{}) && !oom {
		res.LeftoverKilled = ptr(int64(r.exit.Leftover))
	}
}

func (r *run) output(res *jailer.Result) {
	res.StdoutBytes, res.StdoutTruncated = r.stdout.Total(), r.stdout.Truncated()
	if r.stderr == nil { // a terminal has one stream
		res.Terminal = true
		return
	}
	res.StderrBytes, res.StderrTruncated = r.stderr.Total(), r.stderr.Truncated()
}

// measured fills in the usage: the cgroup's, or, without one, what PID 1
// reaped.
func (r *run) measured(res *jailer.Result) {
	u := &res.Usage
	if r.exit != nil && r.exit.SpaceKnown {
		u.WorkspaceBytes = ptr(r.exit.SpaceUsed)
	}
	if r.usage == nil {
		if r.exit != nil {
			u.CPUUserMs, u.CPUSystemMs = ptr(r.exit.All.User.Milliseconds()), ptr(r.exit.All.System.Milliseconds())
		}
		return
	}
	u.CPUUserMs, u.CPUSystemMs = ptr(r.usage.CPUUser.Milliseconds()), ptr(r.usage.CPUSystem.Milliseconds())
	u.MemoryPeakBytes, u.PidsPeak = r.usage.MemoryPeak, r.usage.PidsPeak
	if r.holds("memory") {
		u.OOMKills = ptr(r.usage.OOMKills)
	}
	if r.usage.Throttled != nil {
		u.ThrottledMs = ptr(r.usage.Throttled.Milliseconds())
	}
	if p := r.usage.Pressure; p != nil {
		u.Pressure = &jailer.Pressure{CPU: stall(p.CPU), Memory: stall(p.Memory), IO: stall(p.IO)}
	}
}

func stall(s *cgroup.Stall) *jailer.Stall {
	if s == nil {
		return nil
	}
	return &jailer.Stall{SomeMs: s.Some.Milliseconds(), FullMs: s.Full.Milliseconds()}
}

func (r *run) limitsHit(res *jailer.Result) {
	hit := []string{}
	if res.Limit != nil {
		hit = append(hit, string(*res.Limit))
	}
	add := func(name string, yes bool) {
		if yes && (res.Limit == nil || string(*res.Limit) != name) {
			hit = append(hit, name)
		}
	}
	add("memory", r.usage != nil && r.usage.OOMKills > 0)
	add("pids", r.usage != nil && r.usage.PidsMaxHits > 0)
	add("workspace", r.exit != nil && r.exit.SpaceFull)
	add("output", res.StdoutTruncated || res.StderrTruncated)
	res.LimitsHit = hit
}

// isolation says what holds this run. It is asked before the start, for the
// profile's require list, and after it, for the result.
func (r *run) isolation() jailer.Isolation {
	i := jailer.Isolation{
		UserNS: true, NetNS: true, Seccomp: r.plan.Seccomp,
		Limits: map[string]string{"workspace": "tmpfs"},
	}
	if r.armor {
		i.AppArmor = apparmor.Default
	}
	kind := "rlimit"
	if r.base != nil {
		kind = string(r.base.Kind())
	}
	i.Limits["cpuTime"] = kind
	for _, c := range r.needs() {
		switch {
		case r.holds(c):
			i.Limits[c] = kind
		case c == "memory", c == "pids":
			i.Limits[c] = "rlimit"
		default:
			i.NotEnforced = append(i.NotEnforced, c) // there is no such rlimit
		}
	}
	if !r.holds("memory") && swapOn() {
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
