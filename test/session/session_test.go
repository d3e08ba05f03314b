package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// A session from its making to its end, twice deleted.
func TestSession(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		s := create(t, c, "whole", "--label", "job=7", "--ttl", "10m", "--idle", "5m")
		if s.OCIVersion == "" || s.Bundle != c.StateDir()+"/whole" || s.Annotations["job"] != "7" || s.IdleAfterMs != 300_000 ||
			s.ExpiresAt.Sub(s.CreatedAt) != 10*time.Minute {
			t.Errorf("%+v", s)
		}
		in(t, c, "whole", jail.Job{Sh: "echo one > /workspace/file; echo two > /tmp/file; exit 3"}).Exited(t, 3)
		r := in(t, c, "whole", jail.Job{Sh: "cat /workspace/file /tmp/file"}).Said(t, "one\ntwo\n")
		if r.SessionID != "whole" || r.Labels["job"] != "7" || r.ExecID != "2" || r.StdoutBytes != 8 {
			t.Errorf("%+v", r)
		}
		if len(c.Cgroups(t, "whole")) == 0 {
			t.Error("it has no cgroup that would be seen")
		}
		if s := look(t, c, "whole"); s.Status != "running" || *s.Commands != 0 {
			t.Errorf("%+v", s)
		}
		ok(t, do(t, c, "delete", "whole"))
		ok(t, do(t, c, "delete", "whole"))
		c.NothingLeft(t, "whole")
		fails(t, do(t, c, "state", "whole"), 1, "there is no session whole", "jailer list")
		fails(t, in(t, c, "whole", jail.Job{Argv: []string{"true"}, Raw: true}), 125, "there is no session whole")
		destroyed(t, c, "whole", "requested")
	})
}

// A session's events are linked to the span that made it, those of a command to the
// one that asked for it.
func TestSessionSpan(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		const made, asked = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
		ok(t, c.Do(t, jail.Job{Raw: true, Env: []string{"TRACEPARENT=" + made}}, "create", "--id", "span"))
		in(t, c, "span", jail.Job{Argv: []string{"true"}}).Exited(t, 0)
		if r := in(t, c, "span", jail.Job{Argv: []string{"true"}, Env: []string{"TRACEPARENT=" + asked}}).Exited(t, 0); r.TraceParent != asked {
			t.Errorf("the result has %q", r.TraceParent)
		}
		if r := in(t, c, "span", jail.Job{Flags: []string{"--request", "-"}, Input: `{"argv":["true"],"traceparent":"` + asked + `"}`}).Exited(t, 0); r.TraceParent != asked {
			t.Errorf("the result has %q", r.TraceParent)
		}
		ok(t, do(t, c, "delete", "span"))
		es := c.Events(t, "--session", "span")
		if len(es) != 8 {
			t.Errorf("%d events", len(es))
		}
		for _, e := range es {
			want := made
			if e.ExecID == "2" || e.ExecID == "3" {
				want = asked
			}
			if e.TraceParent != want {
				t.Errorf("want %s: %s", want, e.Line)
			}
		}
	})
}

