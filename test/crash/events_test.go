package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// balanced: whatever was killed, after a gc each start in the event log has one
// finish, and each session one end. It gives the sessions that gc removed, and how
// many of these had begun a command, which gc finished.
func balanced(t *testing.T, c *jail.Caller) (reaped, lost int) {
	t.Helper()
	type session struct{ created, started, finished, destroyed, reaped int }
	sessions := map[string]*session{}
	for _, e := range c.Events(t) {
		s := sessions[e.SessionID]
		if s == nil {
			s = &session{}
			sessions[e.SessionID] = s
		}
		switch e.Type {
		case "session.created":
			s.created++
		case "exec.started":
			s.started++
			if s.created != 1 || s.finished != 0 {
				t.Errorf("%s: started out of order: %+v", e.SessionID, *s)
			}
		case "exec.finished":
			s.finished++
			if s.started != 1 {
				t.Errorf("%s: finished and not started", e.SessionID)
			}
		case "session.destroyed":
			s.destroyed++
			if s.finished != s.started {
				t.Errorf("%s: destroyed before its command was finished", e.SessionID)
			}
		case "gc.reaped":
			s.reaped++
		}
	}
	started := 0
	for id, s := range sessions {
		if s.created > 1 || s.started > 1 || s.started != s.finished || s.created != s.destroyed || s.reaped > 1 {
			t.Errorf("%s: %+v", id, *s)
		}
		started += s.started
		reaped += s.reaped
		if s.started > 0 && s.reaped > 0 {
			lost++
		}
	}
	t.Logf("%d sessions, %d commands, of which %d lost their launcher; %d reaped", len(sessions), started, lost, reaped)
	return reaped, lost
}

// gc is killed at random moments too.
func TestKillGC(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		c = private(t, c)
		id := fmt.Sprintf("killgc-%d-%s-", os.Getpid(), c.Name)
		n, rounds := need.Times(4), need.Times(3)
		crashed(t, c, id+"whole-", n)
		began := time.Now()
		if code, _ := gc(t, c); code != 0 {
			t.Errorf("gc: exit status %d", code)
		}
		whole := time.Since(began) // of a collector that nobody kills
		sessions, killed, halfway := n, 0, 0
		// A collector may be through before it is killed, a few times.
		for round := 0; round < rounds || halfway == 0 && round < 20; round++ {
			crashed(t, c, fmt.Sprintf("%s%d-", id, round), n)
			sessions += n
			for range need.Times(6) {
				after := time.Duration(rand.Int64N(int64(whole)))
				cmd := c.Command(t.Context(), "gc")
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				began, before := time.Now(), len(c.States(t))
				kill(t, cmd, func() bool { return time.Since(began) >= after })
				if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() && before > 0 {
					killed++
					if len(c.States(t)) > 0 {
						halfway++
					}
				}
			}
		}
		if code, _ := gc(t, c); code != 0 {
			t.Errorf("gc: exit status %d", code)
		}
		c.NothingLeft(t, id+"*")
		if reaped, lost := balanced(t, c); lost != sessions || reaped != lost {
			t.Errorf("%d sessions were crashed; gc says that it removed %d, %d with a command", sessions, reaped, lost)
		}
		t.Logf("%d collectors were killed with work to do, %d left some", killed, halfway)
		if killed == 0 || halfway == 0 {
			t.Error("the kills hit nothing")
		}
	})
}
