package run

import (
	"testing"

	"github.com/jailer-project/jailer/test/jail"
)

// Half a CPU is half a second of the job's own clock in each second of the
// wall's, for one busy process and for four. A CPU that is not there can't be
// denied: where the host is too busy to give half of one, once more.
func TestCPUShare(t *testing.T) {
	c := limited(t)
	for name, script := range map[string]string{
		"one":  `while :; do :; done`,
		"four": `for i in 1 2 3; do (while :; do :; done) & done; while :; do :; done`,
	} {
		t.Run(name, func(t *testing.T) {
			denied := false
			for try := 0; !denied && try < 5; try++ {
				o := c.Run(t, jail.Job{Flags: []string{"--cpus", "0.5", "--cpu-time", "100s", "--timeout", "4s"}, Sh: script})
				r := o.Ended(t, "timed_out", "wall", 124)
				used := *r.Usage.CPUUserMs + *r.Usage.CPUSystemMs
				// Jailer's own wall clock, and the caller's, which holds it.
				if r.DurationMs < 4000 || o.Took.Milliseconds() < r.DurationMs {
					t.Errorf("%d ms of %v", r.DurationMs, o.Took)
				}
				// One period of 100 ms more may pass until all is dead. The job may have
				// begun well before jailer, waiting for a CPU of a busy host, learned of
				// it: it can't have lived longer than the whole run.
				if most := o.Took.Milliseconds()/2 + 200; used > most {
					t.Errorf("%d ms of CPU in %d ms at half a CPU", used, r.DurationMs)
				}
				denied = used > r.DurationMs*4/10
				if denied && (r.Usage.ThrottledMs == nil || *r.Usage.ThrottledMs == 0) {
					t.Errorf("never throttled:\n%s", o)
				}
				t.Logf("%d ms of CPU in %d ms", used, r.DurationMs)
			}
			if !denied {
				t.Error("the job never got the half of a CPU that it may have")
			}
		})
	}
}