// What exec promises as run does.
func TestExec(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "exec")
		for _, row := range []struct {
			name  string
			job   jail.Job
			check func(t *testing.T, o *jail.Outcome)
		}{
			{"stdin", jail.Job{Flags: []string{"--stdin", "-"}, Argv: []string{"sort"}, Input: "b\na\n"}, func(t *testing.T, o *jail.Outcome) { o.Said(t, "a\nb\n") }},
			{"no stdin", jail.Job{Sh: "cat; echo end"}, func(t *testing.T, o *jail.Outcome) { o.Said(t, "end\n") }},
			{"environment", jail.Job{Flags: []string{"--env", "A=b c"}, Sh: `printf %s "$A"`}, func(t *testing.T, o *jail.Outcome) { o.Said(t, "b c") }},
			{"directory", jail.Job{Flags: []string{"--cwd", "/tmp"}, Argv: []string{"pwd"}}, func(t *testing.T, o *jail.Outcome) { o.Said(t, "/tmp\n") }},
			{"signaled", jail.Job{Sh: "kill -SEGV $$"}, func(t *testing.T, o *jail.Outcome) { o.Signaled(t, "SIGSEGV", 139) }},
			{"timeout", jail.Job{Flags: []string{"--timeout", "1s"}, Argv: []string{"sleep", "1000"}}, func(t *testing.T, o *jail.Outcome) {
				o.Ended(t, jailer.StatusTimedOut, jailer.LimitWall, 124)
			}},
			{"memory", jail.Job{Flags: []string{"--memory", "32M"}, Sh: `head -c 200M /dev/zero | tail`}, func(t *testing.T, o *jail.Outcome) {
				o.Ended(t, jailer.StatusOOMKilled, jailer.LimitMemory, 137)
			}},
			{"output", jail.Job{Flags: []string{"--max-output", "10", "--on-output-limit", "kill"}, Argv: []string{"yes"}}, func(t *testing.T, o *jail.Outcome) {
				o.Ended(t, jailer.StatusOutputLimitExceeded, jailer.LimitOutput, 137)
				if o.Out() != "y\ny\ny\ny\ny\n" {
					t.Errorf("%q", o.Out())
				}
			}},
			{"tail", jail.Job{Flags: []string{"--max-output", "4", "--output-keep", "tail"}, Argv: []string{"seq", "100"}}, func(t *testing.T, o *jail.Outcome) {
				if r := o.Exited(t, 0); o.Out() != "100\n" || !r.StdoutTruncated || r.StdoutBytes != 292 {
					t.Errorf("%s", o)
				}
			}},
			{"not found", jail.Job{Argv: []string{"nosuch"}}, func(t *testing.T, o *jail.Outcome) {
				o.Refused(t, 127, jailer.CodeCommandNotFound)
			}},
			{"over the session's", jail.Job{Flags: []string{"--memory", "15G"}, Argv: []string{"true"}}, func(t *testing.T, o *jail.Outcome) {
				o.Refused(t, 126, jailer.CodePolicyDenied, "memory")
				denied := slices.ContainsFunc(c.Events(t, "--session", "exec"), func(e jail.Event) bool {
					return e.Type == "policy.denied" && e.Data["field"] == "limits.memory"
				})
				if !denied {
					t.Error("the refusal is not in the event log")
				}
			}},
			{"request", jail.Job{Flags: []string{"--request", "-"}, Input: `{"v":1,"argv":["cat"],"stdin":"inline"}`}, func(t *testing.T, o *jail.Outcome) {
				o.Said(t, "inline")
			}},
			{"binary", jail.Job{Sh: `printf '\377\376'; printf 'e' >&2`}, func(t *testing.T, o *jail.Outcome) {
				if o.Exited(t, 0); o.Out() != "\xff\xfe" || o.ErrOut() != "e" {
					t.Errorf("%s", o)
				}
			}},
		} {
			t.Run(row.name, func(t *testing.T) { row.check(t, in(t, c, "exec", row.job)) })
		}
		t.Run("raw", func(t *testing.T) {
			o := in(t, c, "exec", jail.Job{Raw: true, Flags: []string{"--max-output", "2"}, Sh: "echo abc; echo d >&2; exit 7"})
			if o.Code != 7 || o.Stdout != "ab" || !strings.Contains(o.Stderr, "d\n") || !strings.Contains(o.Stderr, "stdout cut after 2 of 4 bytes") {
				t.Error(o)
			}
		})
		t.Run("ndjson", func(t *testing.T) {
			o := in(t, c, "exec", jail.Job{Raw: true, Flags: []string{"--ndjson"}, Sh: "echo abc"})
			var types []string
			for line := range strings.Lines(o.Stdout) {
				var e struct{ Type string }
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err, o)
				}
				types = append(types, e.Type)
			}
			if fmt.Sprint(types) != "[started output result]" {
				t.Error(o)
			}
		})
		for _, flag := range []string{"--profile=x", "--policy=/x", "--tenant=x", "--rootfs=host", "--label=a=b", "--tmp-size=1M", "--ttl=1s"} {
			fails(t, in(t, c, "exec", jail.Job{Raw: true, Flags: []string{flag}, Argv: []string{"true"}}), 125, "belongs to the session")
		}
		fails(t, do(t, c, "exec", "exec", "true"), 125, "put the command after --")
		fails(t, do(t, c, "exec", "--", "true"), 125, "no session given")
	})
}

// A command is ended at its limit, with its whole tree; a managed process and another
// command beside it go on.
func TestOneOfMany(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "many")
		mark := fmt.Sprintf("3%09d", os.Getpid())
		ok(t, do(t, c, "start", "many", "--name", "service", "--", "sleep", mark+"1"))
		background(t, c, "exec", "many", "--", "sleep", mark+"2")
		running(t, c, "many", 1)
		in(t, c, "many", jail.Job{
			Flags: []string{"--timeout", "1s"},
			Sh:    "setsid sleep " + mark + "3 & sleep " + mark + "3 & wait",
		}).Ended(t, jailer.StatusTimedOut, jailer.LimitWall, 124)
		jail.Gone(t, prompt, jail.Marked(mark+"3"))
		for _, n := range []string{"1", "2"} {
			if len(jail.Living(t, jail.Marked(mark+n))) == 0 {
				t.Errorf("%s is gone too", n)
			}
		}
		ok(t, do(t, c, "delete", "many"))
		jail.Gone(t, prompt, jail.Marked(mark))
		c.NothingLeft(t, "many")
	})
}

