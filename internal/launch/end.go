package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jailer-project/jailer"
)

// endWait bounds how long the processes of a killed jail may take to be gone. A
// process in uninterruptible sleep can exceed it; then the run is an error and
// the record stays for gc.
const endWait = 10 * time.Second

// ownerWait is how long the reader of the output may go without reading once
// the process that the run is done for has ended.
const ownerWait = time.Second

// releaseWait is how long the caller's terminal stays the job's after its end.
const releaseWait = time.Second

// Step 12: kill the whole tree, wait until it is empty, and only then answer.
func (r *run) endJob() error {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	if r.job != nil {
		if err := r.job.Kill(); err != nil {
			r.log.Debug("cgroup kill", "err", err)
		}
	}
	_ = r.con.Kill()
	if r.reap(ctx) && r.job != nil {
		if err := r.job.WaitEmpty(ctx); err != nil {
			r.leak(err)
		}
	}
	return r.drain()
}

// reap waits for PID 1, for as long as ctx lasts: one that hangs in the kernel
// must not hold the answer up.
func (r *run) reap(ctx context.Context) bool {
	waited := make(chan error, 1)
	go func() { waited <- r.con.Wait() }()
	select {
	case err := <-waited:
		if err != nil {
			r.log.Debug("wait for PID 1", "err", err)
		}
		return true
	case <-ctx.Done():
		r.leak(errors.New("PID 1 can't be reaped"))
		return false
	}
}

// drain waits for the last bytes. Nobody writes any more, so the pipes end by
// themselves; only a reader of ours that does not read can hold this up, and an
// interrupt, or the end of the process that the run is done for, ends that.
func (r *run) drain() error {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	go func() {
		owner := r.owner
		for {
			select {
			case <-r.o.Signals:
				cancel()
			case <-owner:
				owner = nil
				time.AfterFunc(ownerWait, cancel) // what is on its way may still arrive
			case <-ctx.Done():
				return
			}
		}
	}()
	if r.leaked() {
		// Whoever could not be killed may hold the pipes open for ever.
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Second)
		defer stop()
	}
	if r.o.TTY != nil && r.o.TTY.Release != nil {
		t := time.AfterFunc(releaseWait, r.o.TTY.Release)
		defer t.Stop()
	}
	err := r.stdout.Wait(ctx)
	if r.stderr != nil {
		err = errors.Join(err, r.stderr.Wait(ctx))
	}
	if err != nil {
		r.fail(&jailer.Error{Code: jailer.CodeInternal, Op: "stream", Message: "output was not delivered whole", Err: err})
	}
	return nil
}

// Step 13: what the job used, from its own cgroup.
func (r *run) measure() error {
	if r.job == nil {
		return nil
	}
	u, err := r.job.Usage()
	if err != nil {
		r.fail(&jailer.Error{Code: jailer.CodeInternal, Op: "usage", Err: err})
		return nil
	}
	r.usage = &u
	return nil
}

// Step 14: remove everything, in reverse; the result is written after it.
func (r *run) cleanUp() error {
	if err := r.undoAll(); err != nil {
		r.fail(&jailer.Error{
			Code: jailer.CodeInternal, Op: "cleanup", Err: err,
			Hint: "`jailer gc` removes what is left",
		})
	}
	return nil
}

// fail records the first thing that went wrong after the command had run.
func (r *run) fail(e *jailer.Error) {
	r.log.Error("after the run", "op", e.Op, "err", e)
	if r.failure == nil {
		r.failure = e
	}
}

// leak says that something of the jail outlives the run. Whatever failed
// before it, the record that names it must stay.
func (r *run) leak(err error) {
	r.left = true
	r.fail(&jailer.Error{
		Code: jailer.CodeInternal, Op: "end", Reason: "session.leaked",
		Message: fmt.Sprintf("processes of the jail are still there after %v", endWait), Err: err,
		Hint: "`jailer gc` removes them once the kernel lets go",
	})
}

// leaked reports whether something of the jail is left.
func (r *run) leaked() bool { return r.left }

// removeCgroup undoes makeCgroup, with whatever is in it.
func (r *run) removeCgroup() error {
	if r.leaked() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	err := errors.Join(r.jail.Kill(), r.jail.WaitEmpty(ctx))
	if err != nil {
		r.leak(err)
		return err
	}
	if err := r.jail.Remove(ctx); err != nil {
		r.left = true // empty, but there: gc finds it by the record
		return err
	}
	return nil
}

// removeContainer undoes startContainer.
func (r *run) removeContainer() error {
	if r.leaked() {
		return nil
	}
	if err := r.con.Kill(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	if !r.reap(ctx) { // at once after a whole run, where it is done already
		return errors.New("PID 1 can't be reaped")
	}
	return r.con.Destroy()
}
