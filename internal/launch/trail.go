package launch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/policy"
)

// trail is what a run leaves in the event log. What was written there decides what
// is still owed, so that each start has one end, whatever fails in between.
type trail struct {
	log     *audit.Log // nil: it can't be written, and the policy lets the run go on
	subject audit.Subject
	ref     *audit.Ref // for gc
	created bool

	mu     sync.Mutex    // one writer at a time, of the commands of a session
	marked int           // lines beside the record
	owed   []audit.Event // ends of commands that the log did not take
}

func (j *Jail) openLog(dir *state.Dir) (*audit.Log, error) { return openLog(j.o.Policy, dir) }

// openLog opens the event log of the policy, or that of the state directory.
func openLog(p *policy.Policy, dir *state.Dir) (*audit.Log, error) {
	path := p.Events.Path
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
func (j *Jail) lost(err error) error {
	if err == nil || j.o.Policy.Events.OnError != policy.SinkLog {
		return err
	}
	j.warn(err)
	return nil
}

func (j *Jail) warn(err error) {
	j.log.Warn("event lost", "err", err)
	if j.o.Warn != nil {
		j.o.Warn("an event is lost: " + err.Error())
	}
}

// openTrail comes before anything of the jail is made: a run that can't be recorded
// is refused here.
func (j *Jail) openTrail(dir *state.Dir) error {
	j.trail.subject = j.subject()
	log, err := j.openLog(dir)
	if err != nil {
		return j.lost(err)
	}
	ref := log.Ref(j.trail.subject)
	ref.MayLose = j.o.Policy.Events.OnError == policy.SinkLog
	j.trail.log, j.trail.ref = log, &ref
	return nil
}

func (j *Jail) subject() audit.Subject {
	return audit.Subject{
		SessionID: j.o.ID, Tenant: j.plan.Tenant, Labels: j.plan.Labels, UID: os.Getuid(), TraceParent: j.plan.TraceParent,
	}
}

// record writes events of this session, and calls done when they are in the log.
func (j *Jail) record(wait patience, done func(), events ...audit.Event) error {
	if j.trail.log == nil || len(events) == 0 {
		return nil
	}
	j.sign(events)
	j.trail.mu.Lock()
	defer j.trail.mu.Unlock()
	return j.recordLocked(wait, done, events)
}

// sign says whom the events are about. A command of a session may have been asked for
// by another span than the session was.
func (j *Jail) sign(events []audit.Event) {
	for i := range events {
		span := cmp.Or(events[i].TraceParent, j.trail.subject.TraceParent)
		events[i].Subject = j.trail.subject
		events[i].TraceParent = span
	}
}

// recordCommandEnd writes the end of a session's command. What the log doesn't take
// now goes before the next record, and at the latest with the session's own end: if
// not even that can be written the directory stays, and gc writes it.
func (j *Jail) recordCommandEnd(events []audit.Event) error {
	if j.trail.log == nil {
		return nil
	}
	j.sign(events)
	j.trail.mu.Lock()
	defer j.trail.mu.Unlock()
	written := false
	err := j.recordLocked(j.patience(), func() { written = true }, events)
	if !written {
		j.trail.owed = append(j.trail.owed, events...)
	}
	return err
}

// recordLocked is called with the trail's lock held.
func (j *Jail) recordLocked(wait patience, done func(), events []audit.Event) error {
	events = slices.Concat(j.trail.owed, events)
	ctx, stop := wait()
	defer stop()
	err := j.trail.log.Append(ctx, events...)
	if errors.Is(err, audit.ErrLocked) && !j.over() && j.aborted.Load() != nil {
		return j.setupError(err) // whatever may be lost, the caller wants no run
	}
	if err == nil {
		j.trail.owed = nil
		done()
		err = j.markError(j.mark(events))
	}
	return j.lost(err)
}

// mark notes what the log has taken. The marks of a session with many commands are
// written anew now and then, as those of commands that are over say nothing.
func (j *Jail) mark(events []audit.Event) error {
	marks := j.session.Marks()
	j.trail.marked += len(events)
	if j.trail.marked < marksMost {
		return marks.Add(events...)
	}
	now := []audit.Event{{Type: audit.SessionCreated}}
	j.mu.Lock()
	for c := range j.running {
		if c.recorded.Load() {
			now = append(now, audit.Event{Type: c.startType(), ExecID: c.execID()})
		}
	}
	j.mu.Unlock()
	now = append(now, events...)
	j.trail.marked = len(now)
	return marks.Replace(now...)
}

// marksMost bounds the marks, in lines; far below what a reader of them takes.
const marksMost = 1000

// over: nothing is left that a signal could end, but the wait.
func (j *Jail) over() bool {
	return j.plan == nil || j.refusal != nil || j.only == nil && j.endedBy() != nil || j.only != nil && !j.only.endedAt.IsZero()
}

// patience bounds the wait for other writers of the log.
type patience func() (context.Context, func())

// setupPatience: what ends the set-up ends it; after the command one signal does, as
// gc can write what is missing.
func (j *Jail) setupPatience() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(j.ctx))
	done, ended := make(chan struct{}), make(chan struct{})
	watched, over := j.watched, j.over()
	go func() {
		defer close(ended)
		defer cancel()
		switch {
		case over:
			select {
			case <-j.o.Signals:
			case <-done:
			}
		case watched != nil: // the watch over the set-up has the signals
			select {
			case <-watched.Done():
			case <-done:
			}
		default:
			if why := j.untilAborted(done, time.After(setupLimit)); why != nil {
				j.aborted.Store(why)
			}
		}
	}()
	return ctx, func() {
		close(done)
		<-ended
	}
}

