package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/internal/workspace"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/spec"
)

// A persistent workspace of a jail, and the watch over it.
type persistent struct {
	*workspace.Workspace
	full chan struct{} // closed when its quota was exceeded, or can't be watched:
	err  error         // the reason for that, set before
	hard bool          // the kernel holds the quota

	watch *workspace.Watch // else
}

// openWorkspace takes the persistent workspace, for as long as anything of the jail is
// there. It comes before all that the jail leaves on disk, and is let go after it.
func (j *Jail) openWorkspace() error {
	want := j.plan.Workspace
	if want == nil {
		return nil
	}
	name, err := workspace.ParseName(want.Name)
	if err != nil {
		return err
	}
	dir, err := state.Open(j.o.StateDir, j.o.XDGRuntimeDir)
	if err != nil {
		return noState(err)
	}
	store, err := workspace.Open(j.o.DataDir)
	if err != nil {
		return err
	}
	o := workspace.Options{
		Create: !want.ReadOnly, ReadOnly: want.ReadOnly, TokenHash: j.o.TokenHash,
		Reap:   ReapHolder,
		Holder: workspace.Holder{SessionID: j.o.ID, StateDir: dir.Path}.Self(),
	}
	if j.ids.owned {
		o.NewUID = func() (int, int, error) {
			err := j.takeUID()
			return int(j.ids.uid), int(j.ids.gid), err
		}
	}
	w, err := store.Acquire(j.ctx, name, o)
	if err != nil {
		return err
	}
	j.persistent = &persistent{Workspace: w, full: make(chan struct{})}
	j.later(j.closeWorkspace)
	if j.ids.owned {
		if err := j.takeThisUID(uint32(w.HostUID), uint32(w.HostGID), want.ReadOnly); err != nil {
			return err
		}
	}
	return j.boundWorkspace()
}

func (j *Jail) quota() workspace.Quota {
	return workspace.Quota{Bytes: j.plan.Limits.Workspace, Inodes: j.plan.Limits.WorkspaceInodes}
}

// boundWorkspace has the kernel hold the quota where it can, and refuses what it has to
// hold and can't.
func (j *Jail) boundWorkspace() (err error) {
	if j.plan.Workspace.ReadOnly {
		return nil
	}
	if j.persistent.hard, err = j.persistent.SetQuota(j.quota()); err != nil || j.persistent.hard {
		return err
	}
	if slices.Contains(j.plan.Require, "workspace") {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "require.workspace",
			Message: fmt.Sprintf("profile %q requires that the kernel bounds a workspace, and this one is watched", j.plan.Profile),
			Hint:    "root has it bounded on ext4 or xfs mounted with prjquota, in a workspace that is new; or leave \"workspace\" out of require",
		}
	}
	return nil
}

// reapWait bounds the wait for the last processes of a holder that died.
const reapWait = 10 * time.Second

