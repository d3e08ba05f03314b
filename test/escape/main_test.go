// Package escape attacks jails from the inside, with the real program, as root
// and as an ordinary user. Each attack must fail for the stated reason, and where
// it can be shown, the same attack outside the jail has another outcome.
package escape

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// userID is an ordinary user without a name, a home or subordinate ids.
const userID = 54321

// policy lets that user run where no cgroup is delegated to it.
const policy = `version = 1
extends = "builtin"

[limits]
enforce = "best-effort"
`

// dir holds what both callers must be able to read; tests run one after another.
var dir string

func TestMain(m *testing.M) {
	// Not below t.TempDir: its parents are closed to other users.
	d, err := os.MkdirTemp("/tmp", "jailer-escape-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dir = d
	os.Chmod(dir, 0o755)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// program is the jailer under test.
func program(t testing.TB) string {
	t.Helper()
	p := os.Getenv("JAILER_BIN")
	if p == "" {
		p = "../../bin/jailer"
	}
	p, err := filepath.Abs(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	return p
}

var buildProbe = sync.OnceValues(func() (string, error) {
	p := dir + "/probe"
	out, err := exec.Command("cc", "-static", "-O1", "-Wall", "-o", p, "testdata/probe.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cc: %w\n%s", err, out)
	}
	return p, os.Chmod(p, 0o755)
})

// probe builds the attacking program and returns its path.
func probe(t testing.TB) string {
	t.Helper()
	need.Program(t, "cc")
	p, err := buildProbe()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// caller is who starts jailer.
type caller struct {
	name  string
	uid   uint32
	flags []string
	env   []string
}

// callers runs f as a subtest for root and for an ordinary user, whom root plays;
// started as a user, for that one.
func callers(t *testing.T, f func(t *testing.T, c caller)) {
	t.Helper()
	program(t)
	uid := os.Geteuid()
	if uid == 0 {
		t.Run("root", func(t *testing.T) { f(t, caller{name: "root"}) })
		uid = userID
	}
	t.Run("user", func(t *testing.T) {
		home := dir + "/user"
		if err := os.MkdirAll(home+"/run", 0o700); err != nil {
			t.Fatal(err)
		}
		c := caller{name: "user", uid: uint32(uid), env: []string{"HOME=" + home, "XDG_RUNTIME_DIR=" + home + "/run"}}
		file := home + "/policy.toml"
		if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		// A user of the test bed has a cgroup for the limits of the built-in policy.
		if os.Geteuid() == 0 || os.Getenv("JAILER_LIMITS") != "required" {
			c.flags = []string{"--policy", file}
		}
		for _, p := range []string{home, home + "/run", file} {
			if err := os.Chown(p, uid, -1); err != nil {
				t.Fatal(err)
			}
		}
		f(t, c)
	})
}

// result is what jailer run --json prints, as far as it is looked at here.
type result struct {
	Status         string
	ExitCode       *int
	Signal         *string
	InitLost       bool
	LimitsHit      []string
	LeftoverKilled int
	Stdout, Stderr string
	Isolation      struct{ AppArmor string }
	Error          *struct{ Code, Message, Hint string }

	code int    // jailer's own exit status
	raw  []byte // all of its stdout
}

func (r *result) String() string {
	code, signal := "none", "none"
	if r.ExitCode != nil {
		code = fmt.Sprint(*r.ExitCode)
	}
	if r.Signal != nil {
		signal = *r.Signal
	}
	return fmt.Sprintf("status %s, exit code %s, signal %s, initLost %v, limitsHit %v, error %+v\nstdout:\n%s\nstderr:\n%s",
		r.Status, code, signal, r.InitLost, r.LimitsHit, r.Error, r.Stdout, r.Stderr)
}

// exited says that the command ended by itself with the given code.
func (r *result) exited(code int) bool {
	return r.Status == "exited" && r.ExitCode != nil && *r.ExitCode == code
}

// job is one run.
type job struct {
	flags []string
	stdin io.Reader // with it, --stdin - is given
	argv  []string
	setup func(*exec.Cmd)
}

// command makes jailer's command line as the caller would.
func (c caller) command(ctx context.Context, t testing.TB, flags, argv []string) *exec.Cmd {
	t.Helper()
	args := slices.Concat([]string{"run"}, c.flags, flags, []string{"--"}, argv)
	cmd := exec.CommandContext(ctx, program(t), jail.Patient(args)...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, c.env...)
	c.become(cmd)
	return cmd
}

func (c caller) become(cmd *exec.Cmd) {
	if c.uid != 0 && os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}}
	}
}

