//go:build seccomp

package pid1

import (
	"testing"
	"time"
)

// BenchmarkFirst measures from the payload to the end of /bin/true, without the
// namespaces: the part that PID 1 adds to a run.
func BenchmarkFirst(b *testing.B) {
	var total, started time.Duration
	for b.Loop() {
		j := ready(b, options{flags: Once})
		p := job("/bin/true")
		begin := time.Now()
		if err := j.Exec(1, &p, j.files(options{})); err != nil {
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

// BenchmarkExec measures one /bin/true after another in a PID 1 that lives on.
func BenchmarkExec(b *testing.B) {
	j := ready(b, options{})
	p := job("/bin/true")
	for n := uint32(1); b.Loop(); n++ {
		j.SetReadDeadline(time.Now().Add(time.Minute))
		if err := j.Exec(n, &p, j.files(options{})); err != nil {
			b.Fatal(err)
		}
		for _, want := range []Type{Started, Exited} {
			if r, err := j.Next(); err != nil || r.Type != want || r.Job != n {
				b.Fatal(r, err)
			}
		}
	}
}
