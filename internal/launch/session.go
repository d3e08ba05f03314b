package launch

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/policy"
)

// A Command is one command in a live jail.
type Command struct {
	// Request and Overrides say what to run and its limits, within the session's plan.
	Request   []byte
	Overrides policy.Overrides

	// Service: it is no command that somebody waits for. It has no deadline but the
	// session's, and doesn't keep the session from being idle.
	Service bool

	// The job's streams. Either these, read and written here, as in Options; …
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	TTY            *TTY
	// … or Streams: the job's own ends of pipes that another process reads.
	Streams *Streams

	OnStart func(Started)
	Signals <-chan os.Signal // passed on to the command; the second INT or TERM ends it
	Kill    <-chan syscall.Signal
}

// Streams are the job's ends of pipes that somebody else holds the other ends of.
type Streams struct {
	Stdin, Stdout, Stderr *os.File // Stdin nil: the job reads /dev/null

	// Master takes the launcher's end of the job's terminal, where there is one.
	Master func(*os.File)
	// Exceeded is readable when output is over the cap and the plan says kill.
	Exceeded <-chan struct{}
	// Totals waits, once all processes of the command are gone, until what they wrote
	// has been read, and tells how much that was. It may be nil.
	Totals func(context.Context) (Totals, error)
}

// Totals is what a command wrote.
type Totals struct {
	Stdout, Stderr                   int64 // bytes produced
	StdoutTruncated, StderrTruncated bool
}

// A Jail is live and runs commands, each in a cgroup of its own.
type Jail struct{ r *run }

// Open makes a jail without a command. The thread's rules are those of Run: the jail
// dies with the thread that opened it.
func Open(ctx context.Context, o Options) (*Jail, error) { return nil, errors.ErrUnsupported }

// Exec runs one command. Many may run at once.
func (j *Jail) Exec(ctx context.Context, c Command) (*Outcome, error) {
	return nil, errors.ErrUnsupported
}

// ID is the session's id.
func (j *Jail) ID() string { return j.r.o.ID }

// PID is PID 1 on the host.
func (j *Jail) PID() int { return j.r.con.Pid() }

// Plan is what the policy made of the session's request.
func (j *Jail) Plan() *policy.Plan { return j.r.plan }

// Dir is the session's directory that only its owner may enter.
func (j *Jail) Dir() string { return j.r.session.Priv }

// Done is closed when PID 1 has ended, whoever ended it.
func (j *Jail) Done() <-chan struct{} { return nil }

// Close ends every command, removes the jail and records why. It may be called while
// commands run, and waits for them.
func (j *Jail) Close(reason audit.Reason) error { return errors.ErrUnsupported }
