package session

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/policy"
)

// Output comes past the supervisor, under the cap of the command's plan.
func TestExecOutput(t *testing.T) {
	b := supervise(t, func(j *fakeJail, _ *Options) { j.plan.Limits.MaxOutput = 10 })
	b.jail.set("both", func(c *fakeCommand) {
		_, _ = io.WriteString(c.Streams.Stdout, strings.Repeat("o", 100_000))
		_, _ = io.WriteString(c.Streams.Stderr, "e\xff")
		*c.result.ExitCode = 3
	})
	t.Run("captured", func(t *testing.T) {
		out, err := b.run(t.Context(), "both")
		if err != nil {
			t.Fatal(err)
		}
		r := out.Result
		stdout, _ := r.StdoutData()
		stderr, _ := r.StderrData()
		if string(stdout) != "oooooooooo" || string(stderr) != "e\xff" || r.StdoutBytes != 100_000 || r.StderrBytes != 2 ||
			*r.ExitCode != 3 || out.StdoutKept != 10 || r.Error != nil {
			t.Errorf("%q, %q, %+v", stdout, stderr, out)
		}
	})
	t.Run("passed on", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		out, err := b.client.Exec(t.Context(), "one", launch.Options{
			Overrides: policy.Overrides{Argv: []string{"both"}}, Stdout: &stdout, Stderr: &stderr,
		})
		if err != nil || stdout.String() != "oooooooooo" || stderr.String() != "e\xff" || out.Result.Stdout != nil || out.StdoutKept != 10 {
			t.Errorf("%q, %q, %+v, %v", &stdout, &stderr, out, err)
		}
	})
}

