// Package jail runs the real jailer program for tests: as root and as an
// ordinary user, with a deadline, and with the result document read back.
package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/need"
)

// Deadline bounds one run of jailer; only a hang reaches it.
var Deadline = need.Time(3 * time.Minute)

// BestEffort lets a user run where no cgroup is delegated to it.
const BestEffort = `version = 1
extends = "builtin"

[limits]
enforce = "best-effort"
`

// dir holds what the callers of one test process may read.
var dir string

// Main is TestMain for a package that runs jailer. It gives the package a
// directory, removed at the end, and a copy of the program in it: the one in the
// tree may lie where the user can't search, and may be built anew meanwhile.
func Main(m *testing.M) {
	code, err := setUp(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func setUp(m *testing.M) (int, error) {
	syscall.Umask(0o022)
	// Whoever starts tests with nohup or in the background has these ignored, and
	// jailer would rightly go on ignoring them. What is caught here is default in
	// children.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	var err error
	// Not below t.TempDir: its parents are closed to other users.
	if dir, err = os.MkdirTemp("/tmp", "jailer-test-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return 1, err
	}
	if err := copyFile(Program(), Built()); err != nil {
		return 1, fmt.Errorf("%w: run `make build`", err)
	}
	return m.Run(), nil
}

// Built is the program that `make build` made, or the one that JAILER_BIN names.
func Built() string {
	if p := os.Getenv("JAILER_BIN"); p != "" {
		if abs, err := filepath.Abs(p); err == nil {
			return abs
		}
		return p
	}
	return filepath.Join(Module(), "bin", "jailer")
}

// Program is the copy under test.
func Program() string { return filepath.Join(dir, "jailer") }

// Module is the root of the source tree: of the one in which the test runs,
// wherever it was compiled.
func Module() string {
	if module == "" {
		panic("no go.mod above the directory that the test was started in")
	}
	return module
}

var module = findModule()

func findModule() string {
	d, err := os.Getwd()
	if err != nil {
		return ""
	}
	for ; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return ""
		}
	}
}

func copyFile(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// Caller is who starts jailer.
type Caller struct {
	Name   string // "root" or "user"
	UID    int
	Policy string // of --policy; "" for none
	Home   string // a directory of its own
}

// UserID is an ordinary user without a name, a home or subordinate ids. It
// differs between test processes, so that what belongs to it on the host is
// this process's.
func UserID() int { return 54321 + os.Getpid()%4096 }

// Each runs f once for each caller that this process can be: started as root,
// root itself and an ordinary user, unless JAILER_CALLERS is "self"; else itself.
func Each(t *testing.T, f func(t *testing.T, c *Caller)) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Run("root", func(t *testing.T) { f(t, Root(t)) })
		if os.Getenv("JAILER_CALLERS") == "self" {
			return // the user is another way of the test bed
		}
	}
	t.Run("user", func(t *testing.T) { f(t, User(t)) })
}

// Root is the caller with real limits and the built-in policy.
func Root(t testing.TB) *Caller {
	c := &Caller{Name: "root", Home: TempDir(t, 0)}
	c.cleanUp(t)
	return c
}

// User is the unprivileged caller, with the best-effort policy; where the test
// bed delegates a cgroup to it and says so, with the built-in one.
func User(t testing.TB) *Caller {
	uid := os.Geteuid()
	if uid == 0 {
		uid = UserID()
	}
	c := &Caller{Name: "user", UID: uid, Home: TempDir(t, uid)}
	if !limitsRequired() {
		c.Policy = c.File(t, "policy.toml", BestEffort)
	}
	c.cleanUp(t)
	return c
}

// cleanUp leaves nothing of a test that failed or killed a launcher: with the
// state directory the records of its cgroups would go.
func (c *Caller) cleanUp(t testing.TB) {
	t.Cleanup(func() {
		if _, err := os.Stat(c.StateDir()); err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), Deadline)
		defer cancel()
		_ = c.Command(ctx, "gc").Run()
	})
}

