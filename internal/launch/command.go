package launch

import (
	"context"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/internal/stream"
	"github.com/jailer-project/jailer/internal/workspace"
	"github.com/jailer-project/jailer/policy"
)

// A Command is one command in a live jail.
type Command struct {
	// Request and Overrides say what to run and its limits, within the session's plan.
	Request   []byte
	Overrides policy.Overrides

	// Service: nobody waits for it. It has no deadline but the session's, and its
	// events are a process's.
	Service bool

	// The job's streams. Either these, read and written here, as in Options; …
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	TTY            *TTY
	// … or the job's own ends of pipes that another process reads.
	Streams *Streams

	OnStart func(Started)
	Asking  func(time.Duration) // somebody is asked first, and may take so long; may be nil
	Signals <-chan os.Signal    // passed on to the command; the second INT or TERM ends it, but a service

	began time.Time // for setupMs
}

// command is the part of a run that is its command's.
type command struct {
	j    *Jail
	ctx  context.Context
	o    Command
	n    uint32       // the jail counts them from 1
	plan *policy.Plan // the jail's, or its own within that

	job     *cgroup.Job
	events  <-chan cgroup.Event
	closing chan struct{} // closed when the session is ended; nil in a run

	reports        <-chan pid1.Report // closed when PID 1 is gone
	silent         bool               // PID 1 is there, and said nothing of the start in time
	master         *os.File           // our end of the job's terminal
	stdout, stderr *stream.Capture    // with a terminal, stdout alone
	owner          <-chan struct{}    // closed when the process of OwnerPID has ended
	exceeded       chan struct{}      // output over the cap, where the policy says kill
	totals         *Totals            // of streams that are read elsewhere

	recorded  atomic.Bool // its start is in the event log, and its end is not
	startedAt time.Time
	endedAt   time.Time
	setup     time.Duration
	exit      *pid1.Report // how the main process ended; nil if PID 1 was lost
	leftover  *int64       // processes that outlived it, where PID 1 can't tell

	cause     cause
	interrupt os.Signal
	stuck     bool // some of its processes could not be killed
	stopOwner func()
	usage     *cgroup.Usage
	space     *workspace.Usage // of a persistent workspace that can be written to
	spaceFull bool             // it has no room left, or more in it than it may
	artifacts []jailer.Artifact
	refusal   *jailer.Error // why it never ran
	failure   *jailer.Error // what went wrong after it had run
}

func (j *Jail) newCommand(ctx context.Context, o Command) *command {
	if o.began.IsZero() {
		o.began = time.Now()
	}
	return &command{j: j, ctx: ctx, o: o, n: 1, exceeded: make(chan struct{}, 2)}
}

// command is the one command of a run.
func (o Options) command() Command {
	return Command{
		Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, TTY: o.TTY,
		OnStart: o.OnStart, Signals: o.Signals, began: o.Began,
	}
}

func (c *command) execID() string { return strconv.FormatUint(uint64(c.n), 10) }

// refuse undoes what was made for a command that could not be.
func (c *command) refuse(err error) error {
	c.refusal = asError(err)
	c.recordDenied()
	if lost := c.leave(); lost != nil {
		c.j.log.Error("clean-up failed", "err", lost)
	}
	return err
}

// outcome is what the caller is told of a command that ran.
func (c *command) outcome() *Outcome {
	o := &Outcome{Result: c.result(), Interrupt: c.interrupt}
	if c.o.Streams == nil {
		o.StdoutKept, o.StderrKept = delivered(c.stdout), delivered(c.stderr)
	}
	return o
}