// That the output is over the cap comes to the supervisor, where the plan says kill.
func TestExecExceeded(t *testing.T) {
	b := supervise(t, func(j *fakeJail, _ *Options) { j.plan.Limits.MaxOutput, j.plan.OnOutputLimit = 10, jailer.OnLimitKill })
	b.jail.set("flood", func(c *fakeCommand) {
		_, _ = io.WriteString(c.Streams.Stderr, strings.Repeat("x", 100))
		select {
		case <-c.Streams.Exceeded:
			c.result.Status = jailer.StatusOutputLimitExceeded
		case <-time.After(long):
		}
	})
	out, err := b.run(t.Context(), "flood")
	if err != nil || out.Result.Status != jailer.StatusOutputLimitExceeded {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestExecStdin(t *testing.T) {
	b := supervise(t, nil)
	b.jail.set("cat", func(c *fakeCommand) {
		if c.Streams.Stdin == nil {
			_, _ = io.WriteString(c.Streams.Stdout, "nothing to read")
			return
		}
		_, _ = io.Copy(c.Streams.Stdout, c.Streams.Stdin)
	})
	for _, row := range []struct {
		in   io.Reader
		want string
	}{{strings.NewReader("hello"), "hello"}, {strings.NewReader(""), ""}, {nil, "nothing to read"}} {
		out, err := b.client.Exec(t.Context(), "one", launch.Options{
			Overrides: policy.Overrides{Argv: []string{"cat"}, Stdin: row.in != nil}, Stdin: row.in,
		})
		if err != nil || *out.Result.Stdout != row.want {
			t.Errorf("%+v, %v", out, err)
		}
	}
}

// What the command line says arrives whole, and what is the session's doesn't at all.
func TestExecFlags(t *testing.T) {
	b := supervise(t, nil)
	commands := make(chan launch.Command, 2)
	b.jail.set("a\xff", func(c *fakeCommand) { commands <- c.Command })
	o := policy.Overrides{
		Argv: []string{"a\xff", "", "b c"}, Env: map[string]string{"K": "\xfe", "E": ""}, Cwd: "/tmp/\xfd", CPUSet: "0",
		OutputKeep: "tail", OnOutputLimit: "kill", Stdin: true, Capabilities: []string{}, AppArmorRequired: true,
	}
	o.Limits.Memory, o.Limits.Timeout, o.Limits.CPUs = 1<<30, 1500*time.Millisecond, 250
	sent := o
	sent.Profile, sent.Tenant, sent.Rootfs = "other", "other", "other"
	if _, err := b.client.Exec(t.Context(), "one", launch.Options{Request: []byte(`{"v":1}`), Overrides: sent}); err != nil {
		t.Fatal(err)
	}
	got := <-commands
	equal(t, got.Overrides, o)
	if string(got.Request) != `{"v":1}` || got.Service {
		t.Errorf("%+v", got)
	}
	o = policy.Overrides{Argv: []string{"a\xff"}}
	if _, err := b.client.Exec(t.Context(), "one", launch.Options{Overrides: o}); err != nil {
		t.Fatal(err)
	}
	got = <-commands
	equal(t, got.Overrides, o) // an absent list is none
}

func TestExecSignals(t *testing.T) {
	b := supervise(t, nil)
	b.jail.set("trap", func(c *fakeCommand) {
		select {
		case sig := <-c.Signals:
			c.outcome.Interrupt = sig
			c.result.Signal = new(unix.SignalName(sig.(syscall.Signal)))
		case <-c.stop:
		}
	})
	signals := make(chan os.Signal, 1)
	ch := b.begin(t, launch.Options{Overrides: policy.Overrides{Argv: []string{"trap"}}, Signals: signals})
	signals <- unix.SIGTERM
	if a := wait(t, ch); a.err != nil || a.out.Result.Signal == nil || *a.out.Result.Signal != "SIGTERM" || a.out.Interrupt != unix.SIGTERM {
		t.Errorf("%+v, %v", a.out, a.err)
	}
}

// The client's end is the command's, and no other's.
func TestClientGone(t *testing.T) {
	b := supervise(t, nil)
	other := b.begin(t, launch.Options{Overrides: policy.Overrides{Argv: []string{"forever"}}})
	ctx, cancel := context.WithCancel(t.Context())
	aborted := make(chan struct{})
	b.jail.set("victim", func(c *fakeCommand) { <-c.ctx.Done(); close(aborted) })
	go func() {
		time.Sleep(100 * time.Millisecond)
		cancel()
	}()
	if _, err := b.run(ctx, "victim"); err == nil {
		t.Error("no error")
	}
	select {
	case <-aborted:
	case <-time.After(long):
		t.Error("the command goes on")
	}
	select {
	case a := <-other:
		t.Errorf("the other ended: %+v, %v", a.out, a.err)
	default:
	}
	b.lives(t)
}

// A socket that nobody answers on is no hang.
func TestNobodyListens(t *testing.T) {
	b := supervise(t, nil)
	b.server.l.Close() // nobody answers on it any more
	_, err := b.run(t.Context(), "true")
	if e := refused(t, err, jailer.CodeInvalidState); !e.Retryable {
		t.Errorf("%+v", e)
	}
}

func TestExecRefused(t *testing.T) {
	b := supervise(t, nil)
	_, err := b.run(t.Context(), "nosuch")
	refused(t, err, jailer.CodeCommandNotFound)
	_, err = b.client.Exec(t.Context(), "two", launch.Options{})
	if e := refused(t, err, jailer.CodeSessionNotFound); e.Hint != "list them: jailer list" {
		t.Errorf("hint %q", e.Hint)
	}
	for _, id := range []string{"", "..", "A", strings.Repeat("a", 64), "a\x00", "a\n", "а"} {
		_, err = b.client.Exec(t.Context(), id, launch.Options{})
		refused(t, err, jailer.CodeInvalidRequest)
	}
}

// A client that never reads what it asked for keeps nobody waiting.
func TestDeafClient(t *testing.T) {
	b := supervise(t, nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b.jail.set("much", say(strings.Repeat("x", 150_000)))
	ch := b.begin(t, launch.Options{Overrides: policy.Overrides{Argv: []string{"much"}}, Stdout: w})
	b.lives(t)
	began := time.Now()
	if err := b.client.Delete(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > long {
		t.Errorf("took %v", took)
	}
	go io.Copy(io.Discard, r)
	wait(t, ch)
	w.Close()
}
