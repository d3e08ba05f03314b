package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/boottime"
	"github.com/jailer-project/jailer/internal/container"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/rootfs"
)

// A Jail is live and runs commands, each in a cgroup of its own. Each step of its
// making fills in its part.
type Jail struct {
	ctx context.Context
	o   Options
	log *slog.Logger

	born time.Duration  // on the clock that suspends don't stop
	undo []func() error // of what was made, last first

	looks   bool // at a plan alone: nothing is run, and nobody asked
	request *jailer.Request
	plan    *policy.Plan

	base    *cgroup.Base // best effort: nil, or without some controllers, and rlimits stand in
	held    []string     // the controllers that hold the limits
	filter  []byte       // compiled, as PID 1 will load it
	ids     ids
	idTaken bool // ids has one that is this jail's alone
	armor   bool // PID 1 and the commands run under AppArmor's profiles

	trail      trail
	session    *state.Session
	cgroupName string
	group      *cgroup.Jail
	layout     *rootfs.Layout
	mounts     []rootfs.Mount // of the policy, judged

	executables []rootfs.Mount // the only ones; nil: any file
	loadable    []string       // what the kernel may execute: these, and the loaders that they name
	landlock    int            // the ABI, where it is used
	spec        *specs.Spec

	persistent *persistent // nil: the workspace goes with the jail

	con *container.Container
	ctl *pid1.Conn
	// The jail's /workspace, an O_PATH descriptor: no path outside leads to its mount.
	workspace *os.File
	reports   *reports
	coolDown  func()
	settled   func()                // ends the watch over the set-up
	watched   context.Context       // nil without that watch; ends with what it watches for
	early     []os.Signal           // came while the jail was set up
	aborted   atomic.Pointer[abort] // why the set-up was ended

	settledNow bool // a session's set-up is over

	refusal *jailer.Error // why no command ever ran

	failure *jailer.Error // what went wrong after a command had run
	left    bool          // something of the jail outlives it: its record stays

	only *command // of a run; nil in a session

	mu       sync.Mutex
	n        uint32              // of the last command
	running  map[*command]func() // and what ends each
	unread   int                 // of these, have no process any more, but output on its way
	ended    *cause              // why the session was ended
	commands sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

// ids is who the jail is on the host.
type ids struct {
	uid, gid       uint32
	subUID, subGID uint32
	n              uint32
	owned          bool // a uid of the range, taken for this jail: real root only
}

func newJail(ctx context.Context, o Options) *Jail {
	j := &Jail{ctx: ctx, o: o, log: o.Logger, running: map[*command]func(){}}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	if j.o.Began.IsZero() {
		j.o.Began = time.Now()
	}
	j.born = boottime.Now() - time.Since(j.o.Began)
	return j
}

// age is for how long the session has been there.
func (j *Jail) age() time.Duration { return boottime.Now() - j.born }

// do does steps in their order, up to the first that fails, and gives its error the
// step's name.
func (j *Jail) do(steps ...step) error {
	for _, s := range steps {
		begin := time.Now()
		err := s.run()
		j.log.Debug("step", "step", s.name, "took", time.Since(begin))
		if err == nil {
			continue
		}
		e := asError(err)
		if e.Op == "" {
			e.Op = s.name
		}
		return e
	}
	return nil
}

// refuse undoes what was made for a jail that could not be.
func (j *Jail) refuse(err error) error {
	if lost := j.recordRefusal(err); lost != nil {
		err = errors.Join(err, lost)
	}
	if left := j.undoAll(); left != nil {
		err = errors.Join(err, fmt.Errorf("clean-up: %w (`jailer gc` removes what is left)", left))
	}
	return err
}

// later registers what undoes the step that has just been done.
func (j *Jail) later(undo func() error) { j.undo = append(j.undo, undo) }

// undoAll undoes every step that was done, last first. After a whole run
// cleanUp has already done it and there is nothing left to do.
func (j *Jail) undoAll() error {
	var errs []error
	for len(j.undo) > 0 {
		last := j.undo[len(j.undo)-1]
		j.undo = j.undo[:len(j.undo)-1]
		if err := last(); err != nil {
			j.log.Error("clean-up failed", "err", err)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
