// Package session holds `jailer create`, `exec` and their like to what they promise,
// with the real program: jails that stay, what runs in them side by side, and how they
// end. Where an ordinary user has no cgroup of its own there are no sessions, and it is
// tested that they are refused.
package session

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

func TestMain(m *testing.M) { jail.Main(m) }

// prompt is how soon something must have happened that has nothing to wait for.
var prompt = min(need.Time(30*time.Second), 4*time.Minute)

// Times to live, into which the first commands of a session have to fit.
var ttl, idle = need.Pace(3 * time.Second), need.Pace(2 * time.Second)

// state is a session's document.
type state struct {
	OCIVersion  string
	ID          string
	Status      string
	PID         int
	Bundle      string
	Annotations map[string]string
	CreatedAt   time.Time
	ExpiresAt   time.Time
	IdleAfterMs int64
	Commands    *int
	Processes   []process
}

// process is a managed process's.
type process struct {
	ID, Name, Status, Result string
	StartedAt, FinishedAt    time.Time
	ExitCode                 *int
	Signal                   *string
	StdoutBytes, StdoutLost  int64
}

// each runs f for every caller that can have sessions. Who can't is refused one, with
// the reason.
func each(t *testing.T, f func(t *testing.T, c *jail.Caller)) {
	t.Helper()
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		if c.UID != 0 {
			have(t, c)
		}
		f(t, c)
	})
}

// have skips where the caller has no cgroup that a session could rest on.
func have(t *testing.T, c *jail.Caller) {
	t.Helper()
	o := c.Do(t, jail.Job{Raw: true}, "create", "--id", "probe")
	if o.Code != 0 && strings.Contains(o.Stderr, "a session needs cgroups") {
		c.NothingLeft(t, "probe")
		need.Feature(t, "delegated", false, "this user has no delegated cgroup, and a session was refused for it")
	}
	ok(t, o)
	ok(t, c.Do(t, jail.Job{Raw: true}, "delete", "probe"))
}

// ok wants exit status 0.
func ok(t testing.TB, o *jail.Outcome) *jail.Outcome {
	t.Helper()
	if o.Code != 0 {
		t.Fatal(o)
	}
	return o
}

// do runs a verb that prints no result document.
func do(t testing.TB, c *jail.Caller, args ...string) *jail.Outcome {
	t.Helper()
	return c.Do(t, jail.Job{Raw: true}, args...)
}

// fails wants an exit status, and words on standard error.
func fails(t testing.TB, o *jail.Outcome, code int, words ...string) {
	t.Helper()
	if o.Code != code || !strings.Contains(o.Stderr, "jailer: error: ") {
		t.Fatalf("want exit status %d:\n%s", code, o)
	}
	// The commands of hints look into the caller's state directory, as this one did.
	said := regexp.MustCompile(`jailer --state-dir \S+ `).ReplaceAllString(o.Stderr, "jailer ")
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("standard error is without %q:\n%s", w, o)
		}
	}
}

// create makes a session that the test ends.
func create(t testing.TB, c *jail.Caller, id string, flags ...string) state {
	t.Helper()
	var s state
	document(t, ok(t, do(t, c, append([]string{"create", "--id", id}, flags...)...)), &s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), jail.Deadline)
		defer cancel()
		_ = c.Command(ctx, "delete", id).Run()
	})
	if s.ID != id || s.Status != "created" || s.PID == 0 {
		t.Fatalf("%+v", s)
	}
	return s
}

// document reads what a verb printed: one document in one line.
func document(t testing.TB, o *jail.Outcome, into any) {
	t.Helper()
	if strings.Count(o.Stdout, "\n") != 1 {
		t.Fatalf("no line:\n%s", o)
	}
	if err := json.Unmarshal([]byte(o.Stdout), into); err != nil {
		t.Fatalf("%v:\n%s", err, o)
	}
}

func look(t testing.TB, c *jail.Caller, id string) (s state) {
	t.Helper()
	document(t, ok(t, do(t, c, "state", id)), &s)
	return s
}

// in execs a job in a session.
func in(t testing.TB, c *jail.Caller, id string, j jail.Job) *jail.Outcome {
	t.Helper()
	args := append([]string{"exec", id}, j.Flags...)
	if !j.Raw {
		args = append(args, "--json")
	}
	argv := j.Argv
	if j.Sh != "" {
		argv = []string{"sh", "-c", j.Sh}
	}
	return c.Do(t, j, append(append(args, "--"), argv...)...)
}

// background starts a verb and gives its process.
func background(t testing.TB, c *jail.Caller, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), jail.Deadline)
	cmd := c.Command(ctx, args...)
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		cancel()
	})
	return cmd
}

// supervisor is its pid, as the session's record says.
func supervisor(t testing.TB, c *jail.Caller, id string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(c.StateDir(), id, "priv", "record.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r struct{ PID int }
	if err := json.Unmarshal(b, &r); err != nil || r.PID == 0 {
		t.Fatalf("%v: %s", err, b)
	}
	return r.PID
}

// running waits until so many commands run in a session.
func running(t testing.TB, c *jail.Caller, id string, n int) {
	t.Helper()
	if !jail.Eventually(prompt, func() bool { s := look(t, c, id); return s.Commands != nil && *s.Commands == n }) {
		t.Fatalf("%+v, want %d commands", look(t, c, id), n)
	}
}

// gone wants the session to end by itself, not before and not long after a time.
func gone(t testing.TB, c *jail.Caller, id string, since time.Time, from time.Duration) {
	t.Helper()
	dir := filepath.Join(c.StateDir(), id)
	if !jail.Eventually(from+prompt, func() bool { _, err := os.Stat(dir); return err != nil }) {
		t.Fatalf("session %s is still there after %v", id, time.Since(since))
	}
	if took := time.Since(since); took < from {
		t.Errorf("ended after %v, want at least %v", took, from)
	}
}

// destroyed wants the session's end in the event log, once, with its reason, and a
// finish for each start.
func destroyed(t testing.TB, c *jail.Caller, id, reason string) {
	t.Helper()
	var reasons []string
	open := map[string]int{}
	for _, e := range c.Events(t, "--session", id) {
		switch e.Type {
		case "session.destroyed":
			reasons = append(reasons, e.Data["reason"].(string))
		case "exec.started", "process.started":
			open[e.ExecID]++
		case "exec.finished", "process.exited":
			open[e.ExecID]--
		}
	}
	if len(reasons) != 1 || reasons[0] != reason {
		t.Errorf("destroyed for %v, want %s", reasons, reason)
	}
	for id, n := range open {
		if n != 0 {
			t.Errorf("command %s: %+d starts more than ends", id, n)
		}
	}
}

// pss is the proportional set size of a process, in bytes.
func pss(t testing.TB, pid int) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "Pss:" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	t.Fatalf("no Pss: %s", b)
	return 0
}
