package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/stream"
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

// endWithJail is step 14 of a run: PID 1 goes too.
func (c *command) endWithJail() error {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	c.killGroup()
	_ = c.j.con.Kill()
	if !c.j.reap(ctx) {
		c.leak(errInit)
	} else if c.job != nil {
		if err := c.job.WaitEmpty(ctx); err != nil {
			c.leak(err)
		}
	}
	return c.drain()
}

// Step 14: kill the whole tree, wait until it is empty, and only then answer.
func (c *command) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	if c.cause == (cause{}) {
		c.countLeftover()
	}
	c.killGroup()
	if err := c.job.WaitEmpty(ctx); err != nil {
		c.leak(err)
	}
	return c.drain()
}

// countLeftover counts what outlives the main process. PID 1 can't, where other
// commands have processes too.
func (c *command) countLeftover() {
	if n, err := c.job.Processes(); err == nil {
		c.leftover = ptr(int64(n))
	}
}

var errInit = errors.New("PID 1 can't be reaped")

// reap waits for PID 1, for as long as ctx lasts: one that hangs in the kernel
// must not hold the answer up.
func (j *Jail) reap(ctx context.Context) bool {
	waited := make(chan error, 1)
	go func() { waited <- j.con.Wait() }()
	select {
	case err := <-waited:
		if err != nil {
			j.log.Debug("wait for PID 1", "err", err)
		}
		return true
	case <-ctx.Done():
		return false
	}
}

// drain waits for the last bytes. Nobody writes any more, so the pipes end by
// themselves; only a reader of ours that does not read can hold this up, and an
// interrupt, or the end of the process that the run is done for, ends that.
func (c *command) drain() error {
	if c.o.Streams != nil {
		return c.drainElsewhere()
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	go func() {
		owner := c.owner
		for {
			select {
			case <-c.o.Signals:
				cancel()
			case <-owner:
				owner = nil
				time.AfterFunc(ownerWait, cancel) // what is on its way may still arrive
			case <-ctx.Done():
				return
			}
		}
	}()
	if c.stuck {
		// Whoever could not be killed may hold the pipes open for ever.
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Second)
		defer stop()
	}
	if c.o.TTY != nil && c.o.TTY.Release != nil {
		t := time.AfterFunc(releaseWait, c.o.TTY.Release)
		defer t.Stop()
	}
	wait := (*stream.Capture).Wait
	if c.j.only == nil {
		wait = (*stream.Capture).Settle // another command may hold its end
	}
	err := wait(c.stdout, ctx)
	if c.stderr != nil {
		err = errors.Join(err, wait(c.stderr, ctx))
	}
	if err != nil {
		c.fail(&jailer.Error{Code: jailer.CodeInternal, Op: "stream", Message: "output was not delivered whole", Err: err})
	}
	return nil
}

// drainElsewhere waits for the one who reads the output.
func (c *command) drainElsewhere() error {
	if c.o.Streams.Totals == nil {
		return nil
	}
	leave := c.j.reading()
	t, err := c.o.Streams.Totals(c.ctx) // whoever waits for a slow reader also bounds that
	leave()
	switch {
	case err == nil:
		c.totals = &t
	case c.ctx.Err() == nil: // else the reader is gone, and the command was ended for that
		c.fail(&jailer.Error{Code: jailer.CodeInternal, Op: "stream", Message: "nobody took the output to its end", Err: err})
	}
	return nil
}

// Step 15: what the job used, from its own cgroup, and what its workspace takes now.
func (c *command) measure() error {
	if u, full, known := c.workspaceSpace(); known {
		c.space, c.spaceFull = &u, full
	}
	if c.job == nil {
		return nil
	}
	u, err := c.job.Usage()
	if err != nil {
		c.fail(&jailer.Error{Code: jailer.CodeInternal, Op: "usage", Err: err})
		return nil
	}
	c.usage = &u
	return nil
}

// Step 17: remove everything, in reverse; the result is written after it.
func (c *command) cleanUp() error {
	c.release()
	if err := c.j.undoAll(); err != nil && c.j.failure == nil {
		c.fail(&jailer.Error{
			Code: jailer.CodeInternal, Op: "cleanup", Err: err,
			Hint: "`jailer gc` removes what is left",
		})
	}
	return nil
}

// release lets go of what is the command's alone.
func (c *command) release() {
	if c.stopOwner != nil {
		c.stopOwner()
	}
	if c.master != nil {
		c.master.Close() // closed already where it was read to its end
	}
}

// leave is the last step in a session, where the jail stays. The end is in the log before
// the answer is given.
func (c *command) leave() error {
	c.release()
	c.j.reports.done(c.n)
	ran := !c.startedAt.IsZero()
	if err := c.recordEnd(); err != nil {
		if !ran {
			return err
		}
		c.fail(asError(err))
	}
	if c.job == nil {
		return nil
	}
	if !ran { // its process may be there, on its way to the exec
		ctx, cancel := context.WithTimeout(context.Background(), endWait)
		defer cancel()
		c.killGroup()
		_ = c.job.WaitEmpty(ctx)
	}
	if err := c.job.Remove(); err != nil {
		c.j.log.Debug("cgroup left to the session's end", "err", err)
	}
	return nil
}

// fail records the first thing that went wrong after the command had run.
func (c *command) fail(e *jailer.Error) {
	c.j.log.Error("after the run", "op", e.Op, "err", e)
	if c.failure == nil {
		c.failure = e
	}
}

// leak says that something of the jail outlives the run. Whatever failed
// before it, the record that names it must stay.
func (c *command) leak(err error) {
	c.stuck = true
	if c.j.only != nil {
		c.j.left = true // in a session its end tries again
	}
	c.fail(&jailer.Error{
		Code: jailer.CodeInternal, Op: "end", Reason: "session.leaked",
		Message: fmt.Sprintf("processes of the jail are still there after %v", endWait), Err: err,
		Hint: "`jailer gc` removes them once the kernel lets go",
	})
}

// leaked reports whether something of the jail is left.
func (j *Jail) leaked() bool { return j.left }

// removeCgroup undoes makeCgroup, with whatever is in it.
func (j *Jail) removeCgroup() error {
	if j.leaked() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	err := errors.Join(j.group.Kill(), j.group.WaitEmpty(ctx))
	if err != nil {
		j.left = true
		return err
	}
	if err := j.group.Remove(ctx); err != nil {
		j.left = true // empty, but there: gc finds it by the record
		return err
	}
	return nil
}

// removeContainer undoes startContainer.
func (j *Jail) removeContainer() error {
	if j.leaked() {
		return nil
	}
	if err := j.con.Kill(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	if !j.reap(ctx) { // at once after a whole run, where it is done already
		j.left = true
		return errInit
	}
	return j.con.Destroy()
}
