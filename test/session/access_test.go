package session

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// asker is a program that a policy may name, and what it was asked is in the file beside.
func asker(t *testing.T, c *jail.Caller, name, answer string) (path, asked string) {
	t.Helper()
	asked = filepath.Join(c.Home, name+".asked")
	path = c.File(t, name, "#!/bin/sh\ncat >> "+asked+"\n"+answer+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path, asked
}

const (
	yes = `echo '{"allow":true,"by":"ann","reason":"reviewed"}'`
	no  = `echo '{"allow":false,"reason":"not that"}'`
)

// What a rule names waits for a yes, however it is called; all else is not asked for.
func TestApproval(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		path, asked := asker(t, c, "ask", no)
		c = c.WithPolicy(t, "approve.toml", fmt.Sprintf(`version = 1
extends = "builtin"
[approve]
command = [%q]
rules = [{ argv = ["id", "-u"] }, { paths = [".envrc"] }, { capabilities = ["export"] }]
`, path))
		for _, argv := range [][]string{{"id", "-u"}, {"/usr/bin/id", "-u"}, {"../usr/bin/id", "-u"}, {"env", "id", "-u"}, {"env", "-S", "id -u"}, {"sh", "-c", "id -u"}, {"id", "-z", "-u"}} {
			c.Run(t, jail.Job{Argv: argv}).Refused(t, 126, jailer.CodeApprovalDenied, "not that")
		}
		c.Run(t, jail.Job{Argv: []string{"id", "-g"}}).Exited(t, 0)
		create(t, c, "asks")
		in(t, c, "asks", jail.Job{Argv: []string{"id", "-u"}}).Refused(t, 126, jailer.CodeApprovalDenied, "not that")
		fails(t, do(t, c, "start", "asks", "--", "env", "id", "-u"), 1, "not that")
		fails(t, fsVerb(t, c, "x", "put", "asks", "a/.envrc", "--parents"), 1, "not that")
		fails(t, fsVerb(t, c, "", "rm", "asks", ".envrc", "-r"), 1, "not that")
		fails(t, do(t, c, "import", "asks"), 1, "not that") // who knows where it writes
		fails(t, do(t, c, "export", "asks", "*"), 1, "not that")
		c.Run(t, jail.Job{Flags: []string{"--export", "*=" + filepath.Join(c.Home, "dest")}, Argv: []string{"true"}}).Refused(t, 126, jailer.CodeApprovalDenied, "not that")
		c.Run(t, jail.Job{Flags: []string{"--file", ".envrc=" + c.File(t, "envrc", "x")}, Argv: []string{"true"}}).Refused(t, 126, jailer.CodeApprovalDenied, "not that")
		in(t, c, "asks", jail.Job{Sh: "ls -A"}).Refused(t, 126, jailer.CodeApprovalDenied, "not that") // a shell may run anything
		in(t, c, "asks", jail.Job{Argv: []string{"ls", "-A"}}).Said(t, "")
		ok(t, fsVerb(t, c, "x", "put", "asks", "plain"))
		// A link of the jail's leads no verb past the rule.
		in(t, c, "asks", jail.Job{Argv: []string{"mkdir", "dir"}}).Exited(t, 0)
		in(t, c, "asks", jail.Job{Argv: []string{"ln", "-s", "dir", "link"}}).Exited(t, 0)
		fails(t, fsVerb(t, c, "x", "put", "asks", "link/f"), 1, "has a link that is not followed")
		fails(t, fsVerb(t, c, "", "mkdir", "asks", "link/d", "-p"), 1, "has a link that is not followed")
		fails(t, fsVerb(t, c, "", "rm", "asks", "link/f"), 1, "has a link that is not followed")
		b, err := os.ReadFile(asked)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), "\n"); n != 16 {
			t.Errorf("asked %d times:\n%s", n, b)
		}
		for _, want := range []string{`"operation":"run"`, `"operation":"exec","uid"`, `"operation":"start"`, `"operation":"fs"`, `"paths":["a/.envrc"]`, `"operation":"import"`, `"operation":"export"`, `"rule":2`} {
			if !strings.Contains(string(b), want) {
				t.Errorf("no %s in\n%s", want, b)
			}
		}
		asks, answers, started := 0, 0, 0
		for _, e := range c.Events(t) {
			switch e.Type {
			case "approval.asked":
				asks++
			case "approval.answered":
				answers++
				if e.Data["approved"] != false || e.Data["reason"] != "not that" {
					t.Error(e.Line)
				}
			case "exec.started", "process.started":
				started++
			}
		}
		if asks != 16 || answers != 16 || started != 4 {
			t.Errorf("%d asked, %d answered, %d started", asks, answers, started)
		}

		// A yes, that takes its time: no clock runs meanwhile.
		path, _ = asker(t, c, "ask-yes", "sleep 2; "+yes)
		c = c.WithPolicy(t, "yes.toml", fmt.Sprintf("version = 1\nextends = \"builtin\"\n[approve]\ncommand = [%q]\nrules = [{ argv = [\"id\"] }]\n", path))
		r := c.Run(t, jail.Job{Flags: []string{"--timeout", "1s", "--id", "approved"}, Argv: []string{"id", "-u"}}).Said(t, "1000\n")
		if r.SetupMs == nil || *r.SetupMs >= 2000 {
			t.Errorf("set-up took %v ms, with the approval", r.SetupMs)
		}
		if es := c.Events(t, "--session", "approved", "--type", "approval.answered"); len(es) != 1 || es[0].Data["by"] != "ann" || es[0].Data["reason"] != "reviewed" || es[0].Data["approved"] != true {
			t.Errorf("%v", es)
		}
		create(t, c, "waits")
		in(t, c, "waits", jail.Job{Flags: []string{"--timeout", "1s"}, Argv: []string{"id", "-u"}}).Said(t, "1000\n")
	})
}

