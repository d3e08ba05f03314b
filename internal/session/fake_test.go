package session

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/access"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/boottime"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/limits"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/test/need"
)

// A fakeJail runs a Go function as each command, which it finds by argv[0].
type fakeJail struct {
	id, dir  string
	plan     policy.Plan
	done     chan struct{} // PID 1 is dead
	closing  chan struct{}
	commands map[string]func(*fakeCommand) // that are there
	leftover error                         // of Close
	files    string                        // the workspace
	noteErr  error
	allow    func(access.Operation, func(time.Duration)) error
	full     chan struct{}

	mu     sync.Mutex
	n      atomic.Int32
	notes  []audit.Event
	work   sync.WaitGroup
	reason audit.Reason
}

// A fakeCommand is what a function is given.
type fakeCommand struct {
	launch.Command
	ctx     context.Context
	jail    *fakeJail
	result  jailer.Result
	stop    <-chan struct{} // closed when it is to be killed
	outcome launch.Outcome
}

// set adds a command.
func (f *fakeJail) set(name string, run func(*fakeCommand)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commands[name] = run
}

func (f *fakeJail) ID() string            { return f.id }
func (f *fakeJail) PID() int              { return 4242 }
func (f *fakeJail) Plan() *policy.Plan    { return &f.plan }
func (f *fakeJail) Dir() string           { return f.dir }
func (f *fakeJail) Done() <-chan struct{} { return f.done }

func (f *fakeJail) Full() <-chan struct{} { return f.full }

func (f *fakeJail) FullReason() audit.Reason { return audit.LimitHit }

func (f *fakeJail) Files() (launch.Files, error) {
	d, err := os.Open(f.files)
	return launch.Files{Dir: d}, err
}

func (f *fakeJail) Allowed(_ context.Context, op access.Operation, asking func(time.Duration)) error {
	f.mu.Lock()
	allow := f.allow
	f.mu.Unlock()
	if allow == nil {
		return nil
	}
	return allow(op, asking)
}

func (f *fakeJail) Note(e audit.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, e)
	return f.noteErr
}

func (f *fakeJail) Denied(e *jailer.Error) {
	_ = f.Note(audit.Event{Type: audit.PolicyDenied, Data: audit.Denied{Failure: *audit.FailureOf(e), Field: e.Path}})
}

// Close ends the commands, as launch does: it waits for them.
func (f *fakeJail) Close(why audit.Reason) error {
	f.mu.Lock()
	f.reason = why
	close(f.closing)
	f.mu.Unlock()
	f.work.Wait()
	return f.leftover
}

func (f *fakeJail) ended() audit.Reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reason
}

func (f *fakeJail) Exec(ctx context.Context, c launch.Command) (*launch.Outcome, error) {
	f.mu.Lock()
	select {
	case <-f.closing:
		f.mu.Unlock()
		return nil, errEnding
	default:
	}
	f.work.Add(1)
	f.mu.Unlock()
	defer f.work.Done()
	name := ""
	if len(c.Overrides.Argv) > 0 {
		name = c.Overrides.Argv[0]
	}
	f.mu.Lock()
	run := f.commands[name]
	f.mu.Unlock()
	if run == nil {
		return nil, &jailer.Error{Code: jailer.CodeCommandNotFound, Message: name + " is not there"}
	}
	f.n.Add(1)
	stop := make(chan struct{})
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-ctx.Done():
		case <-f.closing:
		case <-over:
			return
		}
		close(stop)
	}()
	fc := &fakeCommand{Command: c, ctx: ctx, jail: f, stop: stop}
	fc.result = jailer.Result{SessionID: f.id, ExecID: "1", Status: jailer.StatusExited, ExitCode: new(int), LimitsHit: []string{}}
	if c.OnStart != nil {
		c.OnStart(launch.Started{SessionID: f.id, ExecID: "1", At: time.Now(), Plan: &f.plan})
	}
	run(fc)
	if s := c.Streams; s != nil {
		for _, file := range []*os.File{s.Stdin, s.Stdout, s.Stderr} {
			if file != nil {
				file.Close()
			}
		}
		if t, err := s.Totals(ctx); err != nil {
			fc.result.Error = &jailer.Error{Code: jailer.CodeInternal, Op: "stream", Err: err}
		} else {
			fc.result.StdoutBytes, fc.result.StderrBytes = t.Stdout, t.Stderr
		}
	}
	fc.outcome.Result = &fc.result
	return &fc.outcome, nil
}

// untilStopped is a command that goes on for ever.
func untilStopped(c *fakeCommand) {
	<-c.stop
	c.result.Status, c.result.ExitCode = jailer.StatusAborted, nil
}

