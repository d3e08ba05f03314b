package jailer

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/jailer-project/jailer/internal/wire"
)

// A Process is a managed process of a session: it goes on when its caller is gone, and
// its end and the end of its output are kept.
type Process struct {
	ID     string        `json:"id"`
	Name   string        `json:"name,omitempty"`
	ExecID string        `json:"execId,omitempty"` // in the event log
	Status ProcessStatus `json:"status"`

	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`

	// How it ended: Result as of a command, with the code or the signal of its main
	// process.
	Result   Status  `json:"result,omitempty"`
	ExitCode *int    `json:"exitCode,omitempty"`
	Signal   *string `json:"signal,omitempty"`

	StdoutBytes int64 `json:"stdoutBytes"` // written
	StdoutLost  int64 `json:"stdoutLost"`  // of these kept no more
	StderrBytes int64 `json:"stderrBytes"`
	StderrLost  int64 `json:"stderrLost"`
}

// ProcessStatus says whether a process runs.
type ProcessStatus string

// The statuses.
const (
	ProcessStarting ProcessStatus = "starting"
	ProcessRunning  ProcessStatus = "running"
	ProcessExited   ProcessStatus = "exited"
)

// LogOptions say what of a process's output is wanted.
type LogOptions struct {
	Stderr bool  // standard error, not standard output
	Tail   int64 // the last bytes; 0 is all that is kept
	Follow bool  // and what comes, until the process's end
}

// Start begins a managed process; name may be "". At most four are kept, finished ones
// included (process_limit).
func (s *Session) Start(ctx context.Context, name string, r Request) (*Process, error) {
	doc, err := s.c.prepare(ctx, r, IO{})
	if err != nil {
		return nil, err
	}
	op := making("start", r)
	op.Capabilities = append(op.Capabilities, CapProcess)
	if err := s.may(ctx, op); err != nil {
		return nil, err
	}
	return s.process(ctx, &wire.Message{Type: wire.Start, Name: name, Command: &wire.Command{Request: doc}})
}

// Processes lists the managed processes; prune forgets those that have ended.
func (s *Session) Processes(ctx context.Context, prune bool) ([]Process, error) {
	if err := s.may(ctx, Operation{Name: "ps", Capabilities: []string{CapProcess}}); err != nil {
		return nil, err
	}
	var out []Process
	return out, s.ask(ctx, &wire.Message{Type: wire.List, Prune: prune}, &out)
}

// Stop asks a process, by id or name, to end (TERM), and after the grace ends all its
// processes. It returns when they are gone.
func (s *Session) Stop(ctx context.Context, process string, grace time.Duration) (*Process, error) {
	if err := s.may(ctx, Operation{Name: "stop", Capabilities: []string{CapProcess}}); err != nil {
		return nil, err
	}
	return s.process(ctx, &wire.Message{Type: wire.Stop, Process: process, Grace: grace})
}

// Logs copies the output of a process to w, and gives the number of bytes that were
// lost before and between: a log keeps the end alone.
func (s *Session) Logs(ctx context.Context, process string, o LogOptions, w io.Writer) (lost int64, err error) {
	if err := s.may(ctx, Operation{Name: "logs", Capabilities: []string{CapProcess}}); err != nil {
		return 0, err
	}
	m := &wire.Message{Type: wire.Logs, Process: process, Stream: "stdout", Tail: int(o.Tail), Follow: o.Follow}
	if o.Stderr {
		m.Stream = "stderr"
	}
	x, err := s.dial(ctx, m)
	if err != nil {
		return 0, err
	}
	defer x.close()
	for {
		m, err := x.receive(wire.Data, wire.End)
		if err != nil {
			return lost, x.lost(err)
		}
		if m.Type == wire.End {
			return lost, nil
		}
		lost += m.Lost
		if _, err := w.Write(m.Data); err != nil {
			return lost, err
		}
	}
}

func (s *Session) process(ctx context.Context, m *wire.Message) (*Process, error) {
	p := new(Process)
	if err := s.ask(ctx, m, p); err != nil {
		return nil, err
	}
	return p, nil
}

// ask asks one thing of the supervisor.
func (s *Session) ask(ctx context.Context, m *wire.Message, doc any) error {
	x, err := s.dial(ctx, m)
	if err != nil {
		return err
	}
	defer x.close()
	got, err := x.receive(wire.Done)
	if err != nil {
		return x.lost(err)
	}
	if err := json.Unmarshal(got.Document, doc); err != nil {
		return garbled(got)
	}
	return nil
}

// dial sends the first message. The end of ctx ends the connection.
func (s *Session) dial(ctx context.Context, m *wire.Message) (*execution, error) {
	conn, err := s.connect()
	if err != nil {
		return nil, err
	}
	conn.SendWithin(stopGrace) // a supervisor that is stopped reads nothing
	m.V, m.Program, m.Token = wire.Version, "library", s.c.Token
	if err := conn.Send(m); err != nil {
		conn.Close()
		return nil, s.gone(err)
	}
	return &execution{ctx: ctx, conn: conn, stop: context.AfterFunc(ctx, func() { conn.Close() })}, nil
}

// connect comes to the supervisor, which must be this user's: what a command and its
// environment say is for nobody else.
func (s *Session) connect() (*wire.Conn, error) {
	conn, err := wire.Dial(s.dir)
	if err != nil {
		return nil, s.gone(err)
	}
	cred, err := conn.Peer()
	if err == nil && cred.Uid == uint32(os.Geteuid()) {
		return conn, nil
	}
	conn.Close()
	return nil, &Error{Code: CodeUnauthorized, Op: "session.socket", Message: "the supervisor of session " + quote(s.ID) + " is another user's", Err: err}
}

func (s *Session) gone(err error) error {
	return &Error{Code: CodeSessionNotFound, Op: "session.socket", Message: "session " + quote(s.ID) + " is gone, or at its end", Err: err}
}
