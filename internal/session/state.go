package session

import (
	"path/filepath"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/boottime"
	"github.com/jailer-project/jailer/internal/state"
)

// ociVersion is that of the runtime specification whose state this is.
const ociVersion = "1.3.0"

// State is a session's state document.
type State = jailer.SessionState

// State is the state of the session as its supervisor knows it.
func (s *Server) State() State {
	plan := s.jail.Plan()
	busy, used, ended := s.life.look()
	st := State{
		OCIVersion: ociVersion, ID: s.jail.ID(), Status: jailer.SessionCreated, PID: s.jail.PID(),
		Bundle: filepath.Dir(s.jail.Dir()), Annotations: plan.Labels,
		Profile: plan.Profile, Tenant: plan.Tenant,
		CreatedAt: stamp(s.created), ExpiresAt: s.expiresAt(), IdleAfterMs: plan.Limits.Idle.Milliseconds(),
		Commands: &busy, Processes: s.list(false),
	}
	switch {
	case ended:
		st.Status = jailer.SessionStopped
	case used:
		st.Status = jailer.SessionRunning
	}
	return st
}

func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// expiresAt is the end of its time to live by the wall clock as it is now: that may
// have been set since, and the session's clock goes on.
func (s *Server) expiresAt() time.Time {
	age := boottime.Now() - s.o.Began
	created := s.created
	if set := time.Since(created.Round(0)) - age; set.Abs() > time.Second {
		created = created.Add(set)
	}
	return stamp(created.Add(s.jail.Plan().Limits.TTL))
}

// stateOf is what the record alone tells of a jail.
func stateOf(e state.Entry) State {
	st := State{OCIVersion: ociVersion, ID: e.ID, Status: jailer.SessionStopped, Bundle: e.Path}
	if e.Alive {
		st.Status = jailer.SessionRunning
	}
	if e.Record == nil {
		return st
	}
	st.CreatedAt = stamp(e.Record.CreatedAt)
	info := e.Record.Session
	if info == nil {
		return st
	}
	st.ExpiresAt, st.IdleAfterMs = st.CreatedAt.Add(time.Duration(info.TTLMs)*time.Millisecond), info.IdleMs
	st.Profile, st.Tenant, st.Annotations = info.Profile, e.Record.Tenant, info.Labels
	if e.Alive {
		st.PID = info.PID1
	}
	if e.Alive && info.PID1 == 0 {
		st.Status = jailer.SessionCreating
	}
	return st
}
