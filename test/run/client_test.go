package run

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// client is the library with the real program, as this process.
func client(t *testing.T) *jailer.Client {
	t.Helper()
	c := jail.User(t)
	if os.Geteuid() == 0 {
		c = jail.Root(t)
	}
	return &jailer.Client{Path: jail.Program(), StateDir: c.StateDir(), Policy: c.Policy}
}

// 16: the library in a busy program with goroutines and threads of its own.
func TestClientEmbedded(t *testing.T) {
	t.Parallel()
	c := client(t)
	stop := make(chan struct{})
	defer close(stop)
	for range 4 {
		go func() { // comes and goes between threads
			runtime.LockOSThread()
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
			}
		}()
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range need.Times(5) {
				r, err := c.Run(t.Context(), jailer.Request{Argv: []string{"sh", "-c", "echo $A; exit 3"}, Env: map[string]string{"A": "b"}}, jailer.IO{})
				if err != nil || r.Status != jailer.StatusExited || *r.ExitCode != 3 || *r.Stdout != "b\n" {
					t.Errorf("%+v, %v", r, err)
				}
			}
		})
	}
	all.Wait()
}

func TestClient(t *testing.T) {
	t.Parallel()
	c := client(t)
	t.Run("streams", func(t *testing.T) {
		var out, errOut strings.Builder
		r, err := c.Run(t.Context(), jailer.Request{Argv: []string{"sh", "-c", "cat; echo e >&2"}},
			jailer.IO{Stdin: strings.NewReader("abc"), Stdout: &out, Stderr: &errOut})
		if err != nil || *r.ExitCode != 0 || out.String() != "abc" || errOut.String() != "e\n" || r.Stdout != nil {
			t.Errorf("%+v, %v, %q, %q", r, err, out.String(), errOut.String())
		}
	})
	t.Run("not found", func(t *testing.T) {
		r, err := c.Run(t.Context(), jailer.Request{Argv: []string{"nosuch"}}, jailer.IO{})
		if e, ok := errors.AsType[*jailer.Error](err); r != nil || !ok || e.Code != jailer.CodeCommandNotFound {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("denied", func(t *testing.T) {
		_, err := c.Run(t.Context(), jailer.Request{Argv: []string{"true"}, Limits: jailer.RequestLimits{TimeoutMs: 1e9}}, jailer.IO{})
		if e, ok := errors.AsType[*jailer.Error](err); !ok || e.Code != jailer.CodePolicyDenied {
			t.Error(err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		mark := marked(70)
		var began time.Time
		go func() {
			if !jail.Eventually(prompt, func() bool { return len(jail.Living(t, jail.Marked(mark))) > 0 }) {
				t.Error("the command never ran")
			}
			began = time.Now()
			cancel()
		}()
		_, err := c.Run(ctx, jailer.Request{Argv: []string{"sleep", mark}, Limits: jailer.RequestLimits{TimeoutMs: 200_000}}, jailer.IO{})
		if ctx.Err() == nil || !errors.Is(err, context.Canceled) || time.Since(began) > prompt {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		jail.Gone(t, 0, jail.Marked(mark))
	})
}
