package session

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/stream"
	"github.com/jailer-project/jailer/internal/terminal"
	"github.com/jailer-project/jailer/internal/wire"
)

// Exec runs a command in a session as launch.Run runs one: of o it takes the request,
// the flags, the streams and the signals. The output is read here, from pipes of ours;
// the supervisor sees none of it. An error means that the command never ran, or that
// the supervisor was lost, and the command with it.
func (c *Client) Exec(ctx context.Context, id string, o launch.Options) (*launch.Outcome, error) {
	conn, err := c.connect(id)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &remote{c: c, conn: conn, o: o, exceeded: make(chan struct{}, 2)}
	defer r.close()
	if err := r.order(); err != nil {
		return nil, err
	}
	return r.follow(ctx)
}

// A remote is a command in a session, seen by its client.
type remote struct {
	c    *Client
	conn *wire.Conn
	o    launch.Options

	stdin          *os.File // our ends of the pipes, until they are handed on
	outR, errR     *os.File
	master         *os.File
	stdout, stderr *stream.Capture // with a terminal, stdout alone
	exceeded       chan struct{}
	begun          *wire.Begun
	failure        *jailer.Error // what went wrong after it had run
}

func (r *remote) close() { wire.CloseAll([]*os.File{r.stdin, r.outR, r.errR, r.master}) }

// order sends the command and the job's ends of its pipes.
func (r *remote) order() error {
	cmd := &wire.Command{Request: r.o.Request, Flags: flagsOf(r.o.Overrides)}
	var theirs []*os.File
	defer func() { wire.CloseAll(theirs) }() // else we would never see the end of the output
	if t := r.o.TTY; t != nil {
		cmd.TTY = &wire.Window{Cols: t.Size.Cols, Rows: t.Size.Rows, Type: t.Type}
	} else {
		if cmd.Stdin = r.o.Stdin != nil; cmd.Stdin {
			rd, wr, err := pipe()
			if err != nil {
				return err
			}
			r.stdin, theirs = wr, append(theirs, rd)
		}
		for _, mine := range []**os.File{&r.outR, &r.errR} {
			rd, wr, err := pipe()
			if err != nil {
				return err
			}
			*mine, theirs = rd, append(theirs, wr)
		}
	}
	return r.c.send(r.conn, &wire.Message{Type: wire.Exec, Command: cmd}, theirs...)
}

// pipe is one whose ends are in blocking mode, as a job expects of its streams.
func pipe() (r, w *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, &jailer.Error{Code: jailer.CodeInternal, Op: "exec", Reason: "host.resources", Err: os.NewSyscallError("pipe2", err)}
	}
	return os.NewFile(uintptr(p[0]), "output"), os.NewFile(uintptr(p[1]), "input"), nil
}

// heard is a message of the supervisor's.
type heard struct {
	m     *wire.Message
	files []*os.File
	err   error
}

// listen passes on what the supervisor says until ctx ends.
func (r *remote) listen(ctx context.Context) <-chan heard {
	ch := make(chan heard)
	go func() {
		for first := true; ; first = false {
			var h heard
			h.m, h.files, h.err = r.c.receive(r.conn, first)
			select {
			case ch <- h:
			case <-ctx.Done():
				wire.CloseAll(h.files)
				return
			}
			if h.err != nil {
				return
			}
		}
	}()
	return ch
}

// follow lives through the command.
func (r *remote) follow(ctx context.Context) (*launch.Outcome, error) {
	var resizes <-chan terminal.Size
	if r.o.TTY != nil {
		resizes = r.o.TTY.Resize
	}
	messages, done := r.listen(ctx), ctx.Done()
	ends, late := 0, (<-chan time.Time)(nil)
	for {
		select {
		case h := <-messages:
			if h.err != nil {
				return nil, h.err
			}
			out, err := r.take(ctx, h)
			if out != nil || err != nil {
				return out, err
			}
		case sig := <-r.o.Signals:
			s, _ := sig.(syscall.Signal)
			if s == unix.SIGINT || s == unix.SIGTERM {
				if ends++; ends == 2 { // it is to end now; so are we, if nobody hears that
					late = time.After(answerWait)
				}
			}
			go r.tell(&wire.Message{Type: wire.Signal, Signal: int(s)}) // may have to wait for a supervisor that is stopped
		case <-late:
			return nil, noAnswer()
		case <-r.exceeded:
			r.tell(&wire.Message{Type: wire.Exceeded})
		case size := <-resizes:
			r.resize(size)
		case <-done:
			return nil, &jailer.Error{Code: jailer.CodeInternal, Op: "exec", Message: "canceled", Err: context.Cause(ctx)}
		}
	}
}

// tell sends what may come too late: the supervisor's last word is on its way then.
func (r *remote) tell(m *wire.Message) { _ = r.conn.Send(m) }

