package session

import (
	"path/filepath"
	"time"

	"github.com/jailer-project/jailer/internal/state"
)

// ociVersion is that of the runtime specification whose state this is.
const ociVersion = "1.3.0"

// A Status is one of the OCI runtime specification's.
type Status string

// The statuses. A session's "user-specified program" is its first command.
const (
	StatusCreating Status = "creating" // it is being made
	StatusCreated  Status = "created"  // no command has run in it
	StatusRunning  Status = "running"
	StatusStopped  Status = "stopped" // its supervisor is gone; gc or delete removes what is left
)

// A State is a session's state document: the OCI runtime specification's
// (runtime.md, "State"), with members of ours.
type State struct {
	OCIVersion  string            `json:"ociVersion"`
	ID          string            `json:"id"`
	Status      Status            `json:"status"`
	PID         int               `json:"pid,omitempty"` // of PID 1, on the host
	Bundle      string            `json:"bundle"`        // the session's directory
	Annotations map[string]string `json:"annotations,omitempty"`

	Profile     string    `json:"profile,omitempty"`
	Tenant      string    `json:"tenant,omitempty"`
	CreatedAt   time.Time `json:"createdAt,omitzero"`
	ExpiresAt   time.Time `json:"expiresAt,omitzero"` // by the wall clock as it is now; absent for a run
	IdleAfterMs int64     `json:"idleAfterMs,omitempty"`

	Commands  *int      `json:"commands,omitempty"` // that run; absent where nobody could be asked
	Processes []Process `json:"processes,omitzero"` // managed ones
}

// State is the state of the session as its supervisor knows it.
func (s *Server) State() State {
	plan := s.jail.Plan()
	busy, used, ended := s.life.look()
	st := State{
		OCIVersion: ociVersion, ID: s.jail.ID(), Status: StatusCreated, PID: s.jail.PID(),
		Bundle: filepath.Dir(s.jail.Dir()), Annotations: plan.Labels,
		Profile: plan.Profile, Tenant: plan.Tenant,
		CreatedAt: stamp(s.created), ExpiresAt: stamp(s.created.Add(plan.Limits.TTL)), IdleAfterMs: plan.Limits.Idle.Milliseconds(),
		Commands: &busy, Processes: s.list(false),
	}
	switch {
	case ended:
		st.Status = StatusStopped
	case used:
		st.Status = StatusRunning
	}
	return st
}

func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// stateOf is what the record alone tells of a jail.
func stateOf(e state.Entry) State {
	st := State{OCIVersion: ociVersion, ID: e.ID, Status: StatusStopped, Bundle: e.Path}
	if e.Alive {
		st.Status = StatusRunning
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
	st.Profile, st.Tenant, st.Annotations = info.Profile, info.Tenant, info.Labels
	if e.Alive {
		st.PID = info.PID1
	}
	if e.Alive && info.PID1 == 0 {
		st.Status = StatusCreating
	}
	return st
}
