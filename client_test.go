package jailer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/need"
)

func newClient(t *testing.T) *Client {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Client{Path: self, grace: need.Time(time.Second)}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name string
		r    Request
		in   io.Reader
		raw  bool
		want string // on Stdout, or in the result
	}{
		{"captured", Request{Argv: []string{"echo", "a", "b"}}, nil, false, "a b"},
		{"raw", Request{Argv: []string{"echo", "a", "b"}}, nil, true, "a b"},
		{"stdin", Request{Argv: []string{"cat"}}, strings.NewReader("abc"), true, "abc"},
		{"no stdin", Request{Argv: []string{"cat"}}, nil, true, ""},
		{"stdin that nobody reads", Request{Argv: []string{"echo", "x"}}, endless{}, true, "x"},
		{"long request", Request{Argv: []string{"echo", strings.Repeat("x", 100<<10)}}, nil, true, strings.Repeat("x", 100<<10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			s := IO{Stdin: c.in}
			if c.raw {
				s.Stdout, s.Stderr = &out, &errs
			}
			res, err := newClient(t).Run(t.Context(), c.r, s)
			if err != nil {
				t.Fatalf("%v (%s)", err, errs.String())
			}
			if res.Status != StatusExited || res.ExitCode == nil || *res.ExitCode != 0 {
				t.Errorf("got %+v", res)
			}
			got := out.String()
			if !c.raw {
				b, err := res.StdoutData()
				if err != nil {
					t.Fatal(err)
				}
				got = string(b)
			}
			if got != c.want {
				t.Errorf("got %.80q, want %.80q", got, c.want)
			}
		})
	}
}

// endless is an input without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestRunBigResult(t *testing.T) {
	res, err := newClient(t).Run(t.Context(), Request{Argv: []string{"big"}}, IO{})
	if err != nil || len(*res.Stdout) != 2<<20 {
		t.Fatalf("got %v", err)
	}
}

// TestRunGivesLittle: the program gets no variable and no descriptor of ours
// but the ones that it needs.
func TestRunGivesLittle(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "/nonexistent")
	t.Setenv("GODEBUG", "http2debug=1")
	t.Setenv("JAILER_POLICY", "/tmp/x")
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	mark, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer mark.Close()
	c := newClient(t)
	c.Policy, c.StateDir = "/etc/p.toml", "/run/s"
	res, err := c.Run(t.Context(), Request{Argv: []string{"show"}}, IO{})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"LD_", "GODEBUG", "JAILER_"} {
		if strings.Contains(res.Labels["env"], bad) {
			t.Errorf("%s… is passed on:\n%s", bad, res.Labels["env"])
		}
	}
	if !strings.Contains(res.Labels["env"], "XDG_RUNTIME_DIR=/run/user/7") {
		t.Errorf("the state directory is lost:\n%s", res.Labels["env"])
	}
	if want := "--request /dev/fd/3 --result-fd 4 --policy /etc/p.toml --state-dir /run/s --json"; res.Labels["args"] != want {
		t.Errorf("arguments %q, want %q", res.Labels["args"], want)
	}
	if res.Labels["cwd"] != "/" {
		t.Errorf("working directory %q", res.Labels["cwd"])
	}
	if strings.Contains(res.Labels["open"], mark.Name()) {
		t.Errorf("a descriptor of ours is passed on:\n%s", res.Labels["open"])
	}
}

