package run

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// told is an event in the words that a test compares.
func told(e jail.Event) string {
	s := e.Type
	for _, k := range []string{"profile", "rootfs", "status", "exitCode", "signal", "limit", "ended", "limitsHit", "reason", "code", "field"} {
		if v, ok := e.Data[k]; ok {
			s += fmt.Sprintf(" %s=%v", k, v)
		}
	}
	if m, ok := e.Data["error"].(map[string]any); ok {
		s += fmt.Sprintf(" error=%v", m["code"])
	}
	return s
}

// What each run leaves in the event log, whole and in order.
func TestEvents(t *testing.T) {
	const created = "session.created profile=default rootfs=host"
	for _, c := range []struct {
		name string
		job  jail.Job
		want []string
	}{
		{"exits", jail.Job{Sh: "exit 3"}, []string{
			created, "exec.started", "exec.finished status=exited exitCode=3", "session.destroyed reason=requested",
		}},
		{"a signal", jail.Job{Sh: "kill -ABRT $$"}, []string{
			created, "exec.started", "exec.finished status=signaled signal=SIGABRT", "session.destroyed reason=requested",
		}},
		{"times out", jail.Job{Flags: []string{"--timeout", "1s"}, Sh: "sleep 300"}, []string{
			created, "exec.started", "limit.exceeded limit=wall ended=true",
			"exec.finished status=timed_out signal=SIGKILL limit=wall limitsHit=[wall]", "session.destroyed reason=requested",
		}},
		{"time to live", jail.Job{Flags: []string{"--timeout", "300s", "--ttl", need.Time(2 * time.Second).String()}, Sh: "sleep 300"}, []string{
			created, "exec.started", "limit.exceeded limit=ttl ended=true",
			"exec.finished status=expired signal=SIGKILL limit=ttl limitsHit=[ttl]", "session.destroyed reason=ttl",
		}},
		{"output is cut", jail.Job{Flags: []string{"--max-output", "4K"}, Sh: "head -c 10000 /dev/zero"}, []string{
			created, "exec.started", "limit.exceeded limit=output ended=false",
			"exec.finished status=exited exitCode=0 limitsHit=[output]", "session.destroyed reason=requested",
		}},
		{"no such command", jail.Job{Argv: []string{"no-such-command"}}, []string{
			created, "exec.started", "exec.finished error=command_not_found", "session.destroyed reason=error",
		}},
		{"over a ceiling", jail.Job{Flags: []string{"--memory", "1T"}, Sh: "true"}, []string{
			"policy.denied code=policy_denied field=limits.memory",
		}},
		{"not granted", jail.Job{Flags: []string{"--cap", "fs.read"}, Sh: "true"}, []string{
			"policy.denied code=policy_denied field=capabilities",
		}},
		{"not even a request", jail.Job{Flags: []string{"--tenant", "A B"}, Sh: "true"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			jail.Each(t, func(t *testing.T, caller *jail.Caller) {
				caller.Run(t, c.job)
				var got []string
				for _, e := range caller.Events(t) {
					got = append(got, told(e))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got  %q\nwant %q", got, c.want)
				}
			})
		})
	}
}

// The end of the process that it is done for ends a run, and the log says so.
func TestEventsOwner(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		owner := exec.Command("sleep", "300")
		if err := owner.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			jail.Eventually(need.Time(time.Minute), func() bool {
				b, _ := os.ReadFile(filepath.Join(c.StateDir(), ".priv", "events.ndjson"))
				return strings.Contains(string(b), "exec.started")
			})
			owner.Process.Kill()
			owner.Wait()
		}()
		c.Run(t, jail.Job{Flags: []string{"--timeout", "300s", "--owner-pid", fmt.Sprint(owner.Process.Pid)}, Sh: "sleep 300"})
		es := c.Events(t, "--type", "session.destroyed")
		if len(es) != 1 || es[0].Data["reason"] != "owner_exited" {
			t.Errorf("%v", es)
		}
	})
}