// Whoever is interrupted, or deleted, while somebody is asked, is not held up.
func TestApprovalInterrupted(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		path, asked := asker(t, c, "ask", "sleep 1000")
		c = c.WithPolicy(t, "approve.toml", fmt.Sprintf("version = 1\nextends = \"builtin\"\n[approve]\ncommand = [%q]\nrules = [{ argv = [\"id\"] }]\n", path))
		waiting := func(n int) {
			t.Helper()
			if !jail.Eventually(prompt, func() bool {
				b, _ := os.ReadFile(asked)
				return strings.Count(string(b), "\n") == n
			}) {
				t.Fatal("nobody was asked")
			}
		}
		cmd := c.Command(t.Context(), "run", "--", "id")
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waiting(1)
		for range 2 {
			cmd.Process.Signal(syscall.SIGTERM)
			time.Sleep(50 * time.Millisecond)
		}
		if err := cmd.Wait(); err == nil {
			t.Errorf("it ran: %s", said.String())
		}
		create(t, c, "gone")
		cmd = c.Command(t.Context(), "exec", "gone", "--", "id")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waiting(2)
		ok(t, do(t, c, "delete", "gone"))
		if err := cmd.Wait(); err == nil {
			t.Error("it ran")
		}
		if es := c.Events(t, "--type", "exec.started"); len(es) != 0 {
			t.Errorf("%v", es)
		}
	})
}

// Owners, and the program that says who may do what: on each verb.
func TestAuthorize(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		text := func(owner string, command string) string {
			return fmt.Sprintf("version = 1\nextends = \"builtin\"\n[authorize]\ncommand = [%q]\n%s", command, owner)
		}
		path, asked := asker(t, c, "may", `[ -e `+c.Home+`/closed ] && `+no+` || `+yes)
		me := c.WithPolicy(t, "me.toml", text(fmt.Sprintf("[[owners]]\nuid = %d\ntenants = [\"acme\"]\nprofiles = [\"default\"]\n", c.UID), path))
		other := c.WithPolicy(t, "other.toml", text(fmt.Sprintf("[[owners]]\nuid = %d\nprofiles = [\"*\"]\n", c.UID+1), path))
		other.Run(t, jail.Job{Argv: []string{"true"}}).Refused(t, 126, jailer.CodeUnauthorized, "not among the owners")
		me.Run(t, jail.Job{Argv: []string{"true"}}).Refused(t, 126, jailer.CodeUnauthorized, "has to name its tenant")
		me.Run(t, jail.Job{Flags: []string{"--tenant", "other"}, Argv: []string{"true"}}).Refused(t, 126, jailer.CodeUnauthorized, `tenant "other"`)
		dir := c.DataDir(t)
		me.Run(t, jail.Job{Flags: []string{"--workspace", "other/x", "--data-dir", dir}, Argv: []string{"true"}}).Refused(t, 126, jailer.CodeUnauthorized, `tenant "other"`)
		if _, err := os.Lstat(asked); err == nil {
			t.Error("the program was asked for what the policy refuses")
		}
		me.Run(t, jail.Job{Flags: []string{"--tenant", "acme"}, Argv: []string{"true"}}).Exited(t, 0)
		create(t, me, "auth", "--tenant", "acme", "--workspace", "acme/x", "--data-dir", dir)
		ok(t, do(t, me, "start", "auth", "--name", "p", "--", "sleep", "1000"))
		c.File(t, "closed", "")
		for _, v := range [][]string{
			{"exec", "auth", "--", "true"},
			{"start", "auth", "--", "true"},
			{"ps", "auth"},
			{"logs", "auth", "p"},
			{"stop", "auth", "p"},
			{"kill", "auth", "p"},
			{"fs", "ls", "auth"},
			{"fs", "cat", "auth", "f"},
			{"fs", "put", "auth", "f"},
			{"fs", "rm", "auth", "f"},
			{"fs", "mkdir", "auth", "d"},
			{"export", "auth", "*"},
			{"import", "auth"},
			{"delete", "auth"},
		} {
			want := 1
			if v[0] == "exec" {
				want = 126
			}
			fails(t, do(t, me, v...), want, "authorize command says no", "not that")
		}
		me.Run(t, jail.Job{Flags: []string{"--tenant", "acme"}, Argv: []string{"true"}}).Refused(t, 126, jailer.CodeUnauthorized, "not that")
		fails(t, do(t, me, "create", "--tenant", "acme"), 1, "not that")
		fails(t, do(t, me, "workspace", "rm", "acme/x", "--data-dir", dir, "--policy", me.Policy), 1, "not that")
		if es := c.Events(t, "--session", "auth", "--type", "policy.denied"); len(es) != 14 {
			t.Errorf("%d refusals in the log", len(es))
		}
		os.Remove(filepath.Join(c.Home, "closed"))
		ok(t, do(t, me, "delete", "auth"))
		fails(t, do(t, other, "workspace", "rm", "acme/x", "--data-dir", dir, "--policy", other.Policy), 1, "not among the owners")
		ok(t, do(t, me, "workspace", "rm", "acme/x", "--data-dir", dir, "--policy", me.Policy))
	})
}

