package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/internal/wire"
	"github.com/jailer-project/jailer/policy"
)

const (
	answerWait = 15 * time.Second // for an answer that nothing has to happen for, or little
	startWait  = time.Minute      // for a process to start
	endWait    = time.Minute      // for a session, or a process that was killed, to end
	lookWait   = 2 * time.Second  // for each of many answers, where the record will do too
	lookers    = 16               // who look at once
)

// A Client speaks to the sessions of one state directory.
type Client struct {
	Dir     *state.Dir
	Program string // the version of the program
	Token   []byte // presented to each session; nil for none
}

// find gives a live session's entry, or why there is none.
func (c *Client) find(id string) (state.Entry, error) {
	e, err := c.Dir.Find(id)
	switch {
	case errors.Is(err, state.ErrNotFound):
		return e, &jailer.Error{
			Code: jailer.CodeSessionNotFound, Op: "session.find", Message: "there is no session " + id,
			Hint: "list them: jailer list",
		}
	case err != nil && state.CheckID(id) != nil:
		return e, &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "session.find", Err: err}
	case err != nil:
		return e, &jailer.Error{Code: jailer.CodeInternal, Op: "session.find", Err: err}
	}
	return e, nil
}

// alive refuses what has no supervisor to speak to.
func alive(e state.Entry) error {
	switch {
	case !e.Alive:
		return &jailer.Error{
			Code: jailer.CodeInvalidState, Op: "session.find", Message: fmt.Sprintf("session %s is stopped: its supervisor is gone", e.ID),
			Hint: "remove what is left: jailer delete " + e.ID,
		}
	case e.Record != nil && e.Record.Session == nil:
		return &jailer.Error{
			Code: jailer.CodeInvalidState, Op: "session.find", Message: e.ID + " is a `jailer run`, which has no supervisor",
			Hint: fmt.Sprintf("end its launcher instead: kill -TERM %d", e.Record.PID),
		}
	}
	return nil
}

// connect comes to the session's supervisor.
func (c *Client) connect(id string) (*wire.Conn, error) {
	e, err := c.find(id)
	if err != nil {
		return nil, err
	}
	if err := alive(e); err != nil {
		return nil, err
	}
	return c.dial(e)
}

func (c *Client) dial(e state.Entry) (*wire.Conn, error) {
	conn, err := wire.Dial(e.Path + "/priv")
	if err == nil {
		cred, perr := conn.Peer()
		if perr == nil && cred.Uid == uint32(os.Geteuid()) {
			conn.SendWithin(answerWait)
			return conn, nil
		}
		conn.Close()
		return nil, &jailer.Error{Code: jailer.CodeUnauthorized, Op: "session.socket", Message: "the supervisor is another user's", Err: perr}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, &jailer.Error{
			Code: jailer.CodeInvalidState, Op: "session.socket", Retryable: true,
			Message: fmt.Sprintf("session %s is still being made, or at its end", e.ID), Err: err,
			Hint: "look again: jailer state " + e.ID,
		}
	}
	return nil, &jailer.Error{Code: jailer.CodeInternal, Op: "session.socket", Err: err}
}

// receive reads one message, the first of a connection with its version.
func (c *Client) receive(conn *wire.Conn, first bool) (*wire.Message, []*os.File, error) {
	m, files, err := conn.Receive()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, nil, noAnswer()
	case errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET):
		return nil, nil, &jailer.Error{Code: jailer.CodeInvalidState, Op: "session.socket", Reason: "session.ended", Message: "the session's supervisor is gone"}
	case err != nil:
		return nil, nil, &jailer.Error{Code: jailer.CodeInternal, Op: "session.socket", Err: err}
	}
	if first {
		if err := checkVersion(m, "this program", c.Program, "the session's supervisor"); err != nil {
			wire.CloseAll(files)
			return nil, nil, err
		}
	}
	if m.Type == wire.Error {
		wire.CloseAll(files)
		return nil, nil, refusal(m)
	}
	return m, files, nil
}

// refusal is the error that a message has.
func refusal(m *wire.Message) error {
	e := new(jailer.Error)
	if err := json.Unmarshal(m.Document, e); err != nil {
		e = &jailer.Error{Code: jailer.CodeInternal, Op: "session.socket", Err: err}
	}
	return e
}

// answer reads the first message that is one. While somebody else is asked, it waits for
// as long as he has.
func (c *Client) answer(conn *wire.Conn) (*wire.Message, []*os.File, error) {
	for {
		m, files, err := c.receive(conn, true)
		if err != nil || m.Type != wire.Asking {
			return m, files, err
		}
		wire.CloseAll(files)
		if err := conn.ReceiveUntil(time.Now().Add(m.Grace + startWait)); err != nil {
			return nil, nil, err
		}
	}
}

func noAnswer() error {
	return &jailer.Error{
		Code: jailer.CodeInvalidState, Op: "session.socket", Retryable: true, Message: "the session's supervisor doesn't answer",
		Hint: "look whether it is stopped or the host overloaded",
	}
}

func (c *Client) send(conn *wire.Conn, m *wire.Message, files ...*os.File) error {
	m.V, m.Program, m.Token = wire.Version, c.Program, c.Token
	err := conn.Send(m, files...)
	if err == nil || errors.Is(err, unix.EPIPE) {
		return nil // why it went away, it may have said
	}
	return &jailer.Error{Code: jailer.CodeInternal, Op: "session.socket", Err: err}
}

