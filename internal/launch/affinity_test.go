package launch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jailer-project/jailer/limits"
)

// bitsOf lists the bits of a mask.
func bitsOf(mask []byte) []int {
	var out []int
	for i := range len(mask) * 8 {
		if mask[i/8]&(1<<(i%8)) != 0 {
			out = append(out, i)
		}
	}
	return out
}

// A mask has as many CPUs as the quota touches, all of them the job's.
func TestAffinity(t *testing.T) {
	cpus := []int{2, 5, 70}
	for milli, want := range map[limits.CPUs]int{1: 1, 1000: 1, 1001: 2, 2000: 2, 3000: 0, 9000: 0} {
		for range 20 {
			got := bitsOf(affinity(milli, cpus))
			if len(got) != want || slices.ContainsFunc(got, func(n int) bool { return !slices.Contains(cpus, n) }) {
				t.Fatalf("%v CPUs of %v: %v", milli, cpus, got)
			}
		}
	}
	if affinity(1000, nil) != nil {
		t.Error("a mask of nothing")
	}
}

// A service's budget is that of its session's whole life on all its CPUs.
func TestSoonest(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		rest time.Duration
		cpus limits.CPUs
		want time.Duration
	}{
		{day, 1000, day},
		{1024 * day, 1024_000, day},
		{time.Second, 500, 2 * time.Second},
		{day, 1, 1000 * day},
		{time.Microsecond, 1000, 5 * time.Millisecond},
		{0, 1000, 0},
		{-day, 1000, 0},
	} {
		if got := soonest(c.rest, c.cpus); got != c.want {
			t.Errorf("%v of %v: %v, want %v", c.rest, c.cpus, got, c.want)
		}
	}
}

// The kernel takes no mask of CPUs outside the cpuset.
func TestCPUs(t *testing.T) {
	r := new(Jail)
	own := r.cpus("4000-4001")
	if len(own) == 0 || slices.Contains(own, 4000) {
		t.Errorf("without the controller: %v", own)
	}
	r.held = []string{"cpuset"}
	if got := r.cpus("4000-4001"); !slices.Equal(got, []int{4000, 4001}) {
		t.Errorf("where the launcher may not run: %v", got)
	}
	last := own[len(own)-1]
	set, _ := limits.ParseCPUSet(fmt.Sprintf("%d,4000", last))
	if got := r.cpus(set); !slices.Equal(got, []int{last}) {
		t.Errorf("of %s, where the launcher may run on %v: %v", set, own, got)
	}
}
