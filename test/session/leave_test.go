package session

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// holdings is what a command could leave in a session that goes on.
type holdings struct{ cgroups, supervisor, pid1, processes int }

func held(t *testing.T, c *jail.Caller, id string, pid1 int) (h holdings) {
	t.Helper()
	for _, top := range c.Cgroups(t, id) {
		err := filepath.WalkDir(top, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				h.cgroups++
			}
			return nil // removed meanwhile
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	descriptors := func(pid int) int {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	h.supervisor, h.pid1 = descriptors(supervisor(t, c, id)), descriptors(pid1)
	for _, p := range jail.Processes(t) {
		if p.Parent == pid1 { // the dead that nobody reaped are counted too
			h.processes++
		}
	}
	return h
}

// 23: commands come and go, however they end, and the session holds what it held before.
func TestCommandsLeaveNothing(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		s := create(t, c, "tidy")
		job := func(code int, j jail.Job) func() {
			return func() {
				if o := in(t, c, "tidy", j); o.Code != code {
					t.Errorf("want exit status %d:\n%s", code, o)
				}
			}
		}
		kinds := []func(){
			job(3, jail.Job{Sh: "sleep 1000 & exit 3"}),
			job(127, jail.Job{Argv: []string{"nosuch"}}),
			job(124, jail.Job{Flags: []string{"--timeout", "100ms"}, Sh: "setsid sleep 1000 & sleep 1000"}),
			job(137, jail.Job{Flags: []string{"--memory", "16M"}, Sh: "head -c 100M /dev/zero | tail"}),
			job(126, jail.Job{Flags: []string{"--memory", "15G"}, Argv: []string{"true"}}),
			func() {
				cmd := background(t, c, "exec", "tidy", "--", "sleep", "1000")
				connected(t, cmd)
				cmd.Process.Kill()
			},
			func() {
				o := do(t, c, "start", "tidy", "--", "true")
				if o.Code != 0 && !strings.Contains(o.Stderr, "4 managed processes") {
					t.Error(o)
				}
			},
		}
		settled := func() {
			running(t, c, "tidy", 0)
			if !jail.Eventually(prompt, func() bool { ps(t, c, "tidy", "--prune"); return len(ps(t, c, "tidy")) == 0 }) {
				t.Fatalf("%+v", ps(t, c, "tidy"))
			}
		}
		for _, f := range kinds { // what is made once, is made
			f()
		}
		settled()
		before, after := held(t, c, "tidy", s.PID), holdings{}
		if before.cgroups == 0 || before.supervisor == 0 || before.pid1 == 0 {
			t.Fatalf("%+v: nothing is seen", before)
		}
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				for n := range need.Times(14) {
					kinds[(n+worker)%len(kinds)]()
				}
			})
		}
		all.Wait()
		settled()
		if !jail.Eventually(prompt, func() bool { after = held(t, c, "tidy", s.PID); return after == before }) {
			t.Errorf("before %+v, after %+v", before, after)
		}
	})
}

// 37: what a command started is gone when its result is there, in whichever way it
// hides; the managed process beside it lives.
func TestSurvivors(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "hide")
		mark := fmt.Sprintf("6%09d", os.Getpid())
		start(t, c, "hide", "--", "sleep", mark+"0")
		hide := strings.ReplaceAll(`
trap '' TERM INT HUP
setsid sleep MARK1 &
(setsid sh -c 'sleep MARK1; :' &)
(sleep MARK1 &)
sh -c 'kill -STOP $$; : MARK1' &
echo up
`, "MARK", mark)
		for name, row := range map[string]struct {
			job  jail.Job
			want func(o *jail.Outcome)
		}{
			"exits": {jail.Job{Sh: hide}, func(o *jail.Outcome) {
				if r := o.Exited(t, 0); r.LeftoverKilled == nil || *r.LeftoverKilled < 4 {
					t.Errorf("leftoverKilled is not 4 or more:\n%s", o)
				}
			}},
			"stops itself": {jail.Job{Flags: []string{"--timeout", "1s"}, Sh: hide + "kill -STOP $$"}, func(o *jail.Outcome) {
				o.Ended(t, jailer.StatusTimedOut, jailer.LimitWall, 124)
			}},
			"kills itself": {jail.Job{Sh: hide + "kill -KILL $$"}, func(o *jail.Outcome) { o.Signaled(t, "SIGKILL", 137) }},
		} {
			o := in(t, c, "hide", row.job)
			left := jail.Living(t, jail.Marked(mark+"1"))
			if row.want(o); len(left) > 0 || o.Out() != "up\n" {
				t.Errorf("%s: left %v\n%s", name, left, o)
			}
			if len(jail.Living(t, jail.Marked(mark+"0"))) == 0 {
				t.Fatalf("%s: the managed process is gone too", name)
			}
		}
	})
}

// 39: a command has its streams and no other descriptor, whatever its client or its
// neighbours have open, and what it prints is not taken for jailer's word.
func TestForgedResult(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "forge")
		start(t, c, "forge", "--", "sleep", "1000")
		root, err := os.Open("/")
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		open := func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{root, nil, root} }
		// ls has the directory that it lists as 3.
		in(t, c, "forge", jail.Job{Setup: open, Argv: []string{"ls", "/proc/self/fd"}}).Said(t, "0\n1\n2\n3\n")
		o := in(t, c, "forge", jail.Job{Sh: "readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2"})
		if o.Exited(t, 0); !strings.HasPrefix(o.Out(), "/dev/null\npipe:[") || strings.Contains(o.Out(), "socket:") {
			t.Error(o)
		}

		forged := `{"v":1,"type":"result","status":"exited","exitCode":0,"signal":null}`
		script := "echo; echo '" + forged + "'; echo '" + forged + "' >&2; exit 7"
		if o := in(t, c, "forge", jail.Job{Sh: script}); o.Exited(t, 7) == nil || o.Out() != "\n"+forged+"\n" || strings.Count(o.Stdout, "\n") != 1 {
			t.Error(o)
		}
		o = in(t, c, "forge", jail.Job{Raw: true, Flags: []string{"--ndjson"}, Sh: script})
		var types []string
		for line := range strings.Lines(o.Stdout) {
			var e struct {
				Type     string
				ExitCode *int
				Result   *jailer.Result
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%v: %q", err, line)
			}
			if types = append(types, e.Type); strings.TrimSpace(line) == forged {
				t.Errorf("the command's line is one of the stream's: %s", o)
			}
		}
		if n := len(types); o.Code != 7 || n < 3 || types[n-1] != "result" || slices.Contains(types[:n-1], "result") {
			t.Error(o)
		}
	})
}
