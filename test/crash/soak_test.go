package crash

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// atOnce is how many jails run side by side.
const atOnce = 8

// 15, 23: many short runs, several at a time. None hangs, none fails, and the
// host is afterwards what it was.
func TestSoak(t *testing.T) {
	runs := count(t, "RUNS", 200)
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		c = private(t, c)
		id := fmt.Sprintf("soak-%d-%s-", os.Getpid(), c.Name)
		c.Run(t, jail.Job{Argv: []string{"true"}}).Exited(t, 0) // makes what stays: BASE, the state directory
		before := snapshot(t, c)

		var next, slowest atomic.Int64
		var all sync.WaitGroup
		began := time.Now()
		for range atOnce {
			all.Go(func() {
				for n := next.Add(1); n <= int64(runs) && !t.Failed(); n = next.Add(1) {
					o := c.Run(t, jail.Job{Flags: []string{"--id", id + fmt.Sprint(n)}, Argv: []string{"true"}})
					o.Exited(t, 0)
					for was := slowest.Load(); int64(o.Took) > was && !slowest.CompareAndSwap(was, int64(o.Took)); {
						was = slowest.Load()
					}
				}
			})
		}
		all.Wait()
		took := time.Since(began)
		t.Logf("%d runs, %d at a time: %v, %.1f a second, the slowest %v",
			runs, atOnce, took.Round(time.Millisecond), float64(runs)/took.Seconds(), time.Duration(slowest.Load()).Round(time.Millisecond))
		if d := time.Duration(slowest.Load()); d > need.Time(time.Minute) {
			t.Errorf("one run took %v", d)
		}

		c.NothingLeft(t, id+"*")
		if left := orphans(t); len(left) > 0 {
			t.Errorf("left processes: %v", left)
		}
		if left := jail.Living(t, ours(c, id)); len(left) > 0 {
			t.Errorf("left processes: %v", left)
		}
		if after := snapshot(t, c); after != before {
			t.Errorf("before %+v, after %+v", before, after)
		}
	})
}

// counts is what a leak would add to.
type counts struct {
	fds, mounts, files int
}

func snapshot(t *testing.T, c *jail.Caller) counts {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	state, err := os.ReadDir(c.StateDir())
	if err != nil {
		t.Fatal(err)
	}
	return counts{len(fds), len(jail.Mounts(t, c.Home)), len(state)}
}

// Root's jails have a host uid each, and give it back: with as many ids as jails
// at a time, each round finds all of them free.
func TestUIDsAreReturned(t *testing.T) {
	need.Root(t)
	c := jail.Root(t).WithPolicy(t, "few.toml", fmt.Sprintf("version = 1\nextends = \"builtin\"\n[root]\nuid_range = \"%d-%d\"\n", firstUID(), firstUID()+atOnce-1))
	for range 3 {
		var all sync.WaitGroup
		for range atOnce {
			all.Go(func() { c.Run(t, jail.Job{Sh: `sleep 0.5`}).Exited(t, 0) })
		}
		all.Wait()
	}
}