// TempDir makes a directory for uid that the test removes: 0700, for root 0711,
// as its jails' own uids must pass through it to their roots.
func TempDir(t testing.TB, uid int) string {
	t.Helper()
	d, err := os.MkdirTemp(dir, "home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	if os.Geteuid() == 0 {
		if err := os.Chown(d, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if uid == 0 {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// File writes a file of the caller's, mode 0600, into its home.
func (c *Caller) File(t testing.TB, name, content string) string {
	t.Helper()
	p := filepath.Join(c.Home, name)
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(p, c.UID, c.UID); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// WithPolicy is c with another policy, a file of its own.
func (c *Caller) WithPolicy(t testing.TB, name, content string) *Caller {
	t.Helper()
	d := *c
	d.Policy = c.File(t, name, content)
	return &d
}

// DataDir is a data directory of the test's own, whose workspaces are removed at its end:
// root's have host ids that are noted elsewhere.
func (c *Caller) DataDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(c.Home, "data")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Deadline)
		defer cancel()
		out, err := c.Command(ctx, "workspace", "prune", "--older-than", "1ns", "--data-dir", dir).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	return dir
}

// StateDir is where the caller's jails leave their records.
func (c *Caller) StateDir() string { return filepath.Join(c.Home, "state") }

// Command makes a command line of jailer: the flags of the caller, then args,
// whose first is the verb.
func (c *Caller) Command(ctx context.Context, args ...string) *exec.Cmd {
	args = Patient(args)
	own := []string{"--state-dir", c.StateDir()}
	if c.Policy != "" && slices.Contains([]string{"run", "create", "spec", "events"}, args[0]) {
		own = append(own, "--policy", c.Policy)
	}
	return c.Exec(ctx, Program(), slices.Insert(args, 1, own...)...)
}

// Exec makes any command, to be run as the caller.
func (c *Caller) Exec(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + c.Home}
	if os.Geteuid() == 0 && c.UID != 0 {
		id := uint32(c.UID)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	return cmd
}

// Job is one run.
type Job struct {
	Flags []string // of `jailer run`
	Sh    string   // a shell script, or
	Argv  []string
	Stdin io.Reader
	Input string          // the same, as text
	Env   []string        // beside the caller's usual ones
	Setup func(*exec.Cmd) // called before the start
	Raw   bool            // without --json
}

func (j Job) args() []string {
	args := slices.Clone(j.Flags)
	if !j.Raw {
		args = append(args, "--json")
	}
	switch {
	case j.Sh != "":
		args = append(args, "--", "sh", "-c", j.Sh)
	case j.Argv != nil:
		args = append(append(args, "--"), j.Argv...)
	}
	return args
}

// Outcome is what came back.
type Outcome struct {
	Code           int
	Stdout, Stderr string // of jailer itself
	Took           time.Duration
	Result         *jailer.Result // nil when the command never ran, or
	Err            *jailer.Error  // why; both nil without --json
}

// Run does one run, always with a deadline. Without Raw the document on stdout
// is read; a missing one, or anything beside it, ends the test.
func (c *Caller) Run(t testing.TB, j Job) *Outcome {
	t.Helper()
	return c.Do(t, j, append([]string{"run"}, j.args()...)...)
}

// Do runs jailer with args instead of those of j.
func (c *Caller) Do(t testing.TB, j Job, args ...string) *Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Deadline)
	defer cancel()
	return Finish(t, j, c.Command(ctx, args...))
}

// Finish runs a command line that ends in jailer, as Run does.
func Finish(t testing.TB, j Job, cmd *exec.Cmd) *Outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = j.Stdin, &stdout, &stderr
	if j.Input != "" {
		cmd.Stdin = strings.NewReader(j.Input)
	}
	cmd.Env = append(cmd.Env, j.Env...)
	cmd.WaitDelay = need.Time(20 * time.Second) // a descriptor held by a survivor must not hang the test
	if j.Setup != nil {
		j.Setup(cmd)
	}
	began := time.Now()
	err := cmd.Run()
	o := &Outcome{Took: time.Since(began), Stdout: stdout.String(), Stderr: stderr.String()}
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	o.Code = cmd.ProcessState.ExitCode()
	if o.Code < 0 || errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("jailer hung or was killed: %v after %v\n%s", err, o.Took, o)
	}
	if !j.Raw {
		o.Read(t)
		if limitsRequired() && !slices.Contains(cmd.Args, "--policy") {
			o.held(t)
		}
	}
	return o
}

// Read takes the document on standard output.
func (o *Outcome) Read(t testing.TB) {
	t.Helper()
	res, err := jailer.ParseResult([]byte(o.Stdout))
	e, ours := errors.AsType[*jailer.Error](err)
	switch {
	case err == nil:
		o.Result = res
	case ours && e.Op != "result" && strings.Count(o.Stdout, "\n") == 1:
		o.Err = e
	default:
		t.Fatalf("no result document: %v\n%s", err, o)
	}
}

// String shows everything, for messages.
func (o *Outcome) String() string {
	return fmt.Sprintf("exit status %d after %v\n--- stdout of jailer\n%s\n--- stderr of jailer\n%s",
		o.Code, o.Took.Round(time.Millisecond), clip(o.Stdout), clip(o.Stderr))
}

func clip(s string) string {
	const most = 4000
	if len(s) > most {
		return s[:most/2] + "\n…\n" + s[len(s)-most/2:]
	}
	return s
}

// Out is the job's standard output.
func (o *Outcome) Out() string {
	if o.Result == nil {
		return ""
	}
	b, err := o.Result.StdoutData()
	if err != nil {
		return "unreadable: " + err.Error()
	}
	return string(b)
}

// ErrOut is the job's standard error.
func (o *Outcome) ErrOut() string {
	if o.Result == nil {
		return ""
	}
	b, err := o.Result.StderrData()
	if err != nil {
		return "unreadable: " + err.Error()
	}
	return string(b)
}
