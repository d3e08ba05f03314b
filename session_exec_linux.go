package jailer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/jailer-project/jailer/internal/stream"
	"github.com/jailer-project/jailer/internal/wire"
)

// Exec runs one command in the session. Its streams are IO's, as in Client.Run; no
// program is started for it: the session's supervisor and its PID 1 are there. The
// end of ctx aborts the command: error and result are then those of Client.Run.
func (s *Session) Exec(ctx context.Context, r Request, streams IO) (*Result, error) {
	x, err := s.begin(ctx, r, streams)
	if err != nil {
		return nil, err
	}
	return x.end()
}

// An execution is a command in a session, seen by the one who wants its result.
type execution struct {
	ctx  context.Context
	io   IO
	conn *wire.Conn
	stop func() bool // of the watch over ctx

	stdin, outR, errR *os.File // our ends
	stdout, stderr    *stream.Capture
	exceeded          func()
	execID            string
}

// begin sends the command and returns when it has been exec'ed.
func (s *Session) begin(ctx context.Context, r Request, streams IO) (*execution, error) {
	doc, err := s.c.prepare(ctx, r, streams)
	if err != nil {
		return nil, err
	}
	if err := s.may(ctx, making("exec", r)); err != nil {
		return nil, err
	}
	conn, err := s.connect()
	if err != nil {
		return nil, err
	}
	conn.SendWithin(stopGrace) // a supervisor that is stopped reads nothing
	x := &execution{ctx: ctx, io: streams, conn: conn}
	x.exceeded = func() { _ = conn.Send(&wire.Message{Type: wire.Exceeded}) }
	theirs, err := x.open(streams.Stdin != nil)
	if err == nil {
		err = conn.Send(&wire.Message{
			V: wire.Version, Program: "library", Token: s.c.Token, Type: wire.Exec,
			Command: &wire.Command{Request: doc, Stdin: streams.Stdin != nil},
		}, theirs...)
	}
	wire.CloseAll(theirs) // else we would never see the end of the output
	if err != nil {
		x.close()
		return nil, &Error{Code: CodeInternal, Op: "session.exec", Err: err}
	}
	x.stop = context.AfterFunc(ctx, x.abort)
	m, err := x.receive(wire.Started)
	if err == nil && m.Begun == nil {
		err = garbled(m)
	}
	if err != nil {
		x.close()
		if cause := context.Cause(ctx); cause != nil {
			err = &Error{Code: CodeInternal, Op: "session.exec", Message: "cancelled before the command had started", Err: cause}
		}
		return nil, err
	}
	x.execID = m.Begun.ExecID
	x.read(m.Begun)
	return x, nil
}

