package escape

import (
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
)

// TestPID1: whatever a job does to the PID 1 that it shares a host uid with, at
// worst its own jail ends. The result says what happened, and nothing survives.
func TestPID1(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		for _, tc := range []struct {
			attack string
			also   func(r *result) bool // another true outcome than "still there, exit 5"
		}{
			{"signals", nil},
			{"prlimit", nil},
			{"ptrace", nil},
			{"proc", nil},
			{"sched", nil},
			{"forks", func(r *result) bool { return r.Status == "timed_out" }},
			{"deathsig", nil},
			{"killall", func(r *result) bool {
				return r.Status == "signaled" && r.Signal != nil && *r.Signal == "SIGKILL"
			}},
			{"starve", nil},
		} {
			t.Run(tc.attack, func(t *testing.T) {
				m := mark()
				start := time.Now()
				r := c.probe(t, []string{"--timeout", jail.Timeout(20 * time.Second), "--pids", "64"}, "--pid1", tc.attack, m)
				gone(t, m)
				t.Logf("%v in %v", r, time.Since(start).Round(time.Millisecond))
				alive := r.exited(5) && strings.Contains(r.Stdout, "survived\n")
				lost := r.InitLost && r.Status == "signaled"
				if !alive && !lost && (tc.also == nil || !tc.also(r)) {
					t.Errorf("%v\nwant the attacker's exit 5, or initLost", r)
				}
				if strings.Contains(r.Stdout, "GOT") {
					t.Errorf("read from pid 1:\n%s", r.Stdout)
				}
				if tc.attack == "sched" && !lost && !strings.Contains(r.Stdout, "nice of pid 1: "+niceness(t)+"\n") {
					t.Errorf("pid 1 was re-niced: %s", r.Stdout)
				}
				// The host is as it was: the next jail works.
				if r := c.sh(t, "echo fine"); r.Stdout != "fine\n" {
					t.Errorf("the next run: %v", r)
				}
			})
		}
	})
}
