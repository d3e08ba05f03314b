package session

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/ring"
	"github.com/jailer-project/jailer/internal/wire"
)

const (
	// MaxProcesses bounds a session's managed processes. Finished ones count, with
	// their logs, until they are pruned.
	MaxProcesses = 4
	// LogSize is what is kept of each stream of one, in bytes: the end.
	LogSize = 1 << 20
	// StopGrace is the time between TERM and the end of the whole tree.
	StopGrace = 5 * time.Second
	// maxGrace keeps a client from holding a place for ever.
	maxGrace = 10 * time.Minute
)

// Process is a managed process, as `jailer ps` shows it.
type Process = jailer.Process

// process is one, seen by the supervisor. Its state is guarded by the server's mu.
type process struct {
	state          Process
	stdout, stderr *ring.Log
	signals        chan os.Signal
	kill           context.CancelFunc // its whole tree
	ended          chan struct{}
}

var (
	processName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}$`)
	processID   = regexp.MustCompile(`^p[0-9]+$`)
)

// start begins a managed process and answers once it runs, or why it does not. It
// goes on when the client is gone.
func (s *Server) start(c *client, m *wire.Message) error {
	cmd, err := command(m.Command)
	if err != nil {
		return err
	}
	if m.Command.TTY != nil || m.Command.Stdin {
		return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "start", Message: "a managed process has no terminal and no standard input"}
	}
	if _, ok := s.life.enter(false); !ok {
		return errEnding
	}
	ctx, cancel := context.WithCancel(context.Background())
	p, err := s.place(m.Name, cancel)
	if err != nil {
		cancel()
		return err
	}
	started := make(chan struct{})
	cmd.Asking = c.asking
	cmd.Service, cmd.Stdout, cmd.Stderr, cmd.Signals = true, p.stdout, p.stderr, p.signals
	cmd.OnStart = func(st launch.Started) {
		s.mu.Lock()
		p.state.Status, p.state.StartedAt, p.state.ExecID = jailer.ProcessRunning, stamp(st.At), st.ExecID
		s.mu.Unlock()
		close(started)
	}
	failed := make(chan error, 1)
	go func() {
		defer cancel()
		out, err := s.jail.Exec(ctx, cmd)
		s.finish(p, out, err)
		failed <- err
	}()
	select {
	case <-started:
		return c.done(s.look(p))
	case err := <-failed:
		if err == nil { // it ended before we looked
			return c.done(s.look(p))
		}
		return err
	}
}

// place takes one of the session's places for a process, which kill ends: others can
// stop it from here on.
func (s *Server) place(name string, kill context.CancelFunc) (*process, error) {
	if name != "" && (!processName.MatchString(name) || processID.MatchString(name)) {
		return nil, &jailer.Error{
			Code: jailer.CodeInvalidRequest, Op: "start", Path: "name",
			Message: fmt.Sprintf("%.80q is no name (%s, and not as an id: p1)", name, processName),
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if name != "" && slices.ContainsFunc(s.procs, func(p *process) bool { return p.state.Name == name }) {
		return nil, &jailer.Error{
			Code: jailer.CodeInvalidState, Op: "start", Message: fmt.Sprintf("there is a process %q", name),
			Hint: "choose another --name, or forget a finished one: jailer ps --prune " + s.jail.ID(),
		}
	}
	if len(s.procs) >= MaxProcesses {
		return nil, &jailer.Error{
			Code: jailer.CodeProcessLimit, Op: "start", Retryable: true,
			Message: fmt.Sprintf("the session has %d managed processes, as many as it may; finished ones count", len(s.procs)),
			Hint:    fmt.Sprintf("forget finished ones: jailer ps --prune %s; or end one: jailer stop %s PROC", s.jail.ID(), s.jail.ID()),
		}
	}
	s.last++
	p := &process{
		state:  Process{ID: fmt.Sprintf("p%d", s.last), Name: name, Status: jailer.ProcessStarting},
		stdout: ring.New(LogSize), stderr: ring.New(LogSize),
		signals: make(chan os.Signal, 4), kill: kill, ended: make(chan struct{}),
	}
	s.procs = append(s.procs, p)
	return p, nil
}

// finish keeps how a process ended; one that never ran is forgotten.
func (s *Server) finish(p *process, out *launch.Outcome, err error) {
	p.stdout.Close()
	p.stderr.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(p.ended)
	p.state.Status, p.state.FinishedAt = jailer.ProcessExited, stamp(time.Now())
	if err != nil {
		s.procs = slices.DeleteFunc(s.procs, func(q *process) bool { return q == p })
		return
	}
	r := out.Result
	p.state.Result, p.state.ExitCode, p.state.Signal = r.Status, r.ExitCode, r.Signal
}

func (s *Server) look(p *process) Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.look()
}

func (p *process) look() Process {
	st := p.state
	st.StdoutBytes, st.StdoutLost = p.stdout.Count()
	st.StderrBytes, st.StderrLost = p.stderr.Count()
	return st
}

// list shows the processes, and forgets the finished ones if prune says so.
func (s *Server) list(prune bool) []Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Process{}
	for _, p := range s.procs {
		out = append(out, p.look())
	}
	if prune {
		s.procs = slices.DeleteFunc(s.procs, func(p *process) bool { return p.state.Status == jailer.ProcessExited })
	}
	return out
}

// process finds one by id or name.
func (s *Server) process(name string) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		if name != "" && (p.state.ID == name || p.state.Name == name) {
			return p, nil
		}
	}
	return nil, &jailer.Error{
		Code: jailer.CodeNotFound, Op: "process", Message: fmt.Sprintf("the session has no process %.80q", name),
		Hint: "list them: jailer ps " + s.jail.ID(),
	}
}

// stop asks a process to end, and ends its whole tree after the grace. The answer
// comes when nothing of it runs; what goes on without its client.
func (s *Server) stop(c *client, m *wire.Message) error {
	p, err := s.process(m.Process)
	if err != nil {
		return err
	}
	if m.Grace < 0 || m.Grace > maxGrace {
		return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "stop", Path: "grace", Message: fmt.Sprintf("%v given, at most %v are possible", m.Grace, maxGrace)}
	}
	if m.Grace == 0 {
		p.kill()
	} else {
		p.signal(unix.SIGTERM)
	}
	select {
	case <-p.ended:
	case <-time.After(m.Grace):
		p.kill()
		<-p.ended
	}
	return c.done(s.look(p))
}

// kill sends a signal to the main process; its end is that of the whole tree.
func (s *Server) kill(c *client, m *wire.Message) error {
	p, err := s.process(m.Process)
	if err != nil {
		return err
	}
	if m.Signal <= 0 || m.Signal > maxSignal {
		return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "kill", Path: "signal", Message: fmt.Sprintf("%d is no signal", m.Signal)}
	}
	st := s.look(p)
	if st.Status == jailer.ProcessExited {
		return &jailer.Error{Code: jailer.CodeInvalidState, Op: "kill", Message: fmt.Sprintf("process %s has ended", st.ID)}
	}
	p.signal(syscall.Signal(m.Signal))
	return c.done(s.look(p))
}

func (p *process) signal(sig syscall.Signal) {
	select {
	case p.signals <- sig:
	default: // as the kernel, which keeps one of a kind
	}
}
