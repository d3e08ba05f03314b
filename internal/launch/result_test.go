package launch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/policy"
)

// ended is a command whose main process has ended with 0.
func ended(t *testing.T) *command {
	j := newJail(t.Context(), Options{})
	j.plan = &policy.Plan{}
	c := j.newCommand(t.Context(), Command{Streams: &Streams{}})
	c.plan, c.startedAt, c.endedAt = j.plan, time.Now(), time.Now()
	c.exit = &pid1.Report{Leftover: pid1.LeftoverUnknown}
	c.totals = &Totals{Stdout: 5, Stderr: 6}
	return c
}

// PID 1 counts whatever lives in the jail, which in a session may be what another
// command has left.
func TestLeftoverIsTheCommandsOwn(t *testing.T) {
	c := ended(t)
	c.exit.Leftover, c.leftover = 5, ptr(int64(1))
	if n := c.summary().LeftoverKilled; n == nil || *n != 1 {
		t.Errorf("in a session: %v", n)
	}
	c.leftover = nil
	if n := c.summary().LeftoverKilled; n != nil {
		t.Errorf("in a session, uncounted: %d", *n)
	}
	c.j.only = c
	if n := c.summary().LeftoverKilled; n == nil || *n != 5 {
		t.Errorf("in a run: %v", n)
	}
}

// A PID 1 that is stopped is not told for one that has ended.
func TestSilentInit(t *testing.T) {
	t.Parallel()
	c := ended(t)
	gone := make(chan pid1.Report)
	close(gone)
	c.reports = gone
	_, ok := c.next()
	if e, typed := errors.AsType[*jailer.Error](c.unheard()); ok || typed && e.Reason == "pid1.silent" {
		t.Errorf("gone: %v", c.unheard())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.ctx, c.reports = ctx, make(chan pid1.Report)
	_, ok = c.next() // until endWait is over
	if e, typed := errors.AsType[*jailer.Error](c.unheard()); ok || !typed || e.Reason != "pid1.silent" {
		t.Errorf("silent: %v", c.unheard())
	}
}

// Another command of the session has killed the process: no failure of the isolation.
func TestKilledBeforeItsExec(t *testing.T) {
	c := ended(t)
	c.plan.Argv = []string{"true"}
	died := &pid1.StartError{Stage: pid1.StageDied, Errno: unix.ECHILD, WaitStatus: 9}
	e, ok := errors.AsType[*jailer.Error](c.commandError(died))
	if !ok || e.Code != jailer.CodeInvalidState || !e.Retryable || !strings.Contains(e.Error(), "signal 9") {
		t.Errorf("in a session: %v", e)
	}
	c.j.only = c
	if e, ok = errors.AsType[*jailer.Error](c.commandError(died)); !ok || e.Code != jailer.CodeIsolationUnavailable {
		t.Errorf("in a run: %v", e)
	}
}

// A command may have a limit that its session asked for none of. Where nothing holds it
// its own result says so.
func TestNotEnforcedIsTheCommandsOwn(t *testing.T) {
	c := ended(t)
	asked := *c.j.plan
	asked.Limits.IORead = 1 << 20
	c.plan = &asked
	if got := c.summary().Isolation.NotEnforced; !slices.Contains(got, "io") {
		t.Errorf("not enforced: %v, want io among them", got)
	}
	c.j.held = []string{"io"}
	if got := c.summary().Isolation; slices.Contains(got.NotEnforced, "io") || got.Limits["io"] == "" {
		t.Errorf("%+v", got)
	}
}

// What a reader that is gone has not said is in no event.
func TestUnreadOutputIsNotZero(t *testing.T) {
	c := ended(t)
	last := func() audit.Finished {
		es := c.endEvents()
		return es[len(es)-1].Data.(audit.Finished)
	}
	if f := last(); f.StdoutBytes == nil || *f.StdoutBytes != 5 || f.StderrBytes == nil || *f.StderrBytes != 6 {
		t.Errorf("%+v", f)
	}
	c.totals = nil
	if f := last(); f.StdoutBytes != nil || f.StderrBytes != nil {
		t.Errorf("%+v", f)
	}
}