// run runs one job with --json and returns its result. A run without one, or one
// that hangs, ends the test.
func (c caller) run(t testing.TB, j job) *result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), need.Time(5*time.Minute))
	defer cancel()
	flags := append([]string{"--json"}, j.flags...)
	if j.stdin != nil {
		flags = append(flags, "--stdin", "-")
	}
	cmd := c.command(ctx, t, flags, j.argv)
	cmd.Stdin = j.stdin
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if j.setup != nil {
		j.setup(cmd)
	}
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("jailer hangs: %v\n%s", ctx.Err(), &stderr)
	}
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	r := &result{code: cmd.ProcessState.ExitCode(), raw: stdout.Bytes()}
	if err := json.Unmarshal(r.raw, r); err != nil || r.Status == "" {
		t.Fatalf("jailer exited %d without a result (%v)\nstdout: %s\nstderr: %s", r.code, err, &stdout, &stderr)
	}
	return r
}

// sh runs a shell script in a jail with default limits.
func (c caller) sh(t testing.TB, script string) *result {
	t.Helper()
	return c.run(t, job{argv: []string{"/bin/sh", "-c", script}})
}

// probe runs the probe in a jail, as its main process. It gets there by stdin.
func (c caller) probe(t testing.TB, flags []string, args ...string) *result {
	t.Helper()
	f, err := os.Open(probe(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	script := `cat >/tmp/probe && chmod 755 /tmp/probe && exec /tmp/probe "$@" </dev/null`
	return c.run(t, job{flags: flags, stdin: f, argv: append([]string{"/bin/sh", "-c", script, "sh"}, args...)})
}

// control runs the probe on the host, as the ordinary user.
func control(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), probe(t), args...)
	cmd.Dir = "/"
	caller{uid: userID}.become(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("probe %q outside: %v\n%s", args, err, out)
	}
	return string(out)
}

// The answers of the whole probe, by caller; and outside, by "".
var whole = map[string]map[string]answer{}

// answer is what the probe says of one attack.
type answer struct{ result, errno, verdict string }

// attacks runs the whole probe in a jail of c, once for all tests.
func (c caller) attacks(t testing.TB) (inside, outside map[string]answer) {
	t.Helper()
	if whole[c.name] == nil {
		r := c.probe(t, []string{"--timeout", jail.Timeout(120 * time.Second)})
		if whole[""] == nil {
			whole[""] = answers(control(t, "--control"))
		}
		whole[c.name] = answers(r.Stdout)
		if n := len(whole[c.name]); n < 400 || n != len(whole[""]) {
			t.Fatalf("%d attacks inside, %d outside: the probe did not run to its end: %.300s", n, len(whole[""]), r)
		}
		if n := whole[c.name]["reachable"]; r.exited(0) != (n.result == "0") {
			t.Fatalf("the probe says reachable %s and ends with %.300s", n.result, r)
		}
	}
	return whole[c.name], whole[""]
}

// answers takes the probe's lines apart.
func answers(out string) map[string]answer {
	m := map[string]answer{}
	for line := range strings.Lines(out) {
		switch f := strings.Fields(line); len(f) {
		case 4:
			m[f[0]] = answer{f[1], f[2], f[3]}
		case 2: // a sum at the end
			m[f[0]] = answer{result: f[1]}
		}
	}
	return m
}

// mark returns an argument by which the host finds a job's processes.
func mark() string { return "jailer-escape-mark-" + rand.Text() }

// marked returns the host's pids whose command line holds mark, jailer's own not
// among them.
func marked(t testing.TB, mark string) (pids []string) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		b, _ := os.ReadFile(p)
		if bytes.Contains(b, []byte(mark)) && !bytes.Contains(b, []byte("jailer\x00run")) {
			pids = append(pids, filepath.Base(filepath.Dir(p)))
		}
	}
	return pids
}

// gone checks that no process with mark is left on the host.
func gone(t testing.TB, mark string) {
	t.Helper()
	if pids := marked(t, mark); len(pids) > 0 {
		for _, p := range pids {
			b, _ := os.ReadFile("/proc/" + p + "/status")
			t.Logf("pid %s:\n%.300s", p, b)
		}
		t.Errorf("%d processes outlived the jail: %v", len(pids), pids)
	}
}
