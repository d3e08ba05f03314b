package session

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// What the policy refuses in a session is in the log, and starts nothing there.
func TestDenied(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "denied", "--memory", "64M")
		in(t, c, "denied", jail.Job{Flags: []string{"--memory", "65M"}, Argv: []string{"true"}}).Refused(t, 126, jailer.CodePolicyDenied, "the session has 64M")
		fails(t, do(t, c, "start", "denied", "--memory", "65M", "--", "true"), 1, "the session has 64M")
		var fields []string
		for _, e := range c.Events(t, "--session", "denied") {
			switch e.Type {
			case "policy.denied":
				fields = append(fields, fmt.Sprint(e.Data["field"]))
			case "exec.started", "process.started":
				t.Errorf("%+v", e)
			}
		}
		if fmt.Sprint(fields) != "[limits.memory limits.memory]" {
			t.Errorf("%v", fields)
		}
	})
}

// A managed process has no deadline of its own, unless it was asked for; by the command
// line or by a request.
func TestProcessClocks(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "clocks", "--timeout", "1s", "--ttl", "10m")
		start(t, c, "clocks", "--name", "none", "--", "sleep", "1000")
		start(t, c, "clocks", "--name", "flag", "--timeout", "1s", "--", "sleep", "1000")
		o := c.Do(t, jail.Job{Raw: true, Input: `{"argv":["sleep","1000"],"limits":{"timeoutMs":1000}}`}, "start", "clocks", "--name", "request", "--request", "-")
		ok(t, o)
		if !jail.Eventually(need.Time(20*time.Second), func() bool {
			list := ps(t, c, "clocks")
			return list[1].Status == "exited" && list[2].Status == "exited"
		}) {
			t.Fatalf("%+v", ps(t, c, "clocks"))
		}
		for i, want := range []string{"", "timed_out", "timed_out"} {
			if p := ps(t, c, "clocks")[i]; p.Result != want {
				t.Errorf("%+v", p)
			}
		}
	})
}

// A command whose client was killed was aborted, and nothing of jailer's failed.
func TestClientKilled(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "left")
		mark := fmt.Sprintf("6%09d", os.Getpid())
		cmd := background(t, c, "exec", "left", "--", "sleep", mark)
		sleeps(t, mark)
		cmd.Process.Kill()
		running(t, c, "left", 0)
		for _, e := range c.Events(t, "--session", "left", "--type", "exec.finished") {
			if e.Data["status"] != "aborted" || e.Data["error"] != nil || e.Data["stdoutBytes"] != nil {
				t.Errorf("%+v", e)
			}
		}
	})
}

// Commands of a session have one uid, and can't read each other's environment all the
// same: each has a user namespace of its own (ptrace(2), PTRACE_MODE_READ_FSCREDS).
func TestOthersEnvironment(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "environ")
		secret, mark := fmt.Sprintf("secret-%d", os.Getpid()), fmt.Sprintf("7%09d", os.Getpid())
		background(t, c, "exec", "environ", "--env", "TOKEN="+secret, "--", "sleep", mark)
		sleeps(t, mark)
		o := in(t, c, "environ", jail.Job{Sh: `
for p in /proc/[0-9]*; do
	tr '\0' '\n' <$p/environ
	cat $p/mem | head -c 1
	ls $p/fd $p/cwd/ $p/root/
done 2>&1 | grep -a -e TOKEN -e denied; ls -d /proc/[0-9]* | wc -l`})
		if out := o.Out(); strings.Contains(out, "TOKEN") || strings.Count(out, "denied") < 5 {
			t.Error(o)
		}
	})
}

// sleeps waits until a command is there that sleeps for so many seconds; its client, and
// its process before the exec, have other names.
func sleeps(t testing.TB, mark string) {
	t.Helper()
	if !jail.Eventually(need.Time(20*time.Second), func() bool {
		return len(jail.Living(t, func(p jail.Process) bool { return p.Name == "sleep" && jail.Marked(mark)(p) })) > 0
	}) {
		t.Fatal("the command never ran")
	}
}
