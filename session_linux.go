package jailer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// A Session is a jail that lives across commands. Its supervisor is a process of its
// own: it outlives this one, until Close, its time to live, its idle time, or the end
// of its owner. A Session may be used by many goroutines at once.
type Session struct {
	ID  string
	PID int // of its PID 1, on the host

	c    *Client
	dir  string   // where its socket is
	only []string // capabilities that it uses; nil: any

	profile, tenant string
	labels          map[string]string
}

// SessionOptions say more of a session than its request does.
type SessionOptions struct {
	ID       string        // "" makes a random one; one that is in use is session_exists
	TTL      time.Duration // of life, whatever it does; 0 is the profile's
	Idle     time.Duration // of life without a running command; 0 is the profile's
	OwnerPID int           // it ends with this process; 0 is none
}

// SessionStatus is a status of the OCI runtime specification. A session's
// "user-specified program" is its first command.
type SessionStatus string

// The statuses.
const (
	SessionCreating SessionStatus = "creating" // it is being made
	SessionCreated  SessionStatus = "created"  // no command has run in it
	SessionRunning  SessionStatus = "running"
	SessionStopped  SessionStatus = "stopped" // its supervisor is gone; gc or delete removes what is left
)

// SessionState is a session's state document: the OCI runtime specification's
// (runtime.md, "State"), with members of ours.
type SessionState struct {
	OCIVersion  string            `json:"ociVersion"`
	ID          string            `json:"id"`
	Status      SessionStatus     `json:"status"`
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

// Create makes a session. The request names no command: its limits are those of each
// command in the session, its environment and directory their defaults.
func (c *Client) Create(ctx context.Context, r Request, o SessionOptions) (*Session, error) {
	if len(r.Argv) > 0 {
		return nil, invalid("argv", "a session has no command of its own")
	}
	if err := c.check(ctx, r); err != nil {
		return nil, err
	}
	if o.ID != "" && !labelKey.MatchString(o.ID) {
		return nil, badID(o.ID)
	}
	doc, err := c.encode(r)
	if err != nil {
		return nil, err
	}
	if err := c.may(ctx, making("create", r)); err != nil {
		return nil, err
	}
	args := []string{"create", "--request", "-"}
	if o.ID != "" {
		args = append(args, "--id", o.ID)
	}
	for flag, d := range map[string]time.Duration{"--ttl": o.TTL, "--idle": o.Idle} {
		if d != 0 {
			args = append(args, flag, d.String())
		}
	}
	if o.OwnerPID != 0 {
		args = append(args, "--owner-pid", strconv.Itoa(o.OwnerPID))
	}
	if c.Policy != "" {
		args = append(args, "--policy", c.Policy)
	}
	return c.session(ctx, doc, args)
}

// Open finds a session that lives.
func (c *Client) Open(ctx context.Context, id string) (*Session, error) {
	if err := c.check(ctx, Request{}); err != nil {
		return nil, err
	}
	if !labelKey.MatchString(id) {
		return nil, badID(id)
	}
	if err := c.may(ctx, Operation{Name: "open", SessionID: id}); err != nil {
		return nil, err
	}
	return c.session(ctx, nil, []string{"state", "--", id})
}

// badID: the program's own check, before the id is an argument of it.
func badID(id string) error {
	return invalid("id", fmt.Sprintf("%s does not match %s", quote(id), labelKey))
}

// session runs a verb that answers with a state.
func (c *Client) session(ctx context.Context, stdin []byte, args []string) (*Session, error) {
	var st SessionState
	if err := c.verb(ctx, stdin, args, &st); err != nil {
		return nil, err
	}
	if st.Status == SessionStopped {
		return nil, &Error{
			Code: CodeInvalidState, Op: "session.open", Message: fmt.Sprintf("session %s is stopped", quote(st.ID)),
			Hint: "jailer delete removes what is left of it",
		}
	}
	return &Session{
		ID: st.ID, PID: st.PID, c: c, dir: st.Bundle + "/priv", profile: st.Profile, tenant: st.Tenant, labels: st.Annotations,
	}, nil
}

// State asks the session's supervisor.
func (s *Session) State(ctx context.Context) (*SessionState, error) {
	st := new(SessionState)
	if err := s.c.verb(ctx, nil, []string{"state", "--", s.ID}, st); err != nil {
		return nil, err
	}
	return st, nil
}

// Close ends the session with every command in it, and returns when nothing is left.
// One that is gone already is no error.
func (s *Session) Close() error {
	if err := s.may(context.Background(), Operation{Name: "close"}); err != nil {
		return err
	}
	return s.c.verb(context.Background(), nil, []string{"delete", "--", s.ID}, nil)
}

// verb runs the program for a short answer: a JSON document into doc, unless that is
// nil, or an error document.
func (c *Client) verb(ctx context.Context, stdin []byte, args []string, doc any) error {
	verb := args[0]
	args = append([]string{verb, "--json"}, args[1:]...)
	if c.StateDir != "" {
		args = append([]string{"--state-dir", c.StateDir}, args...)
	}
	token, err := c.tokenPipe()
	if err != nil {
		return startError(c.Path, err)
	}
	if token != nil {
		defer token.Close()
		args = slices.Insert(args, slices.Index(args, verb)+1, "--token-file", "/dev/fd/3")
	}
	cmd := exec.CommandContext(ctx, c.Path, args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = environment(), "/", drainTime
	if token != nil {
		cmd.ExtraFiles = []*os.File{token}
	}
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	var out bytes.Buffer
	var said tail
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return startError(c.Path, err)
	}
	var failure struct{ Error *Error }
	if json.Unmarshal(out.Bytes(), &failure) == nil && failure.Error != nil {
		return failure.Error
	}
	if err != nil {
		e := &Error{Code: CodeInternal, Op: "client", Message: "jailer " + verb + " failed", Err: err, Hint: said.String()}
		if cause := context.Cause(ctx); cause != nil {
			e.Message, e.Err = "cancelled", cause
		}
		return e
	}
	if doc == nil {
		return nil
	}
	if err := json.Unmarshal(out.Bytes(), doc); err != nil {
		return &Error{Code: CodeInternal, Op: "client", Message: "jailer " + verb + " gave no document", Err: err}
	}
	return nil
}

// StateDir is the directory in which the session has its own.
func (s *Session) StateDir() string { return filepath.Dir(filepath.Dir(s.dir)) }
