package launch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/container"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/internal/stream"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/rootfs"
)

// run is the state of one run; each step fills in its part.
type run struct {
	ctx context.Context
	o   Options
	log *slog.Logger

	undo []func() error // of what was made, last first

	request *jailer.Request
	plan    *policy.Plan

	base   *cgroup.Base // best effort: nil, or without some controllers, and rlimits stand in
	held   []string     // the controllers that hold this run's limits
	filter []byte       // compiled, as PID 1 will load it
	ids    ids
	armor  bool // PID 1 and the command run under AppArmor's profiles

	trail      trail
	session    *state.Session
	cgroupName string
	jail       *cgroup.Jail
	job        *cgroup.Job
	events     <-chan cgroup.Event
	layout     *rootfs.Layout
	spec       *specs.Spec

	con            *container.Container
	ctl            *pid1.Conn
	orders         *pid1.Payload // what PID 1 will be told to run
	coolDown       func()
	settled        func()                // ends the watch over the set-up
	watched        context.Context       // nil without that watch; ends with what it watches for
	early          []os.Signal           // came while the jail was set up
	aborted        atomic.Pointer[abort] // why the set-up was ended
	reports        <-chan pid1.Report    // closed when PID 1 is gone
	master         *os.File              // our end of the job's terminal
	stdout, stderr *stream.Capture       // with a terminal, stdout alone
	owner          <-chan struct{}       // closed when the process of OwnerPID has ended
	exceeded       chan struct{}         // output over the cap, where the policy says kill

	startedAt time.Time
	endedAt   time.Time
	setup     time.Duration
	exit      *pid1.Report // how the main process ended; nil if PID 1 was lost

	cause     cause
	interrupt os.Signal
	usage     *cgroup.Usage
	refusal   *jailer.Error // why the command never ran
	failure   *jailer.Error // what went wrong after the command had run
	left      bool          // something of the jail outlives the run: its record stays
}

// ids is who the jail is on the host.
type ids struct {
	uid, gid       uint32
	subUID, subGID uint32
	n              uint32
	owned          bool // a uid of the range, taken for this jail: real root only
}

func newRun(ctx context.Context, o Options) *run {
	r := &run{ctx: ctx, o: o, log: o.Logger, exceeded: make(chan struct{}, 2)}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.o.Began.IsZero() {
		r.o.Began = time.Now()
	}
	return r
}

// do runs one step and gives its error the step's name.
func (r *run) do(s step) error {
	begin := time.Now()
	err := s.run()
	r.log.Debug("step", "step", s.name, "took", time.Since(begin))
	if err == nil {
		return nil
	}
	e := asError(err)
	if e.Op == "" {
		e.Op = s.name
	}
	return e
}

// later registers what undoes the step that has just been done.
func (r *run) later(undo func() error) { r.undo = append(r.undo, undo) }

// undoAll undoes every step that was done, last first. After a whole run
// cleanUp has already done it and there is nothing left to do.
func (r *run) undoAll() error {
	var errs []error
	for len(r.undo) > 0 {
		last := r.undo[len(r.undo)-1]
		r.undo = r.undo[:len(r.undo)-1]
		if err := last(); err != nil {
			r.log.Error("clean-up failed", "err", err)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
