package jailer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

// A Cmd is a command in a session in the shape of os/exec's Cmd. It can't be used
// twice.
type Cmd struct {
	Args   []string
	Env    []string // NAME=value, beside the session's; of one name the last counts
	Dir    string   // "" is the session's
	Stdin  io.Reader
	Stdout io.Writer // nil discards
	Stderr io.Writer

	// Limits narrow the session's.
	Limits RequestLimits

	// Result is there after Wait, if the command ran.
	Result *Result

	s   *Session
	ctx context.Context
	x   *execution

	waited bool
}

// Command makes a Cmd. name is looked for in the jail's PATH if it has no slash. The
// end of ctx aborts it.
func (s *Session) Command(ctx context.Context, name string, args ...string) *Cmd {
	return &Cmd{Args: append([]string{name}, args...), s: s, ctx: ctx}
}

// An ExitError is a command that ran, and did not end with status exited and code 0.
type ExitError struct{ *Result }

// Error says how it ended.
func (e *ExitError) Error() string {
	switch {
	case e.Status == StatusExited && e.ExitCode != nil:
		return fmt.Sprintf("exit status %d", *e.ExitCode)
	case e.Limit != nil:
		return fmt.Sprintf("%s (%s)", e.Status, *e.Limit)
	case e.Signal != nil:
		return fmt.Sprintf("%s by %s", e.Status, *e.Signal)
	}
	return string(e.Status)
}

func (c *Cmd) request() (Request, error) {
	r := Request{Argv: c.Args, Cwd: c.Dir, Limits: c.Limits}
	for _, kv := range c.Env {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return r, invalid("env", "not NAME=value: "+quote(k))
		}
		if r.Env == nil {
			r.Env = map[string]string{}
		}
		r.Env[k] = v
	}
	return r, nil
}

// Start begins the command, and returns when it has been exec'ed. Wait must follow: it
// alone frees what the command has of this process.
func (c *Cmd) Start() error {
	if c.x != nil {
		return errors.New("jailer: already started")
	}
	r, err := c.request()
	if err != nil {
		return err
	}
	streams := IO{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr}
	if streams.Stdout == nil && streams.Stderr == nil {
		streams.Stdout = io.Discard
	}
	c.x, err = c.s.begin(c.ctx, r, streams)
	return err
}

// Wait waits for the end. The error is an *ExitError unless the command exited with 0,
// the context's cause if that ended it, or why there is no Result.
func (c *Cmd) Wait() error {
	switch {
	case c.x == nil:
		return errors.New("jailer: not started")
	case c.waited:
		return errors.New("jailer: Wait was already called")
	}
	c.waited = true
	res, err := c.x.end()
	c.Result = res
	if err != nil {
		return err
	}
	if res.Status != StatusExited || res.ExitCode == nil || *res.ExitCode != 0 {
		return &ExitError{res}
	}
	return nil
}

// Run is Start and Wait.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and gives its standard output.
func (c *Cmd) Output() ([]byte, error) {
	var out bytes.Buffer
	if c.Stdout != nil {
		return nil, errors.New("jailer: Stdout already set")
	}
	c.Stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

// CombinedOutput runs the command and gives both its streams, as they came.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("jailer: Stdout or Stderr already set")
	}
	out := new(shared)
	c.Stdout, c.Stderr = out, out
	err := c.Run()
	return out.b.Bytes(), err
}

// shared takes two streams at once.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// Signal sends a signal to the command's main process. The second INT or TERM ends it
// with all its processes.
func (c *Cmd) Signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if c.x == nil || !ok {
		return errors.New("jailer: not started, or no signal of this system")
	}
	return c.x.signal(s)
}
