// Package api runs real jails through the Go library.
package api

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// The examples create sessions, and can't skip themselves.
func TestMain(m *testing.M) {
	if !able() {
		fmt.Println("SKIPPED (needs delegated): examples: a session needs cgroups, and this user has none")
		if err := flag.Set("test.skip", "^Example"); err != nil {
			panic(err)
		}
	}
	jail.Main(m)
}

func able() bool { return os.Geteuid() == 0 || os.Getenv("JAILER_LIMITS") == "required" }

// client is one with a state directory of its own, and the caller for a look at it.
func client(t testing.TB) (*jailer.Client, *jail.Caller) {
	t.Helper()
	c := jail.Root
	if os.Geteuid() != 0 {
		need.Feature(t, "delegated", able(), "a session needs cgroups, and this user has none")
		c = jail.User
	}
	caller := c(t)
	return &jailer.Client{Path: jail.Program(), StateDir: caller.StateDir()}, caller
}

func create(t testing.TB, r jailer.Request, o jailer.SessionOptions) (*jailer.Session, *jail.Caller) {
	t.Helper()
	c, caller := client(t)
	s, err := c.Create(t.Context(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		caller.NothingLeft(t, s.ID+"*")
	})
	return s, caller
}

func sh(script string) jailer.Request { return jailer.Request{Argv: []string{"sh", "-c", script}} }

func TestSession(t *testing.T) {
	s, _ := create(t, jailer.Request{
		Labels: map[string]string{"job": "7"}, Env: map[string]string{"A": "1"},
		Files: []jailer.RequestFile{{Path: "in.txt", Content: "given\n"}},
	}, jailer.SessionOptions{ID: "api", TTL: 10 * time.Minute, Idle: 5 * time.Minute})

	res, err := s.Exec(t.Context(), sh("cat in.txt; echo $A; echo kept >/workspace/f; echo e >&2; exit 3"), jailer.IO{})
	if err != nil || res.Status != jailer.StatusExited || *res.ExitCode != 3 || *res.Stdout != "given\n1\n" || *res.Stderr != "e\n" {
		t.Fatalf("%+v, %v", res, err)
	}
	if res.SessionID != "api" || res.ExecID == "" || res.Labels["job"] != "7" || res.Isolation.Limits["memory"] == "" {
		t.Errorf("%+v", res)
	}

	t.Run("the next command finds what the first left", func(t *testing.T) {
		out, err := s.Command(t.Context(), "cat", "/workspace/f").Output()
		if err != nil || string(out) != "kept\n" {
			t.Errorf("%q, %v", out, err)
		}
	})
	t.Run("opened again", func(t *testing.T) {
		c := &jailer.Client{Path: jail.Program(), StateDir: s.StateDir()}
		again, err := c.Open(t.Context(), "api")
		if err != nil || again.PID != s.PID || again.PID == 0 {
			t.Fatalf("%+v, %v", again, err)
		}
		if out, err := again.Command(t.Context(), "cat", "f").Output(); err != nil || string(out) != "kept\n" {
			t.Errorf("%q, %v", out, err)
		}
		if _, err := c.Open(t.Context(), "another"); !is(err, jailer.CodeSessionNotFound) {
			t.Errorf("%v", err)
		}
		if _, err := c.Create(t.Context(), jailer.Request{}, jailer.SessionOptions{ID: "api"}); !is(err, jailer.CodeSessionExists) {
			t.Errorf("%v", err)
		}
	})
	t.Run("state", func(t *testing.T) {
		st, err := s.State(t.Context())
		if err != nil || st.ID != "api" || st.Status != "running" || st.PID != s.PID || st.Annotations["job"] != "7" || st.ExpiresAt.Before(time.Now()) {
			t.Errorf("%+v, %v", st, err)
		}
	})
	t.Run("streams", func(t *testing.T) {
		cmd := s.Command(t.Context(), "tr", "a-z", "A-Z")
		cmd.Stdin, cmd.Env, cmd.Dir = strings.NewReader(strings.Repeat("x", 200<<10)), []string{"B=2"}, "/tmp"
		out, err := cmd.Output()
		if err != nil || string(out) != strings.Repeat("X", 200<<10) {
			t.Errorf("%d bytes, %v", len(out), err)
		}
		both, err := s.Command(t.Context(), "sh", "-c", "echo 1; echo 2 >&2").CombinedOutput()
		if err != nil || len(both) != 4 {
			t.Errorf("%q, %v", both, err)
		}
	})
	t.Run("how it ended", func(t *testing.T) {
		for script, want := range map[string]string{
			"exit 4":     "exit status 4",
			"kill -9 $$": "signaled by SIGKILL",
		} {
			err := s.Command(t.Context(), "sh", "-c", script).Run()
			if e, ok := errors.AsType[*jailer.ExitError](err); !ok || e.Error() != want {
				t.Errorf("%s: %v", script, err)
			}
		}
		cmd := s.Command(t.Context(), "sleep", "1000")
		cmd.Limits = jailer.RequestLimits{TimeoutMs: 300}
		if e, ok := errors.AsType[*jailer.ExitError](cmd.Run()); !ok || e.Status != jailer.StatusTimedOut || e.Error() != "timed_out (wall)" {
			t.Errorf("%v", e)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for code, r := range map[jailer.Code]jailer.Request{
			jailer.CodeCommandNotFound: {Argv: []string{"no-such-command"}},
			jailer.CodeInvalidPath:     {Argv: []string{"true"}, Cwd: "/nowhere"},
			jailer.CodePolicyDenied:    {Argv: []string{"true"}, Limits: jailer.RequestLimits{MemoryBytes: 1 << 40}},
			jailer.CodeInvalidRequest:  {Argv: []string{"true"}, Tenant: "other"},
		} {
			res, err := s.Exec(t.Context(), r, jailer.IO{})
			if res != nil || !is(err, code) {
				t.Errorf("%s: %+v, %v", code, res, err)
			}
		}
	})
	t.Run("many at once", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				out, err := s.Command(t.Context(), "sh", "-c", fmt.Sprintf("sleep 0.1; echo %d", i)).Output()
				if err != nil || string(out) != fmt.Sprintln(i) {
					t.Errorf("%d: %q, %v", i, out, err)
				}
			})
		}
		all.Wait()
	})
}

