package launch

import (
	"errors"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/state"
)

// Step 5: the state directory, the lock, the record, renamed in whole.
func (r *run) makeState() error {
	dir, err := state.Open(r.o.StateDir, r.o.XDGRuntimeDir)
	if err != nil {
		return noState(err)
	}
	if dir.Hint != "" {
		r.log.Debug(dir.Hint)
	}
	if r.ids.owned {
		if err := r.takeUID(); err != nil {
			return err
		}
	}
	if err := r.openTrail(dir); err != nil {
		return err
	}
	rec := state.Record{ID: r.o.ID, CreatedAt: r.o.Began.UTC(), HostUID: int(r.ids.uid), Events: r.trail.ref}
	if r.base != nil {
		r.cgroupName = dir.CgroupName(r.o.ID)
		rec.Cgroups = r.base.Plan(r.cgroupName)
	}
	s, err := dir.Create(rec)
	if errors.Is(err, state.ErrExists) {
		return &jailer.Error{
			Code: jailer.CodeSessionExists, Err: err,
			Hint: "choose another --id; `jailer gc` removes what a crash left",
		}
	}
	if err != nil {
		return noState(err)
	}
	r.session = s
	r.later(r.closeSession)
	return r.recordCreated()
}

// closeSession undoes makeState, when all that came later is undone. The record of
// a session that is not at its end stays, for gc: where something of it is left, or
// an event is missing.
func (r *run) closeSession() error {
	if err := r.recordEnd(); err != nil || r.leaked() {
		r.session.Abandon()
		return err
	}
	return r.session.Remove()
}

func noState(err error) error {
	return &jailer.Error{
		Code: jailer.CodeInternal, Op: "state", Reason: "state.dir", Message: "the state directory can't be used", Err: err,
		Hint: "name one that this user owns, on a file system with room, with --state-dir",
	}
}
