package launch

import (
	"context"
	"errors"
	"math"
	"os"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/seccomp/compiled"
)

// startWait bounds the time from the order to the command's exec, in a session. A
// root on a file system that hangs would hold it up for ever.
const startWait = 30 * time.Second

// Step 12: PID 1 starts the job, or says which step of it failed. Only now is
// it told what to run: whatever went wrong before, the command has not run.
func (c *command) start() error {
	stdio, err := c.openStreams()
	if err != nil {
		return err
	}
	defer stdio.close()
	orders := c.orders()
	group, err := c.j.placeJob(c.job, orders)
	if err != nil {
		return err
	}
	defer closeAll(group)
	if err := c.recordStarted(); err != nil {
		return err
	}
	c.reports = c.j.reports.of(c.n)
	err = c.j.ctl.Exec(c.n, orders, pid1.Files{Stdin: stdio.stdin, Stdout: stdio.stdout, Stderr: stdio.stderr, Cgroup: group})
	if err != nil {
		c.j.log.Debug("orders not taken", "err", err) // PID 1's report has the reason
	}
	stdio.close()
	rep, ok := c.next()
	if ok && rep.Type == pid1.Terminal {
		c.master = rep.Master
		rep, ok = c.next()
	}
	c.j.settled()
	c.j.coolDown()
	if !ok {
		return c.j.setupError(c.unheard())
	}
	if err := rep.Err(); err != nil {
		return c.commandError(err)
	}
	if c.o.TTY != nil && c.master == nil {
		return errors.New("PID 1 started the command without its terminal")
	}
	c.started()
	c.openTerminal()
	return nil
}

// next waits for a report of the job's start. In a run the watch over the set-up ends
// what takes too long; in a session the command alone is ended.
func (c *command) next() (pid1.Report, bool) {
	if c.j.only != nil {
		rep, ok := <-c.reports
		return rep, ok
	}
	limit := time.NewTimer(startWait)
	defer limit.Stop()
	select {
	case rep, ok := <-c.reports:
		return rep, ok
	case <-limit.C:
	case <-c.ctx.Done():
	case <-c.closing:
	}
	c.kill()
	limit.Reset(endWait)
	select {
	case rep, ok := <-c.reports: // of a process that was killed, or one that was too quick
		return rep, ok
	case <-limit.C:
		c.silent = true
		return pid1.Report{}, false
	}
}

// unheard is why there is no report of the job's start.
func (c *command) unheard() error {
	if !c.silent {
		return lostInit()
	}
	return &jailer.Error{
		Code: jailer.CodeInternal, Op: "exec", Reason: "pid1.silent", Retryable: true,
		Message: "PID 1 of the session doesn't answer",
		Hint:    "look whether it is stopped or the host overloaded",
	}
}

func (c *command) started() {
	c.startedAt = time.Now()
	c.setup = c.startedAt.Sub(c.o.began)
	if c.o.OnStart != nil {
		c.o.OnStart(Started{
			SessionID: c.j.o.ID, ExecID: c.execID(), At: c.startedAt, SetupMs: c.setup.Milliseconds(),
			Stdin: c.o.Stdin != nil && !c.plan.HasStdin, Plan: c.plan,
		})
	}
}

const (
	seedID    = math.MaxUint32 // the job that puts files in: no command's, for they count from 1
	seedGroup = math.MaxInt32  // its cgroup, in a session

	// seedFilter is not the command's: it is our code that runs, and needs what a
	// stricter one denies.
	seedFilter = "default"
)

// Step 11: seed puts the files in that the caller named, before any command is there to put
// links in the way. It is a process of PID 1's that has the command's ids and limits
// and executes nothing.
func (j *Jail) seed() error {
	if j.o.Seed.Empty() {
		return nil
	}
	job, err := j.newGroup(seedGroup, j.plan.Limits, j.plan.CPUSet)
	if err != nil {
		return err
	}
	defer func() {
		if err := job.Remove(); err != nil {
			j.log.Debug("cgroup of the files", "err", err) // goes with the jail's
		}
	}()
	return j.seedIn(&command{j: j, ctx: j.ctx, n: seedID, plan: j.plan, job: job})
}

// seed of a run: what it puts in is on the command's bill, as the files stay in the
// memory of its cgroup.
func (c *command) seed() error {
	if c.j.o.Seed.Empty() {
		return nil
	}
	return c.j.seedIn(&command{j: c.j, ctx: c.ctx, n: seedID, plan: c.plan, job: c.job})
}

func (j *Jail) seedIn(c *command) error {
	in, feed, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	orders := j.confinement(j.plan)
	orders.Flags |= pid1.Seed
	filter, err := compiled.Filter(seedFilter)
	if err != nil {
		return damaged("the embedded seccomp filter", err)
	}
	orders.Filters = [][]byte{filter}
	group, err := j.placeJob(c.job, orders)
	if err != nil {
		return err
	}
	defer closeAll(group)
	c.reports = j.reports.of(c.n)
	defer j.reports.done(c.n)
	if err := j.ctl.Exec(c.n, orders, pid1.Files{Stdin: in, Stdout: null, Stderr: null, Cgroup: group}); err != nil {
		j.log.Debug("orders not taken", "err", err)
	}
	in.Close()
	fed := make(chan error, 1)
	go func() {
		err := j.o.Seed.Encode(feed)
		feed.Close() // without its last frame when it failed
		fed <- err
	}()
	return j.setupError(c.seeded(fed))
}

// seeded waits for the end of the process that puts files in.
func (c *command) seeded(fed <-chan error) error {
	rep, ok := <-c.reports
	if !ok {
		return lostInit()
	}
	err := <-fed
	var e *jailer.Error
	switch {
	case errors.As(err, &e):
		return err // of a file of the caller's
	case rep.Type == pid1.Failed && rep.Stage == pid1.StageSeed:
		return c.j.o.Seed.Explain(int(rep.Detail), rep.Errno)
	case rep.Type == pid1.Failed && rep.Stage == pid1.StageDied && rep.WaitStatus.Signaled():
		return &jailer.Error{
			Code: jailer.CodeNoSpace, Op: "files", Reason: "limits.memory",
			Message: "the files to put in don't fit into the memory limit", Err: context.Cause(c.ctx),
			Hint: "raise --memory",
		}
	case rep.Type == pid1.Failed:
		return c.j.pid1Error(rep.Err())
	}
	return err
}
