package session

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// 19, 22: somebody is killed while a verb is under way, whichever: no client waits for
// ever, no session loses more than the one that was killed, and one gc leaves nothing.
func TestKillVerb(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		whole := lifetime(t, c)
		verbs := [][]string{
			{"exec", "victim", "--", "true"},
			{"start", "victim", "--", "sleep", "1000"},
			{"stop", "victim", "service", "--grace", "50ms"},
			{"kill", "victim", "service"},
			{"logs", "victim", "service", "--follow"},
			{"ps", "victim", "--prune"},
			{"state", "victim"},
			{"list"},
			{"delete", "victim"},
		}
		for _, victim := range []struct {
			name  string
			whole bool // the session dies with it
			kill  func(cmd *exec.Cmd, supervisor, pid1 int)
		}{
			{"client", false, func(cmd *exec.Cmd, _, _ int) { cmd.Process.Kill() }},
			{"supervisor", true, func(_ *exec.Cmd, supervisor, _ int) { syscall.Kill(supervisor, syscall.SIGKILL) }},
			{"both", true, func(cmd *exec.Cmd, supervisor, _ int) {
				syscall.Kill(supervisor, syscall.SIGKILL)
				cmd.Process.Kill()
			}},
			{"PID 1", true, func(_ *exec.Cmd, _, pid1 int) { syscall.Kill(pid1, syscall.SIGKILL) }},
		} {
			for n := range max(kills(t), need.Times(len(verbs))) {
				verb := verbs[n%len(verbs)]
				what := fmt.Sprintf("%s killed in %s", victim.name, verb[0])
				mark := fmt.Sprintf("7%09d%d", os.Getpid(), n)
				s := create(t, c, "victim")
				parent := supervisor(t, c, "victim")
				start(t, c, "victim", "--name", "service", "--", "sh", "-c", "trap '' TERM; sleep "+mark+"; :")
				cmd := background(t, c, verb...)
				time.Sleep(rand.N(whole))
				victim.kill(cmd, parent, s.PID)
				hang := time.AfterFunc(prompt, func() {
					t.Errorf("%s: the client hangs", what)
					cmd.Process.Kill()
				})
				_ = cmd.Wait() // any status is right
				hang.Stop()
				switch {
				case victim.whole:
					jail.Gone(t, need.Time(time.Second), jail.Marked(mark))
				case verb[0] != "delete": // that one goes on, or never began
					in(t, c, "victim", jail.Job{Argv: []string{"echo", "alive"}}).Said(t, "alive\n")
				}
				ok(t, do(t, c, "gc"))
				ok(t, do(t, c, "delete", "victim"))
				jail.Gone(t, 0, jail.Marked(mark))
				c.NothingLeft(t, "victim")
				if t.Failed() {
					t.Fatal(what)
				}
			}
		}
		ends(t, c, "victim")
	})
}