func is(err error, code jailer.Code) bool {
	e, ok := errors.AsType[*jailer.Error](err)
	return ok && e.Code == code
}

// asleep waits until n processes sleep for this long, which nobody else does.
func asleep(t *testing.T, mark string, n int) {
	t.Helper()
	var found []jail.Process
	if !jail.Eventually(need.Time(30*time.Second), func() bool {
		found = jail.Living(t, func(p jail.Process) bool { return p.Cmdline == "sleep "+mark })
		return len(found) == n
	}) {
		t.Errorf("%d processes are asleep, want %d", len(found), n)
	}
}

// TestCancel: the end of the context ends the command and all its processes, and
// nothing else in the session.
func TestCancel(t *testing.T) {
	s, _ := create(t, jailer.Request{}, jailer.SessionOptions{})
	other := s.Command(t.Context(), "sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	mark := fmt.Sprintf("1001.%07d", os.Getpid())
	var began time.Time
	go func() {
		asleep(t, mark, 2)
		began = time.Now()
		cancel()
	}()
	cmd := s.Command(ctx, "sh", "-c", "trap '' TERM; (trap '' TERM; setsid sleep "+mark+" &) ; sleep "+mark+"; sleep 1000")
	err := cmd.Run()
	if !errors.Is(err, context.Canceled) || cmd.Result == nil || cmd.Result.Status != jailer.StatusAborted {
		t.Errorf("%v, %+v", err, cmd.Result)
	}
	if d := time.Since(began); d > need.Time(8*time.Second) {
		t.Errorf("took %v", d)
	}
	out, err := s.Command(t.Context(), "sh", "-c", "set -- /proc/[0-9]*; echo $#").Output()
	if err != nil || string(out) != "3\n" { // PID 1, the other, sh
		t.Errorf("%q, %v", out, err)
	}
	if err := other.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if e, ok := errors.AsType[*jailer.ExitError](other.Wait()); !ok || *e.Signal != "SIGTERM" {
		t.Errorf("%v", e)
	}

	t.Run("before the start", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if res, err := s.Exec(ctx, sh("true"), jailer.IO{}); res != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestProcess(t *testing.T) {
	s, _ := create(t, jailer.Request{}, jailer.SessionOptions{})
	p, err := s.Start(t.Context(), "web", sh("echo oops >&2; trap 'echo down; exit 5' TERM; echo up; while :; do sleep 0.05; done"))
	if err != nil || p.Name != "web" || p.Status != "running" {
		t.Fatalf("%+v, %v", p, err)
	}
	followed := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		lost, err := s.Logs(context.Background(), "web", jailer.LogOptions{Follow: true}, &b)
		followed <- fmt.Sprint(b.String(), lost, err)
	}()
	if !jail.Eventually(need.Time(30*time.Second), func() bool {
		var b bytes.Buffer
		_, err := s.Logs(t.Context(), "web", jailer.LogOptions{}, &b)
		return err == nil && b.String() == "up\n" // the trap is set
	}) {
		t.Fatal("never up")
	}
	if p, err = s.Stop(t.Context(), "web", 10*time.Second); err != nil || p.Status != "exited" || p.ExitCode == nil || *p.ExitCode != 5 {
		t.Errorf("%+v, %v", p, err)
	}
	if got := <-followed; got != "up\ndown\n0<nil>" && got != "up\ndown\n0 <nil>" {
		t.Errorf("%q", got)
	}
	var b bytes.Buffer
	if _, err := s.Logs(t.Context(), p.ID, jailer.LogOptions{Stderr: true}, &b); err != nil || b.String() != "oops\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	ps, err := s.Processes(t.Context(), true)
	if err != nil || len(ps) != 1 || ps[0].FinishedAt.IsZero() {
		t.Errorf("%+v, %v", ps, err)
	}
	if ps, err = s.Processes(t.Context(), false); err != nil || len(ps) != 0 {
		t.Errorf("%+v, %v", ps, err)
	}
}

// TestSupervisorLost: a command whose supervisor is killed has no result, and the jail
// is gone.
func TestSupervisorLost(t *testing.T) {
	s, _ := create(t, jailer.Request{}, jailer.SessionOptions{})
	mark := fmt.Sprintf("1002.%07d", os.Getpid())
	go func() {
		asleep(t, mark, 1)
		for _, p := range jail.Processes(t) {
			if p.PID == s.PID {
				_ = syscall.Kill(p.Parent, syscall.SIGKILL)
			}
		}
	}()
	res, err := s.Exec(t.Context(), sh("sleep "+mark), jailer.IO{})
	if res != nil || !is(err, jailer.CodeInvalidState) {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := s.Exec(t.Context(), sh("true"), jailer.IO{}); !is(err, jailer.CodeSessionNotFound) {
		t.Errorf("%v", err)
	}
	if !jail.Eventually(need.Time(10*time.Second), func() bool { return syscall.Kill(s.PID, 0) != nil }) {
		t.Error("PID 1 is still there")
	}
}
