package run

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

// Two jails at once: what the one does to its limits is not the other's matter.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	c := limited(t)
	quiet := start(t, c, []string{"--memory", "64M", "--pids", "8"}, `trap "exit 5" USR1; echo ready; while :; do sleep 0.2; done`)
	c.Run(t, jail.Job{Flags: []string{"--memory", "64M"}, Sh: "head -c 128M /dev/zero | tail -n 1; echo on"}).
		Ended(t, jailer.StatusOOMKilled, jailer.LimitMemory, 137)
	c.Run(t, jail.Job{Flags: []string{"--pids", "8", "--timeout", "2s"}, Sh: `f() { f | f & }; (f) 2>/dev/null & while :; do :; done`}).
		Ended(t, jailer.StatusTimedOut, jailer.LimitWall, 124)
	quiet.signal(t, syscall.SIGUSR1)
	if code, r := quiet.end(t); code != 5 || r.Status != jailer.StatusExited || len(r.LimitsHit) > 0 || *r.Usage.OOMKills != 0 {
		t.Errorf("exit status %d, %s, limitsHit %v, %d killed for memory", code, r.Status, r.LimitsHit, *r.Usage.OOMKills)
	}
}

// Twenty runs, four at a time, each with its own exit code and nothing left.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	c := limited(t)
	id := fmt.Sprintf("many-%d-", os.Getpid())
	var next atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := int(next.Add(1)); n <= 20; n = int(next.Add(1)) {
				o := c.Run(t, jail.Job{Flags: []string{"--id", id + fmt.Sprint(n)}, Sh: fmt.Sprintf("echo %d; exit %d", n, n)})
				if r := o.Result; r == nil || o.Code != n || o.Out() != fmt.Sprintln(n) || !o.Cgroup("memory") {
					t.Errorf("run %d:\n%s", n, o)
				}
			}
		})
	}
	all.Wait()
	c.NothingLeft(t, id+"*")
}