// say is a command that writes.
func say(text string) func(*fakeCommand) {
	return func(c *fakeCommand) {
		var out io.Writer = c.Stdout
		if c.Streams != nil {
			out = c.Streams.Stdout
		}
		_, _ = io.WriteString(out, text)
	}
}

// forTime is a command that takes so long.
func forTime(d time.Duration) func(*fakeCommand) {
	return func(c *fakeCommand) {
		select {
		case <-c.stop:
		case <-time.After(d):
		}
	}
}

// A bed is a supervisor with a fake jail, and a client of it.
type bed struct {
	jail   *fakeJail
	server *Server
	client *Client
	entry  *state.Session
	ran    chan error // of Run
}

// long is a time that only a hang takes.
var long = need.Time(20 * time.Second)

// supervise makes one. The state is that of a true session, lock and record.
func supervise(t *testing.T, change func(*fakeJail, *Options)) *bed {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	dir, err := state.Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	entry, err := dir.Create(state.Record{ID: "one", CreatedAt: time.Now(), Session: &state.SessionInfo{Profile: "default", PID1: 4242}})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{entry: entry, client: &Client{Dir: dir, Program: "client-1"}, ran: make(chan error, 1)}
	b.jail = &fakeJail{
		id: "one", dir: entry.Priv, done: make(chan struct{}), closing: make(chan struct{}),
		plan: policy.Plan{
			Profile: "default", Capabilities: jailer.Capabilities(), Labels: map[string]string{"job": "7"}, OutputKeep: jailer.KeepHead, OnOutputLimit: jailer.OnLimitTruncate,
			Limits: limits.Limits{TTL: time.Hour, Idle: time.Hour, MaxOutput: 1 << 20},
		},
		commands: map[string]func(*fakeCommand){"forever": untilStopped, "true": func(*fakeCommand) {}, "hello": say("hello\n")},
	}
	o := Options{Program: "server-1", Began: boottime.Now()}
	if change != nil {
		change(b.jail, &o)
	}
	if b.server, err = New(b.jail, o); err != nil {
		t.Fatal(err)
	}
	go func() {
		err := b.server.Run()
		entry.Remove()
		b.ran <- err
		close(b.ran)
	}()
	t.Cleanup(func() {
		select {
		case b.server.requested <- struct{}{}:
		default:
		}
		b.over(t)
	})
	return b
}

// over waits for the supervisor's end.
func (b *bed) over(t *testing.T) error {
	t.Helper()
	select {
	case err := <-b.ran:
		return err
	case <-time.After(long):
		t.Fatal("the supervisor does not end")
		return nil
	}
}

// ended wants the end for this reason, in this time.
func (b *bed) ended(t *testing.T, why audit.Reason, from, to time.Duration) {
	t.Helper()
	began := time.Now()
	if err := b.over(t); err != nil && b.jail.leftover == nil {
		t.Errorf("ended with %v", err)
	}
	if got := b.jail.ended(); got != why {
		t.Errorf("ended for %q, want %q", got, why)
	}
	if took := time.Since(began); took < from || took > to {
		t.Errorf("ended after %v, want %v to %v", took, from, to)
	}
}

// run execs a command of the fake's.
func (b *bed) run(ctx context.Context, argv ...string) (*launch.Outcome, error) {
	return b.client.Exec(ctx, "one", launch.Options{Overrides: policy.Overrides{Argv: argv}})
}

// begin execs one in the background, and waits until it runs.
func (b *bed) begin(t *testing.T, o launch.Options) <-chan answer {
	t.Helper()
	started := make(chan struct{})
	o.OnStart = func(launch.Started) { close(started) }
	ch := make(chan answer, 1)
	go func() {
		out, err := b.client.Exec(context.Background(), "one", o)
		ch <- answer{out, err}
	}()
	select {
	case <-started:
	case a := <-ch:
		t.Fatalf("never ran: %+v, %v", a.out, a.err)
	case <-time.After(long):
		t.Fatal("does not start")
	}
	return ch
}

type answer struct {
	out *launch.Outcome
	err error
}

func wait(t *testing.T, ch <-chan answer) answer {
	t.Helper()
	select {
	case a := <-ch:
		return a
	case <-time.After(long):
		t.Fatal("no answer")
		return answer{}
	}
}

// refused wants an error of a code.
func refused(t *testing.T, err error, code jailer.Code) *jailer.Error {
	t.Helper()
	e, ok := errors.AsType[*jailer.Error](err)
	if !ok || e.Code != code {
		t.Fatalf("%v, want %s", err, code)
	}
	return e
}