// logWait bounds the wait in a session, which must come to its end in time.
const logWait = 10 * time.Second

func sessionPatience() (context.Context, func()) {
	return context.WithTimeout(context.Background(), logWait)
}

// patience is that of the one who records for the jail.
func (j *Jail) patience() patience {
	if j.only == nil && j.settledNow {
		return sessionPatience
	}
	return j.setupPatience
}

// markError is the error of a mark: without it a log that is moved away later would
// leave gc in the dark.
func (j *Jail) markError(err error) error {
	if err == nil || j.over() { // at the end the directory goes next
		return nil
	}
	e := asError(noState(err))
	e.Reason = "events.sink"
	return e
}

func (j *Jail) recordCreated() error {
	return j.record(j.patience(), func() { j.trail.created = true }, audit.Event{Type: audit.SessionCreated, Data: audit.Created{
		Profile: j.plan.Profile, Rootfs: j.plan.Rootfs.Name, HostUID: j.ids.uid,
	}})
}

// recordRefusal keeps why the command never ran, and writes what the policy
// refused: nothing was made, and no session is there to tell of it.
func (j *Jail) recordRefusal(err error) error {
	j.refusal = asError(err)
	if !isDenial(j.refusal) || j.session != nil {
		return nil
	}
	s := audit.Subject{Tenant: j.o.Overrides.Tenant, Labels: map[string]string{}, UID: os.Getuid(), TraceParent: j.o.Overrides.TraceParent}
	if j.request != nil {
		s.Tenant = cmp.Or(s.Tenant, j.request.Tenant)
		maps.Copy(s.Labels, j.request.Labels)
		s.TraceParent = cmp.Or(j.request.TraceParent, s.TraceParent)
	}
	maps.Copy(s.Labels, j.o.Overrides.Labels)
	dir, err := state.Open(j.o.StateDir, j.o.XDGRuntimeDir)
	if err != nil {
		return j.lost(noState(err))
	}
	log, err := j.openLog(dir)
	if err == nil {
		ctx, stop := j.setupPatience()
		defer stop()
		err = log.Append(ctx, denied(s, j.refusal))
	}
	return j.lost(err)
}

// isDenial: the policy says no, and that is an event.
func isDenial(e *jailer.Error) bool {
	return e.Code == jailer.CodePolicyDenied || e.Code == jailer.CodeUnauthorized || e.Code == jailer.CodeApprovalDenied
}

func denied(s audit.Subject, e *jailer.Error) audit.Event {
	return audit.Event{Type: audit.PolicyDenied, Subject: s, Data: audit.Denied{Failure: *audit.FailureOf(e), Field: e.Path}}
}

// RecordDenied writes to the event log that this user was refused something of a
// tenant's that is no jail's. Another refusal is none of the log's.
func RecordDenied(ctx context.Context, p *policy.Policy, dir *state.Dir, tenant string, err error) error {
	e, ok := errors.AsType[*jailer.Error](err)
	if !ok || !isDenial(e) {
		return nil
	}
	log, err := openLog(p, dir)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, logWait)
	defer stop()
	return log.Append(ctx, denied(audit.Subject{Tenant: tenant, Labels: map[string]string{}, UID: os.Getuid()}, e))
}

// recordEnd writes the end of everything that the log knows the beginning of.
func (j *Jail) recordEnd() error {
	var events []audit.Event
	if j.only != nil && j.only.recorded.Load() {
		events = j.only.endEvents()
	}
	switch {
	case j.leaked():
		events = append(events, audit.Event{Type: audit.SessionLeaked})
	case j.trail.created:
		events = append(events, audit.Event{Type: audit.SessionDestroyed, Data: audit.Destroyed{Reason: j.reason()}})
	}
	if j.trail.log != nil && len(events) > 0 {
		if err := j.session.Marks().Ended(); err != nil {
			j.log.Debug("the end is not marked", "err", err) // gc will say that the launcher was lost
		}
	}
	err := j.record(j.patience(), func() {}, events...)
	var e *jailer.Error
	if errors.As(err, &e) {
		e.Hint += "; then `jailer gc` writes what is missing"
		if j.refusal == nil {
			j.fail(e)
		}
	}
	return err
}

// fail records the first thing that went wrong after a command had run.
func (j *Jail) fail(e *jailer.Error) {
	j.log.Error("after the run", "op", e.Op, "err", e)
	if j.failure == nil {
		j.failure = e
	}
}

// reason is why the session was destroyed.
func (j *Jail) reason() audit.Reason {
	a, c := j.aborted.Load(), j.only
	if end := j.endedBy(); end != nil {
		return cmp.Or(end.reason, audit.Requested)
	}
	switch {
	case (c == nil || c.endedAt.IsZero()) && a != nil:
		return a.reason
	case c == nil || c.endedAt.IsZero() || c.failure != nil || j.failure != nil:
		return audit.Failed
	}
	return cmp.Or(c.cause.reason, audit.Requested)
}
