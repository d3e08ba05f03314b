package launch

import (
	"encoding/hex"
	"errors"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/state"
)

// reapAtStart is how many dead jails a start removes.
const reapAtStart = 2

// Step 6: the state directory, the lock, the record, renamed in whole.
func (j *Jail) makeState() error {
	dir, err := state.Open(j.o.StateDir, j.o.XDGRuntimeDir)
	if err != nil {
		return noState(err)
	}
	if dir.Hint != "" {
		j.log.Debug(dir.Hint)
	}
	// What a crash left goes with the next start, if there is little of it; `jailer gc`
	// has the time for all.
	for _, l := range dir.ReapSome(j.ctx, reapAtStart) {
		j.log.Info("removed what a crash left", "id", l.ID, "err", l.Err)
	}
	if j.ids.owned && j.persistent == nil {
		if err := j.takeUID(); err != nil {
			return err
		}
	}
	if err := j.openTrail(dir); err != nil {
		return err
	}
	rec := state.Record{ID: j.o.ID, CreatedAt: j.o.Began.UTC(), HostUID: int(j.ids.uid), Tenant: j.plan.Tenant, Events: j.trail.ref}
	if j.base != nil {
		j.cgroupName = dir.CgroupName(j.o.ID)
		rec.Cgroups = j.base.Plan(j.cgroupName)
	}
	if j.only == nil {
		l := j.plan.Limits
		rec.Session = &state.SessionInfo{
			TTLMs: l.TTL.Milliseconds(), IdleMs: l.Idle.Milliseconds(),
			Profile: j.plan.Profile, Labels: j.plan.Labels,
			TokenSHA256: hex.EncodeToString(j.o.TokenHash),
		}
	}
	access := j.o.Policy.Access
	leave, err := dir.Admit(j.ctx, j.plan.Tenant, state.Most{Sessions: access.MaxSessions, OfTenant: access.MaxPerTenant})
	if full, ok := errors.AsType[*state.FullError](err); ok {
		return &jailer.Error{
			Code: jailer.CodeSessionLimit, Op: "session.create", Path: full.Key(), Retryable: true, Message: full.Error(),
			Hint: "end one (`jailer list`, `jailer delete`), or wait until one has ended",
		}
	}
	if err != nil {
		return noState(err)
	}
	s, err := dir.Create(rec)
	leave()
	if errors.Is(err, state.ErrExists) {
		return &jailer.Error{
			Code: jailer.CodeSessionExists, Err: err,
			Hint: "choose another --id; `jailer gc` removes what a crash left",
		}
	}
	if err != nil {
		return noState(err)
	}
	j.session = s
	j.later(j.closeSession)
	return j.recordCreated()
}

// closeSession undoes makeState, when all that came later is undone. The record of
// a session that is not at its end stays, for gc: where something of it is left, or
// an event is missing.
func (j *Jail) closeSession() error {
	if err := j.recordEnd(); err != nil || j.leaked() {
		j.session.Abandon()
		return err
	}
	return j.session.Remove()
}

func noState(err error) error {
	return &jailer.Error{
		Code: jailer.CodeInternal, Op: "state", Reason: "state.dir", Message: "the state directory can't be used", Err: err,
		Hint: "name one that this user owns, on a file system with room, with --state-dir",
	}
}
