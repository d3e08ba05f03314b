package jailer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Client runs commands through the jailer program. It may be used by many
// goroutines at once.
type Client struct {
	Path     string // of the program, absolute: nothing is ever searched for in PATH
	Policy   string // policy file, absolute; "" is the host's own
	StateDir string // absolute; "" is the program's default
	// Token is set for the sessions and workspaces that are made, and presented to
	// those that exist: 16 to 1024 bytes, nil for none.
	Token  []byte
	Logger *slog.Logger // nil discards

	// Authorizer is asked before each operation of this client's and of its sessions;
	// Approver after it, for what runs a command, or writes, takes out or brings in files.
	// Nil asks nobody. They come beside what the policy says, and can only refuse.
	Authorizer, Approver Asker
	AskTimeout           time.Duration // for each answer; 0 is a minute

	grace time.Duration // between the steps of a cancellation; 0 is stopGrace
}

// IO holds the command's streams.
type IO struct {
	// Stdin is copied to the command; nil is /dev/null, or the request's
	// inline stdin. Unless it is an *os.File, a goroutine reads it until it
	// ends: a Reader that blocks for ever after the command's end keeps that
	// goroutine, as the caller alone can end the Read.
	Stdin io.Reader

	// Stdout and Stderr take the raw bytes, up to the output limit. A nil one
	// is discarded. If both are nil, the output is captured in the Result.
	// The program's own warnings go to Stderr as well.
	Stdout, Stderr io.Writer
}

const (
	// stopGrace is what a cancelled run has for each step: its own clean end
	// after SIGTERM, then an immediate one after two SIGINT, then SIGKILL.
	stopGrace = 10 * time.Second

	// drainTime bounds the wait for the pipes once the program is gone: only a
	// descriptor that leaked to another process can still hold them open.
	drainTime = 10 * time.Second

	// maxResult bounds the result document: two streams of 64 MiB in which
	// each byte is escaped as six.
	maxResult = 1 << 30
)

// Run runs one command and returns when nothing of it is left.
//
// Without a result, the error is an *Error; the command has not run, unless
// the program itself was killed. With a result, the command ran: the error is
// then Result.Error, or the context's cause if the run was stopped for it.
func (c *Client) Run(ctx context.Context, r Request, s IO) (*Result, error) {
	doc, err := c.prepare(ctx, r, s)
	if err != nil {
		return nil, err
	}
	if err := c.may(ctx, making("run", r)); err != nil {
		return nil, err
	}
	args := []string{"run", "--request", "/dev/fd/3", "--result-fd", "4"}
	if c.Policy != "" {
		args = append(args, "--policy", c.Policy)
	}
	if c.StateDir != "" {
		args = append(args, "--state-dir", c.StateDir)
	}
	if s.Stdin != nil {
		args = append(args, "--stdin", "-")
	}
	if s.Stdout == nil && s.Stderr == nil {
		args = append(args, "--json")
	}

	token, err := c.tokenPipe()
	if err != nil {
		return nil, startError(c.Path, err)
	}
	if token != nil {
		defer token.Close()
		args = append(args, "--token-file", "/dev/fd/5")
	}
	p, err := newProcess(c.Path, args, s, token)
	if err != nil {
		return nil, err
	}
	log := c.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log.Debug("starting jailer", "path", c.Path, "args", args)
	out, stopped, waitErr := p.run(ctx, doc, c.stopGrace(), log)
	var cause error
	if stopped {
		cause = context.Cause(ctx)
	}
	return outcome(out, cause, waitErr, p.said.String())
}

func (c *Client) stopGrace() time.Duration {
	if c.grace > 0 {
		return c.grace
	}
	return stopGrace
}

// prepare checks what can be known of a command without the program, and encodes the
// request.
func (c *Client) prepare(ctx context.Context, r Request, s IO) ([]byte, error) {
	if err := c.check(ctx, r); err != nil {
		return nil, err
	}
	if len(r.Argv) == 0 {
		return nil, invalid("argv", "no command given")
	}
	if s.Stdin != nil && r.Stdin != nil {
		return nil, invalid("stdin", "given both in the request and as IO.Stdin")
	}
	return c.encode(r)
}

func (c *Client) check(ctx context.Context, r Request) error {
	for _, p := range []struct{ name, path string }{{"Path", c.Path}, {"Policy", c.Policy}, {"StateDir", c.StateDir}} {
		if p.path == "" && p.name != "Path" {
			continue
		}
		// A relative path would be looked up in a working directory that
		// somebody else may own.
		if !filepath.IsAbs(p.path) {
			return &Error{
				Code: CodeInvalidRequest, Op: "client", Path: "Client." + p.name,
				Message: fmt.Sprintf("%s is not an absolute path", quote(p.path)),
			}
		}
	}
	if c.Token != nil && (len(c.Token) < MinTokenBytes || len(c.Token) > MaxTokenBytes) {
		return invalid("Client.Token", fmt.Sprintf("%d bytes given, a token has %d to %d", len(c.Token), MinTokenBytes, MaxTokenBytes))
	}
	if err := r.Check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &Error{Code: CodeInternal, Op: "client", Message: "not started", Err: context.Cause(ctx)}
	}
	return nil
}

func (c *Client) encode(r Request) ([]byte, error) {
	r.V = ProtocolVersion
	doc, err := json.Marshal(r)
	if err != nil {
		return nil, &Error{Code: CodeInvalidRequest, Op: "client", Message: "the request can't be encoded", Err: err}
	}
	if len(doc) > MaxRequestBytes {
		return nil, invalid("", fmt.Sprintf("document has %d bytes, more than the %d allowed", len(doc), MaxRequestBytes))
	}
	return doc, nil
}

// outcome makes the answer from the result document, and when there is none,
// from what is known of the program's end. cause is why the run was stopped.
func outcome(out []byte, cause, waitErr error, said string) (*Result, error) {
	if len(out) == 0 {
		e := &Error{Code: CodeInternal, Op: "client", Message: "the program ended without a result", Err: waitErr}
		if cause != nil {
			e.Message, e.Err = "the run was cancelled, and the program ended without a result", cause
			e.Hint = "jailer gc removes what a killed run leaves"
		} else if said != "" {
			e.Hint = said
		}
		return nil, e
	}
	res, err := ParseResult(out)
	if err != nil {
		return nil, err
	}
	if cause != nil {
		// The status may be anything: a command that SIGTERM reached is
		// signaled, and one that catches it may exit 0.
		return res, cause
	}
	if res.Error != nil {
		return res, res.Error
	}
	return res, nil
}

// environment is all that the program gets: where its state lives and where
// the user's systemd listens. LD_PRELOAD, GODEBUG and the like of this process
// are not passed on.
func environment() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, k := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS"} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// tail keeps the end of what the program said, for a message.
type tail struct{ buf []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.buf = append(t.buf, p...)
	if len(t.buf) > most {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-most:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	return strings.ToValidUTF8(strings.TrimSpace(string(t.buf)), "\uFFFD")
}

func startError(path string, err error) error {
	e := &Error{Code: CodeInternal, Op: "client.start", Message: "can't start the jailer program", Err: err}
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		e.Hint = fmt.Sprintf("install jailer and set Client.Path to it (it is %s)", quote(path))
	}
	return e
}