// Whom an event is about is in each; what a caller or a job had to say is in none.
func TestEventsHold(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		const secret = "Xyzzy7-secret"
		flags := []string{"--tenant", "acme", "--label", "job=42", "--label", "who=ann \"é\""}
		env := []string{"--env", "TOKEN=" + secret}
		c.Run(t, jail.Job{
			Flags: append(append([]string{"--id", "one", "--stdin", "-"}, flags...), env...), Input: secret,
			Argv: []string{"sh", "-c", "cat; echo $TOKEN; echo " + secret + " >&2; echo " + secret + " > file"},
		}).Exited(t, 0)
		c.Run(t, jail.Job{Flags: flags, Argv: []string{secret}})
		c.Run(t, jail.Job{Flags: append(append([]string{"--pids", "1000000"}, flags...), env...), Argv: []string{secret}})
		es := c.Events(t)
		if len(es) != 9 {
			t.Fatalf("%d events", len(es))
		}
		for _, e := range es {
			if e.Tenant != "acme" || e.Labels["job"] != "42" || e.Labels["who"] != `ann "é"` || e.UID != c.UID {
				t.Error(e.Line)
			}
		}
		log := filepath.Join(c.StateDir(), ".priv", "events.ndjson")
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), secret) {
			t.Errorf("the log has it:\n%s", b)
		}
		for path, mode := range map[string]os.FileMode{log: 0o600, filepath.Dir(log): 0o700 | os.ModeDir} {
			if st, err := os.Stat(path); err != nil || st.Mode() != mode {
				t.Errorf("%s: %v, want %v", path, st.Mode(), mode)
			}
		}
		if es := c.Events(t, "--session", "one", "--type", "exec.started", "--type", "exec.finished", "--since", "2"); len(es) != 1 || es[0].Type != "exec.finished" || es[0].Seq != 3 {
			t.Errorf("filtered: %v", es)
		}
	})
}

// The span that asked is in all that comes of it: the request's, else the
// environment's. The command doesn't have it, and an invalid one is ignored.
func TestEventsSpan(t *testing.T) {
	t.Parallel()
	c := jail.User(t)
	const env, asked = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	at := func(span string, j jail.Job) jail.Job {
		j.Env = []string{"TRACEPARENT=" + span}
		return j
	}
	request := `{"traceparent":"` + asked + `","argv":["true"]}`
	for _, row := range []struct {
		id, want string
		job      jail.Job
	}{
		{"environment", env, at(env, jail.Job{Sh: `test -z "$TRACEPARENT"`})},
		{"invalid", "", at(strings.ToUpper(env)+strings.Repeat("\x1b", 100), jail.Job{Argv: []string{"true"}})},
		{"request", asked, at(env, jail.Job{Flags: []string{"--request", "-"}, Input: request})},
		{"denied", env, at(env, jail.Job{Flags: []string{"--pids", "1000000"}, Argv: []string{"true"}})},
		{"denied-request", asked, at(env, jail.Job{Flags: []string{"--request", "-", "--pids", "1000000"}, Input: request})},
	} {
		before := c.Events(t)
		row.job.Flags = append(row.job.Flags, "--label", "id="+row.id)
		if o := c.Run(t, row.job); !strings.HasPrefix(row.id, "denied") && o.Exited(t, 0).TraceParent != row.want {
			t.Errorf("%s: the result has %q", row.id, o.Result.TraceParent)
		}
		es := c.Events(t)[len(before):]
		if len(es) == 0 {
			t.Errorf("%s: no events", row.id)
		}
		for _, e := range es {
			if e.TraceParent != row.want {
				t.Errorf("%s: %s", row.id, e.Line)
			}
		}
	}
}

// Several at once write one log, in one order.
func TestEventsTogether(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		const n = 6
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { c.Run(t, jail.Job{Flags: []string{"--id", fmt.Sprint("s", i)}, Argv: []string{"true"}}) })
		}
		all.Wait()
		es := c.Events(t)
		if len(es) != 4*n {
			t.Errorf("%d events", len(es))
		}
		for i := range n {
			var types []string
			for _, e := range es {
				if e.SessionID == fmt.Sprint("s", i) {
					types = append(types, e.Type)
				}
			}
			if want := []string{"session.created", "exec.started", "exec.finished", "session.destroyed"}; !slices.Equal(types, want) {
				t.Errorf("s%d: %v", i, types)
			}
		}
	})
}

