package launch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/policy"
)

// trail is what a run leaves in the event log. What was written there decides what
// is still owed, so that each start has one end, whatever fails in between.
type trail struct {
	log              *audit.Log // nil: it can't be written, and the policy lets the run go on
	subject          audit.Subject
	ref              *audit.Ref // for gc
	created, started bool
}

// openLog opens the event log of the policy, or that of the state directory.
func (r *run) openLog(dir *state.Dir) (*audit.Log, error) {
	path := r.o.Policy.Events.Path
	if path == "" {
		var err error
		if path, err = dir.EventsPath(); err != nil {
			e := asError(noState(err))
			e.Reason = "events.sink"
			return nil, e
		}
	}
	return audit.Open(path)
}

// lost is what comes of an event that could not be written: an error, or, where
// the policy says so, a warning.
func (r *run) lost(err error) error {
	if err == nil || r.o.Policy.Events.OnError != policy.SinkLog {
		return err
	}
	r.warn(err)
	return nil
}

func (r *run) warn(err error) {
	r.log.Warn("event lost", "err", err)
	if r.o.Warn != nil {
		r.o.Warn("an event is lost: " + err.Error())
	}
}

// openTrail comes before anything of the jail is made: a run that can't be recorded
// is refused here.
func (r *run) openTrail(dir *state.Dir) error {
	r.trail.subject = audit.Subject{
		SessionID: r.o.ID, Tenant: r.plan.Tenant, Labels: r.plan.Labels, UID: os.Getuid(),
	}
	log, err := r.openLog(dir)
	if err != nil {
		return r.lost(err)
	}
	ref := log.Ref(r.trail.subject)
	ref.MayLose = r.o.Policy.Events.OnError == policy.SinkLog
	r.trail.log, r.trail.ref = log, &ref
	return nil
}

// record writes events of this session. done is set when they are in the log.
func (r *run) record(done *bool, events ...audit.Event) error {
	if r.trail.log == nil || len(events) == 0 {
		return nil
	}
	for i := range events {
		events[i].Subject = r.trail.subject
	}
	ctx, stop := r.patience()
	defer stop()
	err := r.trail.log.Append(ctx, events...)
	if errors.Is(err, audit.ErrLocked) && !r.over() && r.aborted.Load() != nil {
		return r.setupError(err) // whatever may be lost, the caller wants no run
	}
	*done = err == nil
	if err == nil {
		err = r.marked(r.session.Marks().Add(events...))
	}
	return r.lost(err)
}

// over: nothing is left that a signal could end, but the wait.
func (r *run) over() bool { return r.plan == nil || r.refusal != nil || !r.endedAt.IsZero() }

// patience bounds the wait for other writers of the log. What ends the set-up ends
// it; after the command one signal does, as gc can write what is missing.
func (r *run) patience() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	done, ended := make(chan struct{}), make(chan struct{})
	watched, over := r.watched, r.over()
	go func() {
		defer close(ended)
		defer cancel()
		switch {
		case over:
			select {
			case <-r.o.Signals:
			case <-done:
			}
		case watched != nil: // the watch over the set-up has the signals
			select {
			case <-watched.Done():
			case <-done:
			}
		default:
			if why := r.untilAborted(done); why != nil {
				r.aborted.Store(why)
			}
		}
	}()
	return ctx, func() {
		close(done)
		<-ended
	}
}

// marked is the error of a mark: without it a log that is moved away later would
// leave gc in the dark.
func (r *run) marked(err error) error {
	if err == nil || r.over() { // at the end the directory goes next
		return nil
	}
	e := asError(noState(err))
	e.Reason = "events.sink"
	return e
}

func (r *run) recordCreated() error {
	return r.record(&r.trail.created, audit.Event{Type: audit.SessionCreated, Data: audit.Created{
		Profile: r.plan.Profile, Rootfs: r.plan.Rootfs.Name, HostUID: r.ids.uid,
	}})
}

// recordStarted comes before PID 1 is told what to run. That the command then
// can't be started is in its end.
func (r *run) recordStarted() error {
	return r.record(&r.trail.started, audit.Event{Type: audit.ExecStarted, ExecID: execID})
}

// recordRefusal keeps why the command never ran, and writes what the policy
// refused: nothing was made, and no session is there to tell of it.
func (r *run) recordRefusal(err error) error {
	r.refusal = asError(err)
	if r.refusal.Code != jailer.CodePolicyDenied || r.session != nil {
		return nil
	}
	s := audit.Subject{Tenant: r.o.Overrides.Tenant, Labels: map[string]string{}, UID: os.Getuid()}
	if r.request != nil {
		s.Tenant = cmp.Or(s.Tenant, r.request.Tenant)
		maps.Copy(s.Labels, r.request.Labels)
	}
	maps.Copy(s.Labels, r.o.Overrides.Labels)
	dir, err := state.Open(r.o.StateDir, r.o.XDGRuntimeDir)
	if err != nil {
		return r.lost(noState(err))
	}
	log, err := r.openLog(dir)
	if err == nil {
		ctx, stop := r.patience()
		defer stop()
		err = log.Append(ctx, audit.Event{Type: audit.PolicyDenied, Subject: s, Data: audit.Denied{
			Failure: *audit.FailureOf(r.refusal), Field: r.refusal.Path,
		}})
	}
	return r.lost(err)
}

// recordEnd writes the end of everything that the log knows the beginning of.
func (r *run) recordEnd() error {
	var events []audit.Event
	if r.trail.started {
		events = r.execEnd()
	}
	switch {
	case r.leaked():
		events = append(events, audit.Event{Type: audit.SessionLeaked})
	case r.trail.created:
		events = append(events, audit.Event{Type: audit.SessionDestroyed, Data: audit.Destroyed{Reason: r.reason()}})
	}
	if r.trail.log != nil && len(events) > 0 {
		if err := r.session.Marks().Ended(); err != nil {
			r.log.Debug("the end is not marked", "err", err) // gc will say that the launcher was lost
		}
	}
	var done bool
	err := r.record(&done, events...)
	var e *jailer.Error
	if errors.As(err, &e) {
		e.Hint += "; then `jailer gc` writes what is missing"
		if r.refusal == nil {
			r.fail(e)
		}
	}
	return err
}

// execEnd are the events of the command's end.
func (r *run) execEnd() []audit.Event {
	if r.endedAt.IsZero() {
		e := r.refusal
		if e == nil {
			e = &jailer.Error{Code: jailer.CodeInternal}
		}
		return []audit.Event{{Type: audit.ExecFinished, ExecID: execID, Data: audit.Finished{Error: audit.FailureOf(e)}}}
	}
	res := r.summary()
	var events []audit.Event
	for _, l := range res.LimitsHit {
		ended := res.Limit != nil && l == string(*res.Limit)
		events = append(events, audit.Event{Type: audit.LimitExceeded, ExecID: execID, Data: audit.Exceeded{Limit: l, Ended: ended}})
	}
	return append(events, audit.Event{Type: audit.ExecFinished, ExecID: execID, Data: audit.FinishedBy(res)})
}

// reason is why the session was destroyed.
func (r *run) reason() audit.Reason {
	switch a := r.aborted.Load(); {
	case r.endedAt.IsZero() && a != nil:
		return a.reason
	case r.endedAt.IsZero() || r.failure != nil:
		return audit.Failed
	case r.cause.reason != "":
		return r.cause.reason
	}
	return audit.Requested
}
