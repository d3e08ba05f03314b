package launch

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/access"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/boottime"
	"github.com/jailer-project/jailer/internal/state"
)

// operation is what the jail's plan says of whoever wants something of it.
func (j *Jail) operation(name string) access.Operation {
	op := access.Operation{Name: name, SessionID: j.o.ID, Profile: j.plan.Profile, Tenant: j.plan.Tenant, Labels: j.plan.Labels}
	if j.plan.Workspace != nil {
		op.Workspace = j.plan.Workspace.Name
	}
	return op
}

// making is the operation that a run or the making of a session is.
func (j *Jail) making() access.Operation {
	op := j.operation("create")
	if j.only != nil {
		op = j.operation("run")
		op.Argv, op.Capabilities = j.plan.Argv, []string{jailer.CapExec}
	}
	if op.Paths = j.o.Seed.Paths(); len(op.Paths) > 0 {
		op.Capabilities = append(op.Capabilities, jailer.CapFSWrite)
	}
	if len(j.o.Exports) > 0 {
		op.Capabilities = append(op.Capabilities, jailer.CapExport)
	}
	return op
}

func (j *Jail) gate() *access.Gate {
	return &access.Gate{Policy: j.o.Policy, UID: os.Getuid(), Note: j.noteBefore}
}

// noteBefore writes an event before there is a session whose trail it could be in.
func (j *Jail) noteBefore(ctx context.Context, e audit.Event) error {
	dir, err := state.Open(j.o.StateDir, j.o.XDGRuntimeDir)
	if err != nil {
		return j.lost(noState(err))
	}
	log, err := j.openLog(dir)
	if err == nil {
		e.Subject = j.subject()
		ctx, stop := context.WithTimeout(ctx, logWait)
		defer stop()
		err = log.Append(ctx, e)
	}
	return j.lost(err)
}

// authorize refuses what the policy doesn't let this user do.
func (j *Jail) authorize() error {
	return j.asking(func(ctx context.Context) error { return j.gate().Authorize(ctx, j.making()) })
}

// approve asks for what the policy wants an approval of. It comes when all else is known
// to be possible, and the clocks start after it.
func (j *Jail) approve() error {
	began := time.Now()
	err := j.asking(func(ctx context.Context) error { return j.gate().Approve(ctx, j.making()) })
	j.born = boottime.Now()
	if j.only != nil {
		j.only.o.began = j.only.o.began.Add(time.Since(began))
	}
	return err
}

// asking runs what may wait for people. What ends a set-up ends it.
func (j *Jail) asking(f func(context.Context) error) error {
	if j.looks {
		return nil
	}
	if a := j.o.Policy.Access; a.Authorize.Command == nil && a.Rules == nil {
		return f(j.ctx)
	}
	ctx, cancel := context.WithCancelCause(j.ctx)
	defer cancel(nil)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if why := j.untilAborted(done, nil); why != nil {
			j.aborted.Store(why)
			cancel(errors.New(why.why))
		}
	}()
	err := f(ctx)
	close(done)
	<-ended
	if err != nil && j.aborted.Load() != nil {
		return j.setupError(err)
	}
	return err
}

// Allowed refuses what the policy doesn't let the session's user do with it. asking is
// told how long somebody may take to answer.
func (j *Jail) Allowed(ctx context.Context, op access.Operation, asking func(time.Duration)) error {
	whole := j.operation(op.Name)
	whole.Capabilities, whole.Paths, whole.AnyPath = op.Capabilities, op.Paths, op.AnyPath
	g := j.gate()
	g.Asking, g.Note = asking, func(_ context.Context, e audit.Event) error { return j.Note(e) }
	return g.Check(ctx, whole)
}

// allowed is the same for a command. It has not begun.
func (c *command) allowed() error {
	op := c.j.operation("exec")
	op.Argv, op.Capabilities = c.plan.Argv, []string{jailer.CapExec}
	if c.o.Service {
		op.Name, op.Capabilities = "start", []string{jailer.CapExec, jailer.CapProcess}
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	go func() {
		select {
		case <-c.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	g := c.j.gate()
	g.Asking = c.o.Asking
	g.Note = func(_ context.Context, e audit.Event) error {
		return c.j.record(c.j.patience(), func() {}, c.event(e.Type, e.Data))
	}
	began := time.Now()
	err := g.Check(ctx, op)
	c.o.began = c.o.began.Add(time.Since(began))
	if err != nil {
		select {
		case <-c.closing:
			return errGone
		default:
		}
	}
	return err
}
