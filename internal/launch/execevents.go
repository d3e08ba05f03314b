package launch

import (
	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
)

// recordStarted comes before PID 1 is told what to run. That the command then
// can't be started is in its end.
func (c *command) recordStarted() error {
	return c.j.record(c.j.patience(), func() { c.recorded.Store(true) }, c.event(c.startType(), nil))
}

// recordEnd writes the end of a session's command. That of a run's comes with the
// session's own.
func (c *command) recordEnd() error {
	if !c.recorded.Load() {
		return nil
	}
	events := c.endEvents()
	c.recorded.Store(false)
	return c.j.recordCommandEnd(events)
}

// event is one about the command.
func (c *command) event(t audit.Type, data any) audit.Event {
	e := audit.Event{Type: t, ExecID: c.execID(), Data: data}
	if c.plan != nil {
		e.TraceParent = c.plan.TraceParent
	}
	return e
}

// startType is the event of its start: a service's is not one that somebody waits for.
func (c *command) startType() audit.Type {
	if c.o.Service {
		return audit.ProcessStarted
	}
	return audit.ExecStarted
}

func (c *command) endType() audit.Type {
	if c.o.Service {
		return audit.ProcessExited
	}
	return audit.ExecFinished
}

// endEvents are the events of the command's end.
func (c *command) endEvents() []audit.Event {
	if c.endedAt.IsZero() {
		e := c.refusal
		if e == nil {
			e = c.j.refusal
		}
		if e == nil {
			e = &jailer.Error{Code: jailer.CodeInternal}
		}
		return []audit.Event{c.event(c.endType(), audit.Finished{Error: audit.FailureOf(e)})}
	}
	res := c.summary()
	var events []audit.Event
	for _, l := range res.LimitsHit {
		ended := res.Limit != nil && l == string(*res.Limit)
		events = append(events, c.event(audit.LimitExceeded, audit.Exceeded{Limit: l, Ended: ended}))
	}
	end := audit.FinishedBy(res)
	if c.o.Streams != nil && c.totals == nil { // nobody told how much it wrote
		end.StdoutBytes, end.StderrBytes = nil, nil
	}
	return append(events, c.event(c.endType(), end))
}

// recordDenied writes what the policy refused in a session.
func (c *command) recordDenied() {
	if !isDenial(c.refusal) || c.recorded.Load() {
		return
	}
	err := c.j.record(c.j.patience(), func() {}, c.event(audit.PolicyDenied, audit.Denied{
		Failure: *audit.FailureOf(c.refusal), Field: c.refusal.Path,
	}))
	if err != nil {
		c.j.log.Error("a refusal is not in the event log", "err", err)
	}
}