// open makes the pipes, and gives the job's ends.
func (x *execution) open(input bool) (theirs []*os.File, err error) {
	for _, p := range []struct {
		ours  **os.File
		input bool
	}{{&x.stdin, true}, {&x.outR, false}, {&x.errR, false}} {
		if p.input && !input {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		if p.input {
			r, w = w, r
		}
		w.Fd() // makes it block, as a command expects of its streams
		*p.ours, theirs = r, append(theirs, w)
	}
	return theirs, nil
}

// abort ends the command: the first TERM is passed on to it, the second is ours.
func (x *execution) abort() {
	for range 2 {
		_ = x.conn.Send(&wire.Message{Type: wire.Signal, Signal: int(syscall.SIGTERM)})
	}
	_ = x.conn.ReceiveUntil(time.Now().Add(stopGrace)) // a supervisor that is stuck
}

// signal passes one on.
func (x *execution) signal(s syscall.Signal) error {
	return x.conn.Send(&wire.Message{Type: wire.Signal, Signal: int(s)})
}

// read begins to read the output, under the cap of the command's plan.
func (x *execution) read(b *wire.Begun) {
	captured := x.io.Stdout == nil && x.io.Stderr == nil
	start := func(f *os.File, out io.Writer) *stream.Capture {
		if out == nil && !captured {
			out = io.Discard
		}
		o := stream.Options{Out: out, Cap: b.MaxOutput, Keep: stream.Keep(b.OutputKeep), OnExceed: x.exceeded}
		if b.OnOutputLimit == OnLimitKill {
			o.OnLimit = stream.Kill
		}
		return stream.Start(f, o)
	}
	x.stdout, x.stderr = start(x.outR, x.io.Stdout), start(x.errR, x.io.Stderr)
	x.outR, x.errR = nil, nil
	if x.stdin != nil {
		stream.Feed(context.WithoutCancel(x.ctx), x.io.Stdin, x.stdin)
		x.stdin = nil
	}
}

// end waits for the result.
func (x *execution) end() (*Result, error) {
	defer x.close()
	if _, err := x.receive(wire.Ended); err != nil {
		return nil, x.lost(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	stop := func() bool { return true }
	if x.ctx.Err() == nil { // a writer of the caller's may take its time, until it is cancelled
		cancel()
		ctx, cancel = context.WithCancel(context.Background())
		stop = context.AfterFunc(x.ctx, cancel)
	}
	derr := errors.Join(x.stdout.Settle(ctx), x.stderr.Settle(ctx))
	stop()
	cancel()
	total := &wire.Output{
		Stdout: x.stdout.Total(), StdoutTruncated: x.stdout.Truncated(),
		Stderr: x.stderr.Total(), StderrTruncated: x.stderr.Truncated(),
	}
	_ = x.conn.Send(&wire.Message{Type: wire.Totals, Output: total})
	m, err := x.receive(wire.Result)
	if err != nil {
		return nil, x.lost(err)
	}
	res, err := ParseResult(m.Document)
	if err != nil {
		return nil, err
	}
	if x.io.Stdout == nil && x.io.Stderr == nil {
		for _, o := range []struct {
			text     **string
			encoding *string
			c        *stream.Capture
		}{{&res.Stdout, &res.StdoutEncoding, x.stdout}, {&res.Stderr, &res.StderrEncoding, x.stderr}} {
			text, encoding := stream.Text(o.c.Bytes())
			*o.text, *o.encoding = &text, encoding
		}
	}
	if derr != nil && res.Error == nil {
		res.Error = &Error{Code: CodeInternal, Op: "stream", Message: "output was not delivered whole", Err: derr}
	}
	switch {
	case x.ctx.Err() != nil:
		return res, context.Cause(x.ctx)
	case res.Error != nil:
		return res, res.Error
	}
	return res, nil
}

// lost is the error of a command whose result nobody will tell.
func (x *execution) lost(err error) error {
	if cause := context.Cause(x.ctx); cause != nil {
		return &Error{Code: CodeInternal, Op: "session.exec", Message: "the command was cancelled, and its supervisor gave no result", Err: cause}
	}
	return err
}

// receive waits for a message of certain types.
func (x *execution) receive(want ...wire.Type) (*wire.Message, error) {
	m, files, err := x.receiveFiles(want...)
	wire.CloseAll(files) // none is asked for
	return m, err
}

// receiveFiles also gives the descriptors that come with it, which the caller closes.
func (x *execution) receiveFiles(want ...wire.Type) (*wire.Message, []*os.File, error) {
	m, files, err := x.conn.Receive()
	for err == nil && m.Type == wire.Asking { // somebody is asked first
		wire.CloseAll(files)
		m, files, err = x.conn.Receive()
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil, files, &Error{Code: CodeInvalidState, Op: "session.socket", Reason: "session.ended", Message: "the session's supervisor is gone"}
	case err != nil:
		return nil, files, &Error{Code: CodeInternal, Op: "session.socket", Err: err}
	case m.Type == wire.Error:
		e := new(Error)
		if err := json.Unmarshal(m.Document, e); err != nil {
			return nil, files, garbled(m)
		}
		return nil, files, e
	case !slices.Contains(want, m.Type):
		return nil, files, garbled(m)
	}
	return m, files, nil
}

func garbled(m *wire.Message) error {
	return &Error{Code: CodeInternal, Op: "session.socket", Message: "unexpected message " + quote(string(m.Type))}
}

func (x *execution) close() {
	if x.stop != nil {
		x.stop()
	}
	_ = x.conn.Close()
	closeFiles(x.stdin, x.outR, x.errR)
}