func TestEventsFollow(t *testing.T) {
	c := jail.User(t)
	c.Run(t, jail.Job{Flags: []string{"--id", "one"}, Argv: []string{"true"}}).Exited(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
	defer cancel()
	cmd := c.Command(ctx, "events", "--follow", "--type", "session.destroyed")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(out)
	for _, id := range []string{"one", "two"} {
		if id != "one" {
			c.Run(t, jail.Job{Flags: []string{"--id", id}, Argv: []string{"true"}}).Exited(t, 0)
		}
		if !s.Scan() || !strings.Contains(s.Text(), `"sessionId":"`+id+`"`) {
			t.Fatalf("%s: %q", id, s.Text())
		}
	}
	cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

// sinkID begins the ids of c's jails, and of nobody else's.
func sinkID(c *jail.Caller) string { return fmt.Sprintf("sink-%d-%s-", os.Getpid(), c.Name) }

// sinkPolicy is c's policy with a log of its own.
func sinkPolicy(t *testing.T, c *jail.Caller, log, onError string) *jail.Caller {
	t.Helper()
	text := "version = 1\nextends = \"builtin\"\n"
	if c.Policy != "" {
		b, err := os.ReadFile(c.Policy)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	return c.WithPolicy(t, "sink.toml", fmt.Sprintf("%s\n[events]\npath = %q\nsink_on_error = %q\n", text, log, onError))
}

// sink is a path that is no log, and what the hint has.
type sink struct{ path, hint string }

// others is a file that isn't c's: root could open any.
func others(t *testing.T, c *jail.Caller) sink {
	t.Helper()
	if c.UID != 0 {
		return sink{"/etc/passwd", "[events] path"}
	}
	path := c.File(t, "others.ndjson", "")
	if err := os.Chown(path, 54321, 54321); err != nil {
		t.Fatal(err)
	}
	return sink{path, "an event log of his own"}
}

// A log that can't be written keeps a run from starting, unless the policy says
// that a warning is enough.
func TestEventsSinkRefused(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for name, at := range map[string]sink{
			"no directory":       {filepath.Join(c.Home, "none", "events.ndjson"), "install -d"},
			"open to others":     {c.File(t, "wide.ndjson", ""), "chmod 0640"},
			"another program's":  {c.File(t, "passwd", "root:x:0:0:root\n"), "move it away"},
			"somebody else's":    others(t, c),
			"not a regular file": {"/dev/null", "[events] path"},
		} {
			if name == "open to others" {
				if err := os.Chmod(at.path, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			o := sinkPolicy(t, c, at.path, "fail").Run(t, jail.Job{Flags: []string{"--id", sinkID(c) + "0"}, Argv: []string{"true"}})
			if o.Err == nil || o.Code != 125 || o.Err.Reason != "events.sink" || !strings.Contains(o.Err.Hint, at.hint) {
				t.Errorf("%s: %s", name, o)
			}
			strict := sinkPolicy(t, c, at.path, "fail")
			if o := strict.Do(t, jail.Job{Raw: true}, "doctor", "--policy", strict.Policy); o.Code == 0 || !strings.Contains(o.Stdout, "events.sink        no       needed") || !strings.Contains(o.Stdout, at.hint) {
				t.Errorf("%s: doctor foretells nothing: %s", name, o)
			}
			o = sinkPolicy(t, c, at.path, "fail").Run(t, jail.Job{Flags: []string{"--memory", "1T"}, Argv: []string{"true"}})
			if o.Err == nil || o.Code != 126 || !strings.Contains(o.Stderr, at.path) && !strings.Contains(o.Stderr, filepath.Dir(at.path)) {
				t.Errorf("%s, and denied: %s", name, o)
			}
			o = sinkPolicy(t, c, at.path, "log").Run(t, jail.Job{Flags: []string{"--id", sinkID(c) + "0"}, Argv: []string{"true"}})
			o.Exited(t, 0)
			if !strings.Contains(o.Stderr, "jailer: warning: an event is lost: ") {
				t.Errorf("%s: no warning: %s", name, o)
			}
			c.NothingLeft(t, sinkID(c)+"*")
		}
	})
}

// Where new directories are their group's too (umask 002), the hint's command mends
// it, for the log of the state directory as well.
func TestEventsBelowGroup(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		dir := filepath.Join(c.Home, "made by hand")
		if out, err := c.Exec(t.Context(), "/bin/sh", "-c", `umask 002; mkdir "$0"`, dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		job := jail.Job{Flags: []string{"--state-dir", filepath.Join(dir, "state")}, Argv: []string{"true"}}
		o := c.Run(t, job)
		o.Refused(t, 125, jailer.CodeInternal, dir, "writable by its group", "(mode 0775)", "--state-dir")
		if o.Err.Reason != "events.sink" {
			t.Errorf("the reason is %q", o.Err.Reason)
		}
		// Root's own may be what others work in: nothing says to close it.
		fix, _, _ := strings.Cut(o.Err.Hint, ", or ")
		if want := "chmod g-w '" + dir + "'"; c.UID != 0 && fix != want || c.UID == 0 && strings.Contains(o.Err.Hint, "chmod") {
			t.Errorf("the hint is %q", o.Err.Hint)
		} else if c.UID == 0 {
			fix = want
		}
		if out, err := c.Exec(t.Context(), "/bin/sh", "-c", fix).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		c.Run(t, job).Exited(t, 0)
	})
}

// The log has room for some of the records of a run alone. What is missing is
// written by gc, once there is room.
func TestEventsSinkFull(t *testing.T) {
	need.Program(t, "prlimit")
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		// The limit is one on every file that the launcher writes, the copy of the
		// program in memory too: the log is longer than that.
		var fill strings.Builder
		for i := range 400 {
			fmt.Fprintf(&fill, `{"v":1,"seq":%d,"type":"fill","data":%q}`+"\n", i+100, strings.Repeat("x", 60<<10))
		}
		log := c.File(t, "events.ndjson", fill.String())
		strict := sinkPolicy(t, c, log, "fail")
		run := func(c *jail.Caller, id string, room int) *jail.Outcome {
			t.Helper()
			st, err := os.Stat(log)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
			defer cancel()
			cmd := c.Command(ctx, "run", "--id", id, "--json", "--", "echo", "it ran")
			args := append([]string{fmt.Sprintf("--fsize=%d:", st.Size()+int64(room)), "--"}, cmd.Args...)
			return jail.Finish(t, jail.Job{}, c.Exec(ctx, need.Program(t, "prlimit"), args...))
		}
		types := func(c *jail.Caller, id string) string {
			var s []string
			for _, e := range c.Events(t, "--session", id) {
				s = append(s, e.Type)
			}
			return strings.Join(s, " ")
		}
		run(strict, sinkID(c)+"0", 1<<20).Exited(t, 0)
		var length []int
		for _, e := range strict.Events(t, "--session", sinkID(c)+"0") {
			length = append(length, len(e.Line))
		}
		if len(length) != 4 {
			t.Fatalf("lines of %v bytes", length)
		}

		const reaped = " gc.reaped session.destroyed"
		for i, want := range []string{"", "session.created", "session.created exec.started"} {
			id, room := fmt.Sprint(sinkID(c), i+1), 40
			for _, n := range length[:i] {
				room += n
			}
			o := run(strict, id, room)
			ran := i == 2
			if o.Code != 125 || (o.Result != nil) != ran || strings.Contains(o.Stdout, "it ran") != ran {
				t.Fatalf("room for %d: %s", i, o)
			}
			e := o.Err
			if ran {
				e = o.Result.Error
			}
			if e == nil || e.Reason != "events.sink" || !strings.Contains(o.Stderr, "file too large") {
				t.Errorf("room for %d: %s", i, o)
			}
			if got := types(strict, id); got != want {
				t.Errorf("room for %d: %s", i, got)
			}
			if ran {
				want += " exec.finished"
			}
			if i > 0 {
				want += reaped
			}
			if len(c.States(t)) != min(i, 1) {
				t.Errorf("room for %d: left %v", i, c.States(t))
			}
			for range 2 {
				if o := c.Do(t, jail.Job{Raw: true}, "gc"); o.Code != 0 {
					t.Error(o)
				}
				if got := types(strict, id); got != want {
					t.Errorf("room for %d, after gc: %s, want %s", i, got, want)
				}
				for _, e := range strict.Events(t, "--session", id, "--type", "exec.finished") {
					if ran && !strings.Contains(e.Line, `"events.lost"`) {
						t.Errorf("its launcher was not lost: %s", e.Line)
					}
				}
			}
			c.NothingLeft(t, sinkID(c)+"*")
		}

		lax := sinkPolicy(t, c, log, "log")
		id := sinkID(c) + "9"
		o := run(lax, id, 40)
		o.Exited(t, 0)
		if strings.Count(o.Stderr, "an event is lost") != 2 || types(lax, id) != "" {
			t.Errorf("%s\n%s", o, types(lax, id))
		}
		c.NothingLeft(t, sinkID(c)+"*")
	})
}

