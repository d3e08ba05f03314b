package launch

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/limits"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/test/need"
)

func setUp(t *testing.T, o Options, ttl time.Duration) *Jail {
	t.Helper()
	r := newJail(t.Context(), o)
	r.plan = &policy.Plan{Limits: limits.Limits{TTL: ttl}}
	return r
}

// TestSetupAborted: with nobody else listening, the caller's second signal, its
// end, or the time to live ends a set-up that hangs; here it hangs in a child.
func TestSetupAborted(t *testing.T) {
	sleeper := func(t *testing.T) *exec.Cmd {
		c := exec.Command("/bin/sleep", "60")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	owner := sleeper(t)
	owner.Process.Kill()
	owner.Wait()
	signals := make(chan os.Signal, 2)
	signals <- unix.SIGINT
	signals <- unix.SIGTERM
	for name, c := range map[string]struct {
		o   Options
		ttl time.Duration
		why string
	}{
		"second signal": {Options{Signals: signals}, time.Hour, "interrupted"},
		"owner gone":    {Options{OwnerPID: owner.Process.Pid}, time.Hour, "its owner"},
		"ttl":           {Options{}, 50 * time.Millisecond, "time to live"},
	} {
		t.Run(name, func(t *testing.T) {
			r := setUp(t, c.o, c.ttl)
			child := sleeper(t)
			stop := r.watchSetup()
			err := child.Wait()
			stop()
			if ws, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != unix.SIGKILL {
				t.Errorf("the child ended with %v", err)
			}
			if got := r.setupError(context.Canceled); !strings.Contains(got.Error(), c.why) {
				t.Errorf("error %v, want %q in it", got, c.why)
			}
		})
	}
}

// TestSetupSignalsAreKept: what comes early is the job's, and ends nothing.
func TestSetupSignalsAreKept(t *testing.T) {
	signals := make(chan os.Signal, 3)
	r := setUp(t, Options{Signals: signals}, time.Hour)
	stop := r.watchSetup()
	for _, s := range []os.Signal{unix.SIGUSR1, unix.SIGTERM, unix.SIGHUP} {
		signals <- s
	}
	for end := time.Now().Add(need.Time(10 * time.Second)); len(signals) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	stop()
	stop()
	if len(r.early) != 3 || r.aborted.Load() != nil {
		t.Errorf("kept %v, aborted %v", r.early, r.aborted.Load())
	}
	if err := r.setupError(nil); err != nil {
		t.Error(err)
	}
}
