package session

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/policy"
)

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func (b *bed) start(t *testing.T, name string, argv ...string) Process {
	t.Helper()
	p, err := b.client.Start("one", ProcessRequest{Name: name, Overrides: policy.Overrides{Argv: argv}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ps waits until a process has ended.
func (b *bed) exited(t *testing.T, id string) Process {
	t.Helper()
	for end := time.Now().Add(long); ; time.Sleep(10 * time.Millisecond) {
		ps, err := b.client.Processes("one", false)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ps {
			if p.ID == id && p.Status == jailer.ProcessExited {
				return p
			}
		}
		if time.Now().After(end) {
			t.Fatalf("it does not end: %+v", ps)
		}
	}
}

func TestProcess(t *testing.T) {
	b := supervise(t, nil)
	b.jail.set("three", func(c *fakeCommand) { *c.result.ExitCode = 3 })
	p := b.start(t, "web", "forever")
	if p.ID != "p1" || p.Name != "web" || p.Status != jailer.ProcessRunning || p.StartedAt.IsZero() || p.ExecID == "" {
		t.Errorf("%+v", p)
	}
	b.start(t, "", "three")
	p = b.exited(t, "p2") // nobody waits for it
	if *p.ExitCode != 3 || p.Result != jailer.StatusExited || p.FinishedAt.IsZero() {
		t.Errorf("%+v", p)
	}
	_, err := b.client.Start("one", ProcessRequest{Overrides: policy.Overrides{Argv: []string{"nosuch"}}})
	refused(t, err, jailer.CodeCommandNotFound)
	_, err = b.client.Start("one", ProcessRequest{Name: "web", Overrides: policy.Overrides{Argv: []string{"true"}}})
	refused(t, err, jailer.CodeInvalidState)
	for _, name := range []string{"..", "A", "p1", "a/b", "a\n", strings.Repeat("a", 64)} {
		_, err = b.client.Start("one", ProcessRequest{Name: name, Overrides: policy.Overrides{Argv: []string{"true"}}})
		refused(t, err, jailer.CodeInvalidRequest)
	}
	_, err = b.client.Kill("one", "nosuch", unix.SIGTERM)
	refused(t, err, jailer.CodeNotFound)
	_, err = b.client.Kill("one", "p2", unix.SIGTERM)
	refused(t, err, jailer.CodeInvalidState)
}

// Four, finished ones included, until they are pruned.
func TestProcessLimit(t *testing.T) {
	b := supervise(t, nil)
	b.start(t, "", "forever")
	for range MaxProcesses - 1 {
		b.exited(t, b.start(t, "", "true").ID)
	}
	_, err := b.client.Start("one", ProcessRequest{Overrides: policy.Overrides{Argv: []string{"true"}}})
	if e := refused(t, err, jailer.CodeProcessLimit); !e.Retryable || !strings.Contains(e.Hint, "jailer ps --prune one") {
		t.Errorf("%+v", e)
	}
	ps, err := b.client.Processes("one", true)
	if err != nil || len(ps) != MaxProcesses {
		t.Errorf("%+v, %v", ps, err)
	}
	if ps, err = b.client.Processes("one", false); err != nil || len(ps) != 1 || ps[0].ID != "p1" {
		t.Errorf("%+v, %v", ps, err)
	}
	if p := b.start(t, "", "true"); p.ID != "p5" {
		t.Errorf("the id of another is used again: %+v", p)
	}
}

func TestStop(t *testing.T) {
	b := supervise(t, nil)
	b.jail.set("polite", func(c *fakeCommand) {
		select {
		case sig := <-c.Signals:
			c.result.Signal = new(fmt.Sprint(sig))
		case <-c.stop:
		}
	})
	b.start(t, "polite", "polite")
	p, err := b.client.Stop("one", "polite", time.Minute)
	if err != nil || p.Status != jailer.ProcessExited || *p.Signal != "terminated" {
		t.Errorf("%+v, %v", p, err)
	}
	if again, err := b.client.Stop("one", "polite", time.Minute); err != nil || again.FinishedAt != p.FinishedAt {
		t.Errorf("%+v, %v", again, err)
	}
	b.start(t, "deaf", "forever")
	began := time.Now()
	p, err = b.client.Stop("one", "deaf", 200*time.Millisecond)
	if took := time.Since(began); err != nil || p.Result != jailer.StatusAborted || took < 200*time.Millisecond || took > long {
		t.Errorf("%+v, %v after %v", p, err, took)
	}
	b.start(t, "now", "forever")
	if p, err = b.client.Stop("one", "now", 0); err != nil || p.Result != jailer.StatusAborted {
		t.Errorf("%+v, %v", p, err)
	}
	_, err = b.client.Stop("one", "now", time.Hour)
	refused(t, err, jailer.CodeInvalidRequest)
}

func TestKill(t *testing.T) {
	b := supervise(t, nil)
	b.jail.set("trap", func(c *fakeCommand) { fmt.Fprint(c.Stdout, <-c.Signals) })
	b.start(t, "", "trap")
	if _, err := b.client.Kill("one", "p1", unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	b.exited(t, "p1")
	if text, lost := b.log(t, LogRequest{Process: "p1", Stream: "stdout"}); text != "user defined signal 1" || lost != 0 {
		t.Errorf("%q, %d", text, lost)
	}
}

func (b *bed) log(t *testing.T, r LogRequest) (string, int64) {
	t.Helper()
	var out bytes.Buffer
	var lost int64
	if err := b.client.Logs(t.Context(), "one", r, &out, func(n int64) { lost += n }); err != nil {
		t.Fatal(err)
	}
	return out.String(), lost
}

func TestLogs(t *testing.T) {
	b := supervise(t, nil)
	more := make(chan struct{})
	b.jail.set("talk", func(c *fakeCommand) {
		_, _ = io.WriteString(c.Stdout, "one two\n")
		_, _ = io.WriteString(c.Stderr, "wrong\n")
		<-more
		_, _ = io.WriteString(c.Stdout, "three\n")
	})
	b.start(t, "", "talk")
	for end := time.Now().Add(long); ; { // OnStart comes before the first word
		if text, _ := b.log(t, LogRequest{Process: "p1", Stream: "stderr"}); text != "" || time.Now().After(end) {
			break
		}
	}
	for _, row := range []struct {
		r    LogRequest
		want string
	}{
		{LogRequest{Stream: "stdout"}, "one two\n"},
		{LogRequest{Stream: "stdout", Tail: 4}, "two\n"},
		{LogRequest{Stream: "stdout", Tail: 1000}, "one two\n"},
		{LogRequest{Stream: "stderr"}, "wrong\n"},
	} {
		row.r.Process = "p1"
		if text, lost := b.log(t, row.r); text != row.want || lost != 0 {
			t.Errorf("%+v: %q, %d lost", row.r, text, lost)
		}
	}
	time.AfterFunc(50*time.Millisecond, func() { close(more) })
	if text, lost := b.log(t, LogRequest{Process: "p1", Stream: "stdout", Tail: 4, Follow: true}); text != "two\nthree\n" || lost != 0 {
		t.Errorf("followed: %q, %d lost", text, lost)
	}
	if text, _ := b.log(t, LogRequest{Process: "p1", Stream: "stdout", Follow: true}); text != "one two\nthree\n" {
		t.Errorf("after its end: %q", text)
	}
	err := b.client.Logs(t.Context(), "one", LogRequest{Process: "p1", Stream: "both"}, io.Discard, nil)
	refused(t, err, jailer.CodeInvalidRequest)
}

// More than a ring: the end is kept, and the rest counted.
func TestLogLoses(t *testing.T) {
	b := supervise(t, nil)
	const total = 5 << 20
	b.jail.set("flood", func(c *fakeCommand) {
		block := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
		for range total / len(block) {
			_, _ = c.Stdout.Write(block)
		}
	})
	b.start(t, "", "flood")
	p := b.exited(t, "p1")
	if p.StdoutBytes != total || p.StdoutLost != total-LogSize {
		t.Errorf("%+v", p)
	}
	text, lost := b.log(t, LogRequest{Process: "p1", Stream: "stdout"})
	if len(text) != LogSize || lost != total-LogSize || !strings.HasSuffix(text, "0123456789abcdef") {
		t.Errorf("%d bytes, %d lost", len(text), lost)
	}
	if text, lost = b.log(t, LogRequest{Process: "p1", Stream: "stdout", Tail: 16}); text != "0123456789abcdef" || lost != 0 {
		t.Errorf("%q, %d lost", text, lost)
	}
}