// killedAtWork kills the launcher of a command that runs.
func killedAtWork(t *testing.T, c *jail.Caller, log, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
	defer cancel()
	cmd := c.Command(ctx, "run", "--id", id, "--timeout", "300s", "--", "sh", "-c", "echo at it; sleep 300")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started := make([]byte, len("at it"))
	_, err = io.ReadFull(out, started)
	cmd.Process.Kill()
	cmd.Wait()
	if b, _ := os.ReadFile(log); err != nil || !strings.Contains(string(b), "exec.started") {
		t.Fatalf("never started: %v", err)
	}
}

// The log is moved away while a jail lives whose launcher is then killed: the new one
// has the end of what the old one began.
func TestEventsMovedAway(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		log := c.File(t, "events.ndjson", "")
		strict := sinkPolicy(t, c, log, "fail")
		killedAtWork(t, strict, log, sinkID(c)+"m")
		if err := os.Rename(log, log+".1"); err != nil {
			t.Fatal(err)
		}
		if o := c.Do(t, jail.Job{Raw: true}, "gc"); o.Code != 0 {
			t.Error(o)
		}
		var got []string
		for _, e := range strict.Events(t) {
			got = append(got, e.Type)
		}
		if !slices.Equal(got, []string{"exec.finished", "gc.reaped", "session.destroyed"}) {
			t.Errorf("in the new file: %v", got)
		}
		c.NothingLeft(t, sinkID(c)+"*")
	})
}