// ReapHolder ends what is left of the jail of a workspace's holder who died.
func ReapHolder(ctx context.Context, h workspace.Holder) error {
	if h.StateDir == "" {
		return nil // it had no jail
	}
	dir, err := state.Open(h.StateDir, "")
	if err != nil {
		return nil // its record is gone with it; the kernel ended its jail with its launcher
	}
	ctx, cancel := context.WithTimeout(ctx, reapWait)
	defer cancel()
	for {
		l, found := dir.ReapOne(ctx, h.SessionID)
		if found && l.Err == "" {
			return nil
		}
		if _, err := dir.Find(h.SessionID); errors.Is(err, state.ErrNotFound) {
			return nil
		}
		select {
		case <-ctx.Done():
			if l.Err != "" {
				return errors.New(l.Err)
			}
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (j *Jail) closeWorkspace() error {
	if j.leaked() {
		return nil // the holder's mark stays: the next one looks whether the jail is gone
	}
	return j.persistent.Close()
}

// persistentDir is the workspace for the spec.
func (j *Jail) persistentDir() *spec.Directory {
	want := j.plan.Workspace
	switch {
	case want == nil:
		return nil
	case j.persistent == nil: // of a spec that is only looked at
		return &spec.Directory{Path: workspace.PathOf(j.o.DataDir, want.Name), ReadOnly: want.ReadOnly}
	}
	return &spec.Directory{Path: j.persistent.Path(), ReadOnly: want.ReadOnly}
}

// watchWorkspace looks after the quota, where the kernel doesn't, until the jail ends.
// A workspace that is over it already is refused: a command would be ended at once.
func (j *Jail) watchWorkspace() error {
	if j.persistent == nil || j.plan.Workspace.ReadOnly || j.persistent.hard {
		return nil
	}
	dir, err := j.persistent.Open()
	if err != nil {
		return err
	}
	w := &workspace.Watch{Dir: dir, PID1: j.con.Pid(), Quota: j.quota()}
	if j.group != nil && j.group.CanFreeze() {
		w.Freeze = j.group.Freeze
	}
	over, err := w.Begin(j.ctx)
	if over != nil {
		err = fullBefore(j.plan.Workspace.Name, over)
	}
	if err != nil {
		dir.Close()
		return j.setupError(err)
	}
	j.persistent.watch = w
	ctx, cancel := context.WithCancel(context.WithoutCancel(j.ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		over, err := w.Run(ctx)
		switch {
		case err != nil:
			// What can't be watched is not held. That is no fault of the command's.
			j.log.Error("the workspace can't be watched", "err", err)
			j.persistent.err = err
		case over == nil:
			return
		default:
			j.log.Info("the workspace is over its quota", "why", over.Reason)
		}
		close(j.persistent.full)
		if j.only == nil && err == nil {
			if err := j.Note(audit.Event{Type: audit.LimitExceeded, Data: audit.Exceeded{Limit: string(jailer.LimitWorkspace), Ended: true}}); err != nil {
				j.log.Error("an event is lost", "err", err)
			}
		}
	}()
	j.later(func() error { cancel(); <-done; return dir.Close() })
	return nil
}

func fullBefore(name string, over *workspace.Excess) *jailer.Error {
	return &jailer.Error{
		Code: jailer.CodeNoSpace, Op: "workspace",
		Message: fmt.Sprintf("workspace %s is over its limit before the start: %s", name, over.Reason),
		Hint:    fmt.Sprintf("remove files with a request whose limits.workspaceBytes and workspaceInodes are larger (up to the policy's), or all of it with `jailer workspace rm %s`", name),
	}
}

// workspaceSpace is what a command's persistent workspace takes at its end, and whether
// its quota is used up; false where that isn't known.
func (c *command) workspaceSpace() (u workspace.Usage, full, known bool) {
	var err error
	switch p := c.j.persistent; {
	case p == nil || c.plan.Workspace.ReadOnly:
		return u, false, false
	case p.hard:
		u, full, err = p.QuotaUsage()
	case p.watch == nil:
		return u, false, false // the jail never came up
	default:
		// What it wrote last came after the watch had looked.
		ctx, cancel := context.WithTimeout(c.ctx, endWait)
		defer cancel()
		u, full, err = p.watch.Measure(ctx)
	}
	if err != nil && c.ctx.Err() == nil {
		c.j.log.Error("what the workspace takes can't be measured", "err", err)
	}
	return u, full, err == nil
}

// Full is closed when the persistent workspace is over its quota; nil without one.
func (j *Jail) Full() <-chan struct{} {
	if j.persistent == nil {
		return nil
	}
	return j.persistent.full
}

// FullReason is why a session ends for its workspace. To be asked when Full is closed.
func (j *Jail) FullReason() audit.Reason {
	if j.persistent.err != nil {
		return audit.Failed
	}
	return audit.LimitHit
}

// full ends a command for the workspace.
func (c *command) full() {
	if err := c.j.persistent.err; err != nil {
		c.fail(&jailer.Error{Code: jailer.CodeInternal, Op: "workspace.watch", Message: "the workspace's size can't be watched any more", Err: err})
		c.stop(causeAborted)
		return
	}
	c.stop(causeWorkspace)
}

// heldWorkspace says what holds the workspace's size; "" where there is nothing to hold.
func (j *Jail) heldWorkspace(plan *policy.Plan) string {
	switch {
	case plan.Workspace == nil:
		return "tmpfs"
	case plan.Workspace.ReadOnly:
		return ""
	case j.persistent != nil && j.persistent.hard:
		return "quota"
	}
	return "watch"
}
