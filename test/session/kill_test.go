package session

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// kills is how many sessions are killed: KILLS says more.
func kills(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("KILLS"))
	if err != nil {
		return need.Times(10)
	}
	return max(n/4, 1)
}

// Somebody is killed at some moment: a client, the supervisor, PID 1. The jail is gone
// within a second where it should be, one gc leaves nothing, and each start has its end
// in the log.
func TestKill(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		for _, victim := range []struct {
			name  string
			whole bool // the session dies with it
			kill  func(t *testing.T, create, exec *os.Process, pid1 int)
		}{
			{"exec", false, func(t *testing.T, _, exec *os.Process, _ int) { exec.Kill() }},
			{"supervisor", true, func(t *testing.T, _, _ *os.Process, _ int) { syscall.Kill(supervisor(t, c, "victim"), syscall.SIGKILL) }},
			{"both", true, func(t *testing.T, _, exec *os.Process, _ int) {
				exec.Kill()
				syscall.Kill(supervisor(t, c, "victim"), syscall.SIGKILL)
			}},
			{"PID 1", true, func(t *testing.T, _, _ *os.Process, pid1 int) { syscall.Kill(pid1, syscall.SIGKILL) }},
		} {
			t.Run(victim.name, func(t *testing.T) {
				whole := lifetime(t, c) // of a client that nobody kills
				for n := range kills(t) {
					mark := fmt.Sprintf("5%09d%d", os.Getpid(), n)
					s := create(t, c, "victim")
					start(t, c, "victim", "--", "sleep", mark)
					cmd := background(t, c, "exec", "victim", "--", "sleep", mark)
					time.Sleep(rand.N(2 * whole))
					victim.kill(t, nil, cmd.Process, s.PID)
					if victim.whole {
						jail.Gone(t, need.Time(time.Second), jail.Marked(mark))
					} else {
						running(t, c, "victim", 0)
					}
					ok(t, do(t, c, "gc"))
					ok(t, do(t, c, "delete", "victim"))
					jail.Gone(t, 0, jail.Marked(mark))
					c.NothingLeft(t, "victim")
				}
				ends(t, c, "victim")
			})
		}
		t.Run("create", func(t *testing.T) {
			began := time.Now()
			create(t, c, "victim")
			whole := time.Since(began)
			ok(t, do(t, c, "delete", "victim"))
			kept := 0
			for n := range kills(t) {
				ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
				cmd := c.Command(ctx, "create", "--id", "victim")
				mark := fmt.Sprintf("VICTIM=%d-%d", os.Getpid(), n)
				cmd.Env = append(cmd.Env, mark) // its supervisor's too
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(rand.N(whole))
				cmd.Process.Kill()
				if err := cmd.Wait(); err == nil { // it was done
					ok(t, do(t, c, "delete", "victim"))
				}
				cancel()
				// What create started ends by itself: no gc is needed. Killed between the
				// answer and its own end, the session is there, and is the caller's.
				if !jail.Eventually(need.Time(3*time.Second), func() bool { return len(marked(t, mark)) == 0 }) {
					kept++
					if look(t, c, "victim").Status != "created" {
						t.Errorf("%+v", look(t, c, "victim"))
					}
					ok(t, do(t, c, "delete", "victim"))
				}
				c.NothingLeft(t, "victim")
			}
			t.Logf("%d of %d were answered before the kill", kept, kills(t))
			if kept > 1+kills(t)/5 {
				t.Errorf("%d of %d sessions outlived their create", kept, kills(t))
			}
			ends(t, c, "victim")
		})
	})
}

// marked are the processes that were started with a variable in their environment.
func marked(t *testing.T, variable string) []jail.Process {
	return jail.Living(t, func(p jail.Process) bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		return slices.Contains(strings.Split(string(b), "\x00"), variable)
	})
}

// lifetime is what a command in a session takes.
func lifetime(t *testing.T, c *jail.Caller) time.Duration {
	t.Helper()
	create(t, c, "victim")
	o := in(t, c, "victim", jail.Job{Argv: []string{"true"}})
	o.Exited(t, 0)
	ok(t, do(t, c, "delete", "victim"))
	return o.Took
}

// ends wants as many ends as beginnings of everything.
func ends(t *testing.T, c *jail.Caller, id string) {
	t.Helper()
	n := map[string]int{}
	for _, e := range c.Events(t, "--session", id) {
		n[e.Type]++
	}
	if n["session.created"] == 0 {
		t.Errorf("the log has nothing of %s", id)
	}
	for begin, end := range map[string]string{"session.created": "session.destroyed", "exec.started": "exec.finished", "process.started": "process.exited"} {
		if n[begin] != n[end] {
			t.Errorf("%d %s and %d %s", n[begin], begin, n[end], end)
		}
	}
}

// Many sessions at once: list is quick, and each costs little.
func TestMany(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		many := need.Times(100)
		var pids []int
		for i := range many {
			id := fmt.Sprintf("many%d", i)
			s := create(t, c, id)
			pids = append(pids, s.PID, supervisor(t, c, id))
		}
		began := time.Now()
		var list []state
		document(t, ok(t, do(t, c, "list", "--json")), &list)
		took := time.Since(began)
		var size int64
		for _, pid := range pids {
			size += pss(t, pid)
		}
		t.Logf("%d sessions: listed in %v, PSS of supervisor and PID 1 %d KiB each", many, took, size/int64(many)>>10)
		if len(list) != many || took > need.Time(5*time.Second) {
			t.Errorf("%d of %d listed in %v", len(list), many, took)
		}
		if each := size / int64(many); many >= 10 && each > 8<<20 {
			t.Errorf("%d bytes each, the goal is 8 MiB", each)
		}
	})
}
