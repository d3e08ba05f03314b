//go:build seccomp

package pid1

import (
	"testing"
	"time"
)

// BenchmarkExec measures from the payload to the end of /bin/true, without the
// namespaces: the part that PID 1 adds to a run.
func BenchmarkExec(b *testing.B) {
	var total, started time.Duration
	for b.Loop() {
		j := boot(b, options{})
		p := job("/bin/true")
		time.Sleep(200 * time.Millisecond) // the stage has executed PID 1
		begin := time.Now()
		if err := j.Send(&p); err != nil {
			b.Fatal(err)
		}
		if r, err := j.Next(); err != nil || r.Type != Started {
			b.Fatal(r, err)
		}
		started += time.Since(begin)
		if r, err := j.Next(); err != nil || r.Type != Exited {
			b.Fatal(r, err)
		}
		total += time.Since(begin)
		j.Close()
	}
	b.ReportMetric(float64(started.Microseconds())/float64(b.N), "µs/started")
	b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/exited")
}