// The session's own ends, with nobody's help.
func TestEnds(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		t.Run("idle", func(t *testing.T) {
			began := time.Now()
			create(t, c, "idle", "--idle", idle.String())
			long := idle + 3*time.Second
			in(t, c, "idle", jail.Job{Argv: []string{"sleep", fmt.Sprint(long.Seconds())}}).Exited(t, 0)
			if took := time.Since(began); took < long {
				t.Errorf("the command took %v", took)
			}
			gone(t, c, "idle", began, long+idle)
			destroyed(t, c, "idle", "idle")
		})
		t.Run("a process is no command", func(t *testing.T) {
			began := time.Now()
			create(t, c, "process", "--idle", idle.String())
			ok(t, do(t, c, "start", "process", "--", "sleep", "1000"))
			gone(t, c, "process", began, idle)
			destroyed(t, c, "process", "idle")
		})
		t.Run("ttl", func(t *testing.T) {
			began := time.Now()
			create(t, c, "ttl", "--ttl", ttl.String())
			o := in(t, c, "ttl", jail.Job{Sh: "while :; do :; done"})
			o.Ended(t, jailer.StatusExpired, jailer.LimitTTL, 124)
			gone(t, c, "ttl", began, ttl)
			destroyed(t, c, "ttl", "ttl")
		})
		t.Run("owner", func(t *testing.T) {
			owner := background(t, c, "events", "--follow")
			create(t, c, "owner", "--owner-pid", fmt.Sprint(owner.Process.Pid))
			began := time.Now()
			owner.Process.Kill()
			owner.Wait()
			gone(t, c, "owner", began, 0)
			destroyed(t, c, "owner", "owner_exited")
			fails(t, do(t, c, "create", "--owner-pid", fmt.Sprint(owner.Process.Pid)), 1, "owner-pid")
		})
		for _, id := range []string{"idle", "process", "ttl", "owner"} {
			c.NothingLeft(t, id)
		}
	})
}

// Of two that want one id exactly one has it, and the live one goes on.
func TestOneID(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		for range need.Times(100) {
			var wins, losses int
			var mu sync.Mutex
			var work sync.WaitGroup
			for range 2 {
				work.Go(func() {
					o := do(t, c, "create", "--id", "same")
					mu.Lock()
					defer mu.Unlock()
					switch {
					case o.Code == 0:
						wins++
					case strings.Contains(o.Stderr, "a session with this id exists"):
						losses++
					default:
						t.Error(o)
					}
				})
			}
			work.Wait()
			if wins != 1 || losses != 1 {
				t.Fatalf("%d won, %d lost", wins, losses)
			}
			in(t, c, "same", jail.Job{Argv: []string{"echo", "alive"}}).Said(t, "alive\n")
			ok(t, do(t, c, "delete", "same"))
		}
		c.NothingLeft(t, "same")
	})
}

// What is no id is refused by every verb, before anything is made.
func TestIDs(t *testing.T) {
	t.Parallel()
	c := jail.Root(t)
	if os.Geteuid() != 0 {
		c = jail.User(t)
	}
	for _, id := range []string{"..", "", ".", strings.Repeat("a", 64), "a\nb", "Upper", "а", "-a", "a/b", ".new-a"} {
		fails(t, do(t, c, "create", "--id="+id), 2, "id")
		for _, verb := range [][]string{{"state"}, {"delete"}, {"ps"}, {"logs", "p1"}, {"stop", "p1"}, {"kill", "p1"}} {
			args := append([]string{verb[0], "--", id}, verb[1:]...)
			fails(t, do(t, c, args...), 2, "must match")
		}
		if id != "-a" { // a flag there
			fails(t, do(t, c, "exec", id, "--", "true"), 125, "must match")
			fails(t, do(t, c, "start", id, "--", "true"), 2, "must match")
		}
	}
	if s := c.States(t); len(s) > 0 {
		t.Errorf("made %v", s)
	}
}