func (r *remote) take(ctx context.Context, h heard) (*launch.Outcome, error) {
	if h.m.Type != wire.Terminal || len(h.files) != 1 {
		wire.CloseAll(h.files)
	}
	switch h.m.Type {
	case wire.Asking:
	case wire.Started:
		if h.m.Begun == nil {
			return nil, unexpected(h.m)
		}
		r.started(ctx, h.m.Begun)
	case wire.Terminal:
		if len(h.files) != 1 || r.begun == nil || r.master != nil {
			return nil, unexpected(h.m)
		}
		return nil, r.openTerminal(ctx, h.files[0])
	case wire.Ended:
		r.tell(&wire.Message{Type: wire.Totals, Output: r.drain(ctx)})
	case wire.Result:
		return r.outcome(h.m)
	default:
		return nil, unexpected(h.m)
	}
	return nil, nil
}

// started begins to read the output, under the cap of the command's plan.
func (r *remote) started(ctx context.Context, b *wire.Begun) {
	if r.begun != nil {
		return
	}
	r.begun = b
	if r.o.OnStart != nil {
		r.o.OnStart(launch.Started{
			SessionID: b.SessionID, ExecID: b.ExecID, At: b.At, SetupMs: b.SetupMs, Stdin: r.o.Stdin != nil && !r.inline(),
		})
	}
	if r.o.TTY != nil {
		return
	}
	if r.stdin != nil {
		stream.Feed(ctx, r.o.Stdin, r.stdin)
		r.stdin = nil
	}
	r.stdout, r.outR = r.capture(r.outR, launch.Options{Stdout: r.o.Stdout}), nil
	r.stderr, r.errR = r.capture(r.errR, launch.Options{Stdout: r.o.Stderr}), nil
}

func (r *remote) capture(f *os.File, o launch.Options) *stream.Capture {
	so := stream.Options{
		Out: o.Stdout, Cap: r.begun.MaxOutput, Keep: stream.Keep(r.begun.OutputKeep),
		OnExceed: func() { r.exceeded <- struct{}{} }, // room for both streams
	}
	if r.begun.OnOutputLimit == jailer.OnLimitKill {
		so.OnLimit = stream.Kill
	}
	return stream.Start(f, so)
}

// drain waits for the last bytes, as launch does in a run: an interrupt gives up what
// our own reader doesn't take.
func (r *remote) drain(ctx context.Context) *wire.Output {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.o.Signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	if r.o.TTY != nil && r.o.TTY.Release != nil {
		t := time.AfterFunc(releaseWait, r.o.TTY.Release)
		defer t.Stop()
	}
	var errs []error
	t := &wire.Output{}
	if c := r.stdout; c != nil {
		errs = append(errs, c.Settle(ctx)) // another command may hold its end
		t.Stdout, t.StdoutTruncated = c.Total(), c.Truncated()
	}
	if c := r.stderr; c != nil {
		errs = append(errs, c.Settle(ctx)) // another command may hold its end
		t.Stderr, t.StderrTruncated = c.Total(), c.Truncated()
	}
	if err := errors.Join(errs...); err != nil {
		r.fail(&jailer.Error{Code: jailer.CodeInternal, Op: "stream", Message: "output was not delivered whole", Err: err})
	}
	return t
}

// releaseWait is how long the caller's terminal stays the job's after its end.
const releaseWait = time.Second

func (r *remote) fail(e *jailer.Error) {
	if r.failure == nil {
		r.failure = e
	}
}

// outcome is the supervisor's result with our output in it.
func (r *remote) outcome(m *wire.Message) (*launch.Outcome, error) {
	if r.begun == nil {
		return nil, unexpected(m)
	}
	res := new(jailer.Result)
	if err := json.Unmarshal(m.Document, res); err != nil {
		return nil, &jailer.Error{Code: jailer.CodeInternal, Op: "session.socket", Err: err}
	}
	if res.Error == nil {
		res.Error = r.failure
	}
	out := &launch.Outcome{Result: res}
	if m.Signal != 0 {
		out.Interrupt = syscall.Signal(m.Signal)
	}
	out.StdoutKept = into(&res.Stdout, &res.StdoutEncoding, r.stdout, r.o.Stdout == nil)
	out.StderrKept = into(&res.Stderr, &res.StderrEncoding, r.stderr, r.o.Stderr == nil)
	return out, nil
}

// into puts captured output into a result, and says how much of it was kept.
func into(text **string, encoding *string, c *stream.Capture, captured bool) int64 {
	if c == nil {
		return 0
	}
	if captured {
		s, enc := stream.Text(c.Bytes())
		*text, *encoding = &s, enc
	}
	return c.Delivered()
}
