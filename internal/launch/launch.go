// Package launch is one run from request to result, in named steps, with
// clean-up in reverse; or a jail that stays, and the commands in it one by one, in
// the same steps. Nothing else starts a jail, and no path in it starts a command
// outside one.
package launch

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/seed"
	"github.com/jailer-project/jailer/policy"
)

// Options is one run, or, for Open, the session alone: what is said of the command is
// Exec's then.
type Options struct {
	Policy    *policy.Policy
	Request   []byte // a request document; nil for none
	Overrides policy.Overrides

	Exports []Export // of a run

	Seed *seed.Set // what the command line puts into the jail; nil for nothing

	ID            string // session id; "" makes a random one
	TokenHash     []byte // SHA-256 of the token that session and workspace are opened with; nil for none
	StateDir      string // "" for the usual one
	DataDir       string // of persistent workspaces; "" for the usual one
	XDGRuntimeDir string // of the caller

	Stdin          io.Reader // nil: the job reads /dev/null, or finds a terminal at its end
	Stdout, Stderr io.Writer // nil: captured into the result
	OnStart        func(Started)
	TTY            *TTY // nil: the job's standard streams are pipes

	Signals  <-chan os.Signal // passed on to the job; the second INT or TERM ends the run
	OwnerPID int              // the run ends with this process; 0 for none
	PIDFile  string           // PID 1's host pid is written here; "" for none

	Began  time.Time // when jailer started, for setupMs
	Logger *slog.Logger
	Warn   func(string) // what the caller should know of a run that goes on; may be nil
}

// Started is what is known when the command has been exec'ed.
type Started struct {
	SessionID, ExecID string
	At                time.Time
	SetupMs           int64
	Stdin             bool // the job reads Options.Stdin
	Plan              *policy.Plan
}

// An Outcome is a result, and the signal that interrupted the run, if one did.
type Outcome struct {
	Result                 *jailer.Result
	Interrupt              os.Signal
	StdoutKept, StderrKept int64 // bytes delivered, at most the cap
}

// Run does one run. It must be called on the main thread, locked
// (runtime.LockOSThread), as the jail dies with the thread that started it. An
// error means that the command never ran, and everything made on the way is
// gone again, or the error says what is left; once it ran there is an Outcome,
// with Result.Error where clean-up failed.
//
// The steps are those of docs/design.md, in its order.
func Run(ctx context.Context, o Options) (*Outcome, error) {
	j := newJail(ctx, o)
	c := j.newCommand(ctx, o.command())
	j.only = c
	defer j.undoAll()
	err := j.do([]step{
		{"request", j.readRequest},
		{"resolve", j.resolve},
		{"probe", j.probe},
		{"descriptors", j.closeDescriptors},
		{"workspace", j.openWorkspace},
		{"state", j.makeState},
		{"cgroup", c.makeCgroups},
		{"root", j.assembleRoot},
		{"spec", j.buildSpec},
		{"container", j.startContainer},
		{"files", c.seed},
		{"job", c.start},
		{"stream", c.supervise},
		{"end", c.endWithJail},
		{"usage", c.measure},
		{"export", c.export},
		{"cleanup", c.cleanUp},
	}...)
	if err != nil {
		return nil, j.refuse(err)
	}
	return c.outcome(), nil
}

type step struct {
	name string
	run  func() error
}