// call asks one thing, and reads the answer into doc.
func (c *Client) call(id string, wait time.Duration, m *wire.Message, doc any) error {
	conn, err := c.connect(id)
	if err != nil {
		return err
	}
	defer conn.Close()
	return c.ask(conn, wait, m, doc)
}

func (c *Client) ask(conn *wire.Conn, wait time.Duration, m *wire.Message, doc any) error {
	if err := conn.ReceiveUntil(time.Now().Add(wait)); err != nil {
		return err
	}
	if err := c.send(conn, m); err != nil {
		return err
	}
	got, files, err := c.answer(conn)
	wire.CloseAll(files)
	if err != nil {
		return err
	}
	if got.Type != wire.Done {
		return unexpected(got)
	}
	if err := json.Unmarshal(got.Document, doc); err != nil {
		return &jailer.Error{Code: jailer.CodeInternal, Op: "session.socket", Err: err}
	}
	return nil
}

func unexpected(m *wire.Message) error {
	return &jailer.Error{Code: jailer.CodeInternal, Op: "session.socket", Message: fmt.Sprintf("unexpected message %.40q", m.Type)}
}

// State is the session's. Of one that is being made, or whose supervisor is gone, it
// has what the record knows.
func (c *Client) State(id string) (State, error) {
	e, err := c.find(id)
	if err != nil {
		return State{}, err
	}
	return c.state(e, answerWait)
}

func (c *Client) state(e state.Entry, wait time.Duration) (State, error) {
	if alive(e) != nil {
		return stateOf(e), nil
	}
	conn, err := c.dial(e)
	if err != nil {
		if je, ok := errors.AsType[*jailer.Error](err); ok && je.Retryable {
			return stateOf(e), nil
		}
		return State{}, err
	}
	defer conn.Close()
	var st State
	err = c.ask(conn, wait, &wire.Message{Type: wire.State}, &st)
	return st, err
}

// List gives the states of all jails, by id. Whoever doesn't answer soon is shown as
// his record has him.
func (c *Client) List() ([]State, error) {
	entries, err := c.Dir.List()
	if err != nil {
		return nil, &jailer.Error{Code: jailer.CodeInternal, Op: "session.list", Err: err}
	}
	out := make([]State, len(entries))
	places := make(chan struct{}, lookers)
	var work sync.WaitGroup
	for i, e := range entries {
		places <- struct{}{}
		work.Go(func() {
			defer func() { <-places }()
			var err error
			if c.stranger(e) {
				err = errStranger
			} else {
				out[i], err = c.state(e, lookWait)
			}
			if err != nil {
				out[i] = stateOf(e)
			}
		})
	}
	work.Wait()
	return out, nil
}

// stranger says that the session would refuse our token, and note that.
func (c *Client) stranger(e state.Entry) bool {
	if e.Record == nil || e.Record.Session == nil || e.Record.Session.TokenSHA256 == "" {
		return false
	}
	h := sha256.Sum256(c.Token)
	return e.Record.Session.TokenSHA256 != hex.EncodeToString(h[:])
}

var errStranger = errors.New("its token is another")

// A ProcessRequest is a managed process to be.
type ProcessRequest struct {
	Name      string
	Request   []byte
	Overrides policy.Overrides
}

// Start begins a managed process.
func (c *Client) Start(id string, r ProcessRequest) (p Process, err error) {
	err = c.call(id, startWait, &wire.Message{
		Type: wire.Start, Name: r.Name, Command: &wire.Command{Request: r.Request, Flags: flagsOf(r.Overrides)},
	}, &p)
	return p, err
}

// Processes lists the managed processes, and forgets the finished ones after that if
// prune says so.
func (c *Client) Processes(id string, prune bool) (ps []Process, err error) {
	err = c.call(id, answerWait, &wire.Message{Type: wire.List, Prune: prune}, &ps)
	return ps, err
}

// Stop asks a process to end, and ends its tree after the grace.
func (c *Client) Stop(id, process string, grace time.Duration) (p Process, err error) {
	err = c.call(id, max(grace, 0)+endWait, &wire.Message{Type: wire.Stop, Process: process, Grace: grace}, &p)
	return p, err
}

// Kill sends a signal to a process.
func (c *Client) Kill(id, process string, sig unix.Signal) (p Process, err error) {
	err = c.call(id, answerWait, &wire.Message{Type: wire.Kill, Process: process, Signal: int(sig)}, &p)
	return p, err
}

// LogRequest says what of a process's output is wanted.
type LogRequest struct {
	Process, Stream string
	Tail            int  // the last bytes; 0: all that is kept
	Follow          bool // and what comes, until the process's end
}

// Logs copies a log to out. lost is called with the number of bytes that are missing
// before the next one.
func (c *Client) Logs(ctx context.Context, id string, r LogRequest, out io.Writer, lost func(int64)) error {
	conn, err := c.connect(id)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	m := &wire.Message{Type: wire.Logs, Process: r.Process, Stream: r.Stream, Tail: r.Tail, Follow: r.Follow}
	if err := c.send(conn, m); err != nil {
		return err
	}
	for first := true; ; first = false {
		m, files, err := c.receive(conn, first)
		wire.CloseAll(files)
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
		switch m.Type {
		case wire.Asking:
		case wire.Data:
			if m.Lost > 0 {
				lost(m.Lost)
			}
			if _, err := out.Write(m.Data); err != nil {
				return err
			}
		case wire.End:
			return nil
		default:
			return unexpected(m)
		}
	}
}