// gc says what it can't write, and keeps the record until it can.
func TestEventsSinkGone(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		log := c.File(t, "events.ndjson", "")
		strict := sinkPolicy(t, c, log, "fail")
		killedAtWork(t, strict, log, sinkID(c)+"1")
		if err := os.Chmod(log, 0o606); err != nil {
			t.Fatal(err)
		}
		if o := c.Do(t, jail.Job{Raw: true}, "gc"); o.Code != 1 || !strings.Contains(o.Stdout, "stuck "+sinkID(c)+"1") || !strings.Contains(o.Stdout, "open to others") {
			t.Error(o)
		}
		if s := c.States(t); len(s) != 1 {
			t.Errorf("the record is gone: %v", s)
		}
		if err := os.Chmod(log, 0o600); err != nil {
			t.Fatal(err)
		}
		if o := c.Do(t, jail.Job{Raw: true}, "gc"); o.Code != 0 {
			t.Error(o)
		}
		var got []string
		for _, e := range strict.Events(t) {
			got = append(got, e.Type)
		}
		want := []string{"session.created", "exec.started", "exec.finished", "gc.reaped", "session.destroyed"}
		if !slices.Equal(got, want) {
			t.Errorf("%v", got)
		}
		c.NothingLeft(t, sinkID(c)+"*")
	})
}