// Whoever reads create's streams to their end doesn't wait for the session.
func TestCreateLetsGo(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		// The request on a descriptor that the caller passes, which is read once.
		req, reqW, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer req.Close()
		if _, err := io.WriteString(reqW, `{"v":1,"labels":{"a":"b"}}`); err != nil {
			t.Fatal(err)
		}
		reqW.Close()
		cmd := c.Command(t.Context(), "create", "--id", "stream", "--request", "/dev/fd/3")
		cmd.ExtraFiles = []*os.File{req}
		cmd.Stdout, cmd.Stderr = w, w
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if err := r.SetReadDeadline(time.Now().Add(prompt)); err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(r)
		if err != nil || !bytes.Contains(out, []byte(`"id":"stream"`)) || !bytes.Contains(out, []byte(`"a":"b"`)) {
			t.Errorf("%v: %s", err, out)
		}
		ok(t, do(t, c, "delete", "stream"))
		o := c.Do(t, jail.Job{Raw: true, Input: `{"v":1,"labels":{"c":"d"}}`}, "create", "--id", "stream", "--request", "-")
		if ok(t, o); !strings.Contains(o.Stdout, `"c":"d"`) {
			t.Error(o)
		}
		ok(t, do(t, c, "delete", "stream"))
	})
}

// A session whose state can't be printed is none: nobody would know of it.
func TestCreateUnheard(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		for id, unheard := range map[string]string{"full": "/dev/full", "broken": "pipe"} {
			ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
			defer cancel()
			cmd := c.Command(ctx, "create", "--id", id)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close() // nobody reads
			if unheard != "pipe" {
				w.Close()
				if w, err = os.OpenFile(unheard, os.O_WRONLY, 0); err != nil {
					t.Fatal(err)
				}
			}
			cmd.Stdout = w
			err = cmd.Run()
			w.Close()
			if err == nil {
				t.Errorf("%s: created", unheard)
			}
			c.NothingLeft(t, id)
			destroyed(t, c, id, "requested")
		}
	})
}

// Everybody on the host can read a command line: the supervisor's, which stays, has no
// values in it.
func TestSupervisorsCommandLine(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "argv", "--env", "TOKEN=hunter2", "--env=OTHER=hunter2\xff")
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", supervisor(t, c, "argv")))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b, []byte("jailer\x00supervise\x00")) || bytes.Contains(b, []byte("hunter2")) {
			t.Errorf("%q", b)
		}
		if o := in(t, c, "argv", jail.Job{Raw: true, Sh: `printf %s "$TOKEN $OTHER"`}); o.Stdout != "hunter2 hunter2\xff" {
			t.Error(o)
		}
	})
}

// A `jailer run` is in the list, and no session for the other verbs.
func TestRunIsNone(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		background(t, c, "run", "--id", "plain", "--", "sleep", "100")
		if !jail.Eventually(prompt, func() bool { return len(c.States(t)) == 1 }) {
			t.Fatal("it does not start")
		}
		var list []state
		document(t, ok(t, do(t, c, "list", "--json")), &list)
		if len(list) != 1 || list[0].ID != "plain" || list[0].Status != "running" {
			t.Errorf("%+v", list)
		}
		fails(t, do(t, c, "delete", "plain"), 1, "jailer run", "kill -TERM")
		fails(t, in(t, c, "plain", jail.Job{Raw: true, Argv: []string{"true"}}), 125, "jailer run")
	})
}

// Another user gets at nothing, whichever verb he tries.
func TestAnotherUser(t *testing.T) {
	t.Parallel()
	need.Feature(t, "root", os.Geteuid() == 0, "takes root to be two users")
	c := jail.Root(t)
	create(t, c, "mine")
	other := *c
	other.UID = jail.UserID()
	for _, args := range [][]string{
		{"exec", "mine", "--", "true"},
		{"list"},
		{"gc"},
		{"events"},
		{"state", "mine"},
		{"delete", "mine"},
		{"ps", "mine"},
		{"start", "mine", "--", "true"},
		{"logs", "mine", "p1"},
		{"stop", "mine", "p1"},
		{"kill", "mine", "p1"},
		{"fs", "ls", "mine"},
		{"fs", "cat", "mine", "f"},
		{"fs", "page", "mine", "f"},
		{"fs", "put", "mine", "f"},
		{"fs", "rm", "mine", "f"},
		{"fs", "mkdir", "mine", "d"},
		{"fs", "stat", "mine", "f"},
		{"export", "mine", "f"},
		{"import", "mine"},
	} {
		code, words := 1, []string{"owned by uid 0"}
		if args[0] == "exec" {
			code = 126
		}
		if args[0] != "gc" && args[0] != "events" {
			words = append(words, "another user's")
		}
		fails(t, do(t, &other, args...), code, words...)
	}
	in(t, c, "mine", jail.Job{Argv: []string{"echo", "alive"}}).Said(t, "alive\n")
}
