package session

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

func start(t testing.TB, c *jail.Caller, id string, args ...string) (p process) {
	t.Helper()
	document(t, ok(t, do(t, c, append([]string{"start", id}, args...)...)), &p)
	return p
}

func ps(t testing.TB, c *jail.Caller, id string, flags ...string) (list []process) {
	t.Helper()
	document(t, ok(t, do(t, c, append([]string{"ps", id, "--json"}, flags...)...)), &list)
	return list
}

// Managed processes go on when nobody is there, and their end is kept.
func TestProcesses(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "proc")
		p := start(t, c, "proc", "--name", "quick", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
		if p.ID != "p1" || p.Name != "quick" || p.StartedAt.IsZero() {
			t.Errorf("%+v", p)
		}
		if !jail.Eventually(prompt, func() bool { return ps(t, c, "proc")[0].Status == "exited" }) {
			t.Fatalf("%+v", ps(t, c, "proc"))
		}
		if p = ps(t, c, "proc")[0]; *p.ExitCode != 3 || p.FinishedAt.Before(p.StartedAt) {
			t.Errorf("%+v", p)
		}
		if o := ok(t, do(t, c, "logs", "proc", "quick")); o.Stdout != "out\n" || o.Stderr != "" {
			t.Error(o)
		}
		if o := ok(t, do(t, c, "logs", "proc", "p1", "--stderr", "--tail", "3")); o.Stdout != "rr\n" {
			t.Error(o)
		}
		for range 3 {
			start(t, c, "proc", "--", "sleep", "1000")
		}
		fails(t, do(t, c, "start", "proc", "--", "true"), 1, "4 managed processes", "jailer ps --prune proc")
		ps(t, c, "proc", "--prune")
		if list := ps(t, c, "proc"); len(list) != 3 {
			t.Errorf("%+v", list)
		}
		start(t, c, "proc", "--", "true")
		fails(t, do(t, c, "logs", "proc", "quick"), 1, "no process")
		ok(t, do(t, c, "delete", "proc"))
		c.NothingLeft(t, "proc")
		destroyed(t, c, "proc", "requested")
	})
}

// A request's deadline is one of a managed process too.
func TestProcessDeadline(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "deadline")
		for i, limits := range []string{`{"timeoutMs":500}`, `{"cpuTimeMs":500}`} {
			request := `{"argv":["sh","-c","while :; do :; done"],"limits":` + limits + `}`
			ok(t, c.Do(t, jail.Job{Raw: true, Input: request}, "start", "deadline", "--request", "-"))
			if !jail.Eventually(prompt, func() bool { return ps(t, c, "deadline")[i].Result == "timed_out" }) {
				t.Errorf("%s: %+v", limits, ps(t, c, "deadline")[i])
			}
		}
		ok(t, do(t, c, "delete", "deadline"))
	})
}

// stop: TERM, the grace, then the whole tree.
func TestStop(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "stop")
		var p process
		start(t, c, "stop", "--name", "polite", "--", "sh", "-c", "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
		said(t, c, "stop", "polite", "ready\n")
		document(t, ok(t, do(t, c, "stop", "stop", "polite", "--grace", "20s")), &p)
		if p.ExitCode == nil || *p.ExitCode != 5 {
			t.Errorf("%+v", p)
		}
		// A TERM before is no reason to leave the grace out.
		start(t, c, "stop", "--name", "twice", "--", "sh", "-c", `n=; trap 'n=x$n; echo $n; [ $n = xx ] && exit 6' TERM; echo ready; while :; do sleep 0.1; done`)
		said(t, c, "stop", "twice", "ready\n")
		ok(t, do(t, c, "kill", "stop", "twice", "--signal", "TERM"))
		said(t, c, "stop", "twice", "ready\nx\n") // two at once are one
		document(t, ok(t, do(t, c, "stop", "stop", "twice", "--grace", "20s")), &p)
		if p.ExitCode == nil || *p.ExitCode != 6 || p.Result != "exited" {
			t.Errorf("%+v", p)
		}
		mark := fmt.Sprintf("4%09d", os.Getpid())
		start(t, c, "stop", "--name", "deaf", "--", "sh", "-c", "trap '' TERM; setsid sleep "+mark+" & echo ready; while :; do sleep 0.1; done")
		said(t, c, "stop", "deaf", "ready\n")
		began := time.Now()
		document(t, ok(t, do(t, c, "stop", "stop", "deaf", "--grace", "1s")), &p)
		if took := time.Since(began); p.Result != "aborted" || took < time.Second || took > time.Second+prompt {
			t.Errorf("%+v after %v", p, took)
		}
		jail.Gone(t, 0, jail.Marked(mark))
		start(t, c, "stop", "--name", "killed", "--", "sleep", "1000")
		ok(t, do(t, c, "kill", "stop", "killed", "--signal", "USR1"))
		if !jail.Eventually(prompt, func() bool { return ps(t, c, "stop")[3].Status == "exited" }) {
			t.Fatalf("%+v", ps(t, c, "stop"))
		}
		if p := ps(t, c, "stop")[3]; p.Signal == nil || *p.Signal != "SIGUSR1" {
			t.Errorf("%+v", p)
		}
		fails(t, do(t, c, "kill", "stop", "killed", "--signal", "NOSUCH"), 2, "no signal")
	})
}

// A flood against the ring, with a follower that never reads: the end is kept, the
// rest is counted, and the supervisor stays small.
func TestLogFlood(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "flood")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		flood := int64(need.Times(1 << 30))
		start(t, c, "flood", "--", "sh", "-c", fmt.Sprintf("yes 0123456789abcde | head -c %d; echo; echo the end", flood))
		deaf := c.Command(t.Context(), "logs", "flood", "p1", "--follow")
		deaf.Stdout = w
		if err := deaf.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		defer func() { deaf.Process.Kill(); deaf.Wait() }()
		if !jail.Eventually(3*prompt, func() bool { return ps(t, c, "flood")[0].Status == "exited" }) {
			t.Fatalf("%+v", ps(t, c, "flood"))
		}
		p := ps(t, c, "flood")[0]
		if want := flood + 9; p.StdoutBytes != want || p.StdoutLost != want-1<<20 {
			t.Errorf("%+v", p)
		}
		o := ok(t, do(t, c, "logs", "flood", "p1"))
		if len(o.Stdout) != 1<<20 || !strings.HasSuffix(o.Stdout, "\nthe end\n") || !strings.Contains(o.Stderr, fmt.Sprint(p.StdoutLost, " bytes")) {
			t.Errorf("%d bytes:\n%s", len(o.Stdout), o)
		}
		if size := pss(t, supervisor(t, c, "flood")); size > 32<<20 {
			t.Errorf("the supervisor has %d bytes", size)
		}
	})
}

// said waits until a managed process has said so.
func said(t testing.TB, c *jail.Caller, id, process, want string) {
	t.Helper()
	var got string
	if !jail.Eventually(need.Time(10*time.Second), func() bool {
		got = do(t, c, "logs", id, process).Stdout
		return got == want
	}) {
		t.Fatalf("%q, want %q", got, want)
	}
}