// As many sessions as the policy says, whoever comes at once.
func TestMaxSessions(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		c = c.WithPolicy(t, "max.toml", "version = 1\nextends = \"builtin\"\n[sessions]\nmax_sessions = 3\nmax_sessions_per_tenant = 2\n")
		var work sync.WaitGroup
		var mu sync.Mutex
		codes := map[int]int{}
		for i := range 6 {
			work.Go(func() {
				o := c.Do(t, jail.Job{Raw: true}, "create", "--json", "--id", fmt.Sprint("m", i), "--tenant", "acme")
				mu.Lock()
				defer mu.Unlock()
				if codes[o.Code]++; o.Code != 0 && !strings.Contains(o.Stdout, `"code":"session_limit"`) {
					t.Errorf("%s", o)
				}
			})
		}
		work.Wait()
		if codes[0] != 2 || codes[1] != 4 {
			t.Errorf("%v", codes)
		}
		o := c.Run(t, jail.Job{Flags: []string{"--tenant", "acme"}, Argv: []string{"true"}})
		if o.Code != 125 || o.Err == nil || o.Err.Code != jailer.CodeSessionLimit || !o.Err.Retryable || !strings.Contains(o.Err.Message, "tenant acme") {
			t.Errorf("%s", o)
		}
		c.Run(t, jail.Job{Argv: []string{"true"}}).Exited(t, 0) // the third place
		create(t, c, "third")
		if o := c.Run(t, jail.Job{Argv: []string{"true"}}); o.Err == nil || o.Err.Code != jailer.CodeSessionLimit {
			t.Errorf("%s", o)
		}
		ok(t, do(t, c, "delete", "third"))
		c.Run(t, jail.Job{Argv: []string{"true"}}).Exited(t, 0)
	})
}

// A session's list of executables is each command's, and each process's.
func TestSessionExecutables(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
		need.Feature(t, "landlock", int(abi) >= 1, "the kernel has no Landlock, or it is off")
		c = c.WithPolicy(t, "exec.toml", "version = 1\nextends = \"builtin\"\n[profiles.default]\nexec = { allow = [\"/usr/bin/env\", \"/usr/bin/sleep\"] }\n")
		create(t, c, "listed")
		in(t, c, "listed", jail.Job{Argv: []string{"id"}}).Refused(t, 126, jailer.CodeCommandNotExecutable)
		if o := in(t, c, "listed", jail.Job{Argv: []string{"env", "id"}}); o.Code != 126 || o.Out() != "" {
			t.Errorf("%s", o)
		}
		in(t, c, "listed", jail.Job{Argv: []string{"env", "sleep", "0"}}).Exited(t, 0)
		ok(t, do(t, c, "start", "listed", "--name", "p", "--", "sleep", "1000"))
		fails(t, do(t, c, "start", "listed", "--", "id"), 1, "permission denied")
		ok(t, do(t, c, "kill", "listed", "p"))
	})
}