func TestRunFails(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	notProgram := filepath.Join(dir, "x")
	if err := os.WriteFile(notProgram, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		ctx  context.Context
		set  func(*Client, *Request)
		code Code
		msg  string
	}{
		{"refused", nil, func(_ *Client, r *Request) { r.Argv[0] = "denied" }, CodePolicyDenied, "no"},
		{"another version", nil, func(_ *Client, r *Request) { r.Argv[0] = "version" }, CodeInternal, "protocol version 2"},
		{"no result", nil, func(_ *Client, r *Request) { r.Argv[0] = "silent" }, CodeInternal, "without a result"},
		{"relative path", nil, func(c *Client, _ *Request) { c.Path = "jailer" }, CodeInvalidRequest, "absolute"},
		{"no path", nil, func(c *Client, _ *Request) { c.Path = "" }, CodeInvalidRequest, "absolute"},
		{"relative policy", nil, func(c *Client, _ *Request) { c.Policy = "p.toml" }, CodeInvalidRequest, "absolute"},
		{"no program", nil, func(c *Client, _ *Request) { c.Path = filepath.Join(dir, "none") }, CodeInternal, "can't start"},
		{"no permission", nil, func(c *Client, _ *Request) { c.Path = notProgram }, CodeInternal, "can't start"},
		{"no command", nil, func(_ *Client, r *Request) { r.Argv = nil }, CodeInvalidRequest, "no command"},
		{"bad request", nil, func(_ *Client, r *Request) { r.Tenant = "../b" }, CodeInvalidRequest, "tenant"},
		{"request too long", nil, func(_ *Client, r *Request) { r.Stdin = new(strings.Repeat("x", 1<<20)) }, CodeInvalidRequest, "more than"},
		{"cancelled before", cancelled, func(*Client, *Request) {}, CodeInternal, "not started"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, r := newClient(t), Request{Argv: []string{"echo"}}
			c.set(client, &r)
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			res, err := client.Run(ctx, r, IO{})
			e, ok := errors.AsType[*Error](err)
			if !ok || res != nil {
				t.Fatalf("got %+v, %v", res, err)
			}
			if e.Code != c.code || !strings.Contains(e.Error(), c.msg) {
				t.Errorf("got %s %q", e.Code, e.Error())
			}
			if c.name == "no result" && !strings.Contains(e.Hint, "something") {
				t.Errorf("what the program said is lost: %q", e.Hint)
			}
		})
	}
	if _, err := newClient(t).Run(t.Context(), Request{Argv: []string{"cat"}, Stdin: new("x")}, IO{Stdin: strings.NewReader("y")}); err == nil {
		t.Error("two inputs are taken")
	}
}

func TestRunWithErrorAfter(t *testing.T) {
	res, err := newClient(t).Run(t.Context(), Request{Argv: []string{"cleanup"}}, IO{})
	if res == nil || res.Status != StatusExited {
		t.Fatalf("the result is lost: %v", err)
	}
	if e, ok := errors.AsType[*Error](err); !ok || e.Message != "the cgroup stays" {
		t.Fatalf("got %v", err)
	}
}

// lineWriter tells when something was written.
type lineWriter chan struct{}

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- struct{}{}:
	default:
	}
	return len(p), nil
}

func TestRunCancelled(t *testing.T) {
	why := errors.New("the job is gone")
	for _, c := range []struct {
		how    string
		result bool
	}{{"term", true}, {"int", true}, {"stuck", false}} {
		t.Run(c.how, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ready := make(lineWriter, 1)
			go func() {
				<-ready
				cancel(why)
			}()
			client := newClient(t)
			if c.how == "term" {
				client.grace = need.Time(time.Minute) // as long as it takes
			}
			start := time.Now()
			res, err := client.Run(ctx, Request{Argv: []string{c.how}}, IO{Stdout: ready})
			if !errors.Is(err, why) {
				t.Errorf("got %v, want the cause", err)
			}
			if (res != nil) != c.result || res != nil && res.Status != StatusAborted {
				t.Errorf("got %+v", res)
			}
			if d := time.Since(start); d > need.Time(20*time.Second) {
				t.Errorf("took %v", d)
			}
		})
	}
}

// TestRunLeaksNothing counts descriptors and goroutines.
func TestRunLeaksNothing(t *testing.T) {
	c := newClient(t)
	once := func() {
		for _, how := range []string{"echo", "denied", "silent", "cat"} {
			_, _ = c.Run(t.Context(), Request{Argv: []string{how}}, IO{Stdin: strings.NewReader("x"), Stdout: io.Discard})
		}
		_, _ = (&Client{Path: "/nonexistent/jailer"}).Run(t.Context(), Request{Argv: []string{"x"}}, IO{Stdin: strings.NewReader("x")})
	}
	once()
	fds, routines := openFiles(t), runtime.NumGoroutine()
	for range 2 {
		once()
	}
	// A copying goroutine may need a moment to see its pipe closed.
	for end := time.Now().Add(need.Time(2 * time.Second)); time.Now().Before(end); {
		if openFiles(t) <= fds && runtime.NumGoroutine() <= routines {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("descriptors %d → %d, goroutines %d → %d", fds, openFiles(t), routines, runtime.NumGoroutine())
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
