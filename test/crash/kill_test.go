package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// 19, 22: the launcher is killed at a random moment, from before it has done
// anything to after the job's start. Nothing survives it, and one gc removes
// what a dead launcher could not.
func TestKillLauncher(t *testing.T) {
	kills := count(t, "KILLS", 40)
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		c = private(t, c)
		mark := fmt.Sprintf("crash-mark-%d-%s", os.Getpid(), c.Name)
		id := fmt.Sprintf("crash-%d-%s-", os.Getpid(), c.Name)
		script := `trap "" TERM INT HUP; setsid sh -c "sleep 300; :" ` + mark + ` & sh -c "sleep 300; :" ` + mark + ` & wait; : ` + mark

		whole := lifetime(t, c)
		t.Logf("a run of true takes %v here; killing %d launchers within 1.5 times that", whole, kills)
		// More than that, until a launcher was hit between its first record and its
		// command, and one whose command ran.
		early, late := 0, 0
		for i := 0; i < kills || (early == 0 || late == 0) && i < kills+100; i++ {
			// A few land in the first steps, which are short.
			after := time.Duration(rand.Int64N(int64(whole) * 3 / 2))
			if i%8 == 0 {
				after /= 10
			}
			job := script
			if i%3 == 0 {
				job = "exit 0" // then the kill may come while jailer cleans up
			}
			began := time.Now()
			name := id + fmt.Sprint(i)
			launcher(t, c, func() bool { return time.Since(began) >= after }, "--id", name, "--", "sh", "-c", job, mark)
			var left []jail.Process
			if !jail.Eventually(need.Time(20*time.Second), func() bool {
				left = append(orphans(t), jail.Living(t, ours(c, mark))...)
				return len(left) == 0
			}) {
				t.Fatalf("killed after %v of %v: %d survivors: %v", after, whole, len(left), left)
			}
			var got []string
			for _, e := range c.Events(t, "--session", name) {
				got = append(got, e.Type)
			}
			switch strings.Join(got, " ") {
			case "session.created":
				early++
			case "session.created exec.started":
				late++
			}
		}

		leaked := len(c.States(t))
		t.Logf("%d left a record; %d were killed before their command, %d with it", leaked, early, late)
		time.Sleep(5 * time.Second) // a directory without a name yet may be another launcher's, for so long
		if code, _ := gc(t, c); code != 0 {
			t.Errorf("gc: exit status %d", code)
		}
		c.NothingLeft(t, id+"*")
		if reaped, lost := balanced(t, c); early == 0 || late == 0 || lost < late || reaped < early+late {
			t.Errorf("%d were killed before their command, %d with it; gc removed %d, of which %d had one", early, late, reaped, lost)
		}
		if code, ls := gc(t, c, "--check"); code != 0 || len(ls) > 0 {
			t.Errorf("gc --check after gc: exit status %d, %v", code, ls)
		}
		c.Run(t, jail.Job{Argv: []string{"true"}}).Exited(t, 0) // and all works again
	})
}

// The test's own eyes: what a launcher could leave would be seen.
func TestSurvivorsAreSeen(t *testing.T) {
	mark := fmt.Sprintf("crash-control-%d", os.Getpid())
	if err := exec.Command("/bin/sh", "-c", `sh -c "while :; do sleep 1; done" `+mark+` & exit 0`).Run(); err != nil {
		t.Fatal(err)
	}
	match := ours(&jail.Caller{}, mark)
	var left, marked []jail.Process
	if !jail.Eventually(need.Time(20*time.Second), func() bool {
		left, marked = orphans(t), jail.Living(t, match)
		return len(left) > 0 && len(marked) > 0
	}) {
		t.Errorf("orphans seen: %v, marked ones: %v", left, marked)
	}
	if !jail.Eventually(need.Time(20*time.Second), func() bool {
		left = orphans(t) // the shell, and the sleep that it leaves
		for _, p := range left {
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
		return len(left) == 0 && len(jail.Living(t, match)) == 0
	}) {
		t.Fatalf("still there: %v", left)
	}
}

// lifetime is what a whole run takes, the middle one of three.
func lifetime(t *testing.T, c *jail.Caller) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 3 {
		o := c.Run(t, jail.Job{Argv: []string{"true"}})
		o.Exited(t, 0)
		took = append(took, o.Took)
	}
	slices.Sort(took)
	return took[1]
}

// crashed leaves the remains of n launchers killed while their jobs ran.
func crashed(t *testing.T, c *jail.Caller, id string, n int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			ready := filepath.Join(c.Home, fmt.Sprint("pid-", i))
			os.Remove(ready)
			name := id + fmt.Sprint(i)
			running := func() bool {
				b, _ := os.ReadFile(ready)
				return strings.HasSuffix(string(b), "\n") &&
					slices.ContainsFunc(c.Events(t, "--session", name), func(e jail.Event) bool { return e.Type == "exec.started" })
			}
			launcher(t, c, running, "--id", name, "--pid-file", ready, "--", "sleep", "300")
		})
	}
	all.Wait()
	if !jail.Eventually(need.Time(30*time.Second), func() bool { return len(orphans(t)) == 0 }) {
		t.Fatalf("survivors: %v", orphans(t))
	}
}

func TestGC(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		c = private(t, c)
		id := fmt.Sprintf("gc-%d-%s-", os.Getpid(), c.Name)

		t.Run("nothing to do", func(t *testing.T) {
			for _, flag := range []string{"--json", "--check", "--dry-run"} {
				if code, ls := gc(t, c, flag); code != 0 || len(ls) > 0 {
					t.Errorf("%s: exit status %d, %v", flag, code, ls)
				}
			}
		})

		t.Run("looking changes nothing", func(t *testing.T) {
			crashed(t, c, id, 2)
			before := c.States(t)
			for _, look := range []struct {
				flag string
				code int
			}{{"--check", 1}, {"--dry-run", 0}, {"--check", 1}} {
				code, ls := gc(t, c, look.flag)
				if code != look.code || len(ls) != 2 || !strings.HasPrefix(ls[0].ID, id) || ls[0].Removed || ls[1].Removed {
					t.Errorf("%s: exit status %d, %v", look.flag, code, ls)
				}
			}
			if after := c.States(t); len(before) != 2 || fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("%v became %v", before, after)
			}
			o := c.Do(t, jail.Job{Raw: true}, "gc", "--check")
			if o.Code != 1 || strings.Count(o.Stdout, "leaked "+id) != 2 || !strings.Contains(o.Stderr, "jailer gc") {
				t.Error(o)
			}
		})

		t.Run("one removes all", func(t *testing.T) {
			code, ls := gc(t, c)
			if code != 0 || len(ls) != 2 || !ls[0].Removed || !ls[1].Removed {
				t.Errorf("exit status %d, %v", code, ls)
			}
			c.NothingLeft(t, id+"*")
		})

		t.Run("two at once", func(t *testing.T) {
			crashed(t, c, id, 4)
			var all sync.WaitGroup
			removed := make([]int, 4)
			for i := range removed {
				all.Go(func() {
					code, ls := gc(t, c)
					if code != 0 {
						t.Errorf("exit status %d, %v", code, ls)
					}
					for _, l := range ls {
						if l.Removed {
							removed[i]++
						}
					}
				})
			}
			all.Wait()
			sum := 0
			for _, n := range removed {
				sum += n
			}
			if sum != 4 {
				t.Errorf("4 leaks, and %v removed", removed)
			}
			c.NothingLeft(t, id+"*")
		})

		t.Run("the id is free again", func(t *testing.T) {
			crashed(t, c, id, 1)
			taken := jail.Job{Flags: []string{"--id", id + "0"}, Argv: []string{"true"}}
			// On a slow host the remains are old enough for this very start to remove them.
			if o := c.Run(t, taken); o.Code != 0 && (o.Err == nil || o.Code != 125 || o.Err.Code != "session_exists" || !strings.Contains(o.Err.Hint, " gc` removes")) {
				t.Error(o)
			}
			gc(t, c)
			c.Run(t, taken).Exited(t, 0)
		})

		// What is older than two seconds goes with the next start.
		t.Run("a start removes it", func(t *testing.T) {
			crashed(t, c, id, 1)
			if !jail.Eventually(need.Time(20*time.Second), func() bool {
				st, err := os.Stat(filepath.Join(c.StateDir(), id+"0"))
				return err == nil && time.Since(st.ModTime()) > 2*time.Second
			}) {
				t.Fatal("the remains are not there")
			}
			c.Run(t, jail.Job{Argv: []string{"true"}}).Exited(t, 0)
			c.NothingLeft(t, id+"*")
			var last string
			for _, e := range c.Events(t, "--session", id+"0") {
				last = e.Type
			}
			if last != "session.destroyed" {
				t.Errorf("the last event is %q", last)
			}
		})
	})
}

// A live jail is nobody's to remove, whoever asks and how often.
func TestGCLeavesTheLiving(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		c = private(t, c)
		id := fmt.Sprintf("alive-%d-%s-", os.Getpid(), c.Name)
		ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
		defer cancel()
		ready := filepath.Join(c.Home, "pid")
		cmd := c.Command(ctx, "run", "--id", id+"live", "--pid-file", ready, "--stdin", "-", "--timeout", "300s", "--", "sh", "-c", "cat; exit 6")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cancel()
		if !jail.Eventually(need.Time(time.Minute), func() bool { b, _ := os.ReadFile(ready); return len(b) > 0 }) {
			t.Fatal("never ready")
		}
		for range 5 {
			if code, ls := gc(t, c); code != 0 || len(ls) > 0 {
				t.Errorf("gc: exit status %d, %v", code, ls)
			}
		}
		if s := c.States(t); len(s) != 1 {
			t.Errorf("the state directory holds %v", s)
		}
		if c.UID == 0 && len(jail.Cgroups(t, id+"live")) == 0 {
			t.Error("the cgroup is gone")
		}
		stdin.Close()
		cmd.Wait()
		if n := cmd.ProcessState.ExitCode(); n != 6 {
			t.Errorf("the jail ended with %d, want 6", n)
		}
		c.NothingLeft(t, id+"*")
	})
}

// gc takes no directory for a jail that is none, and follows no record to a
// cgroup that is no jail's.
func TestGCTouchesOnlyItsOwn(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		c.Run(t, jail.Job{Argv: []string{"true"}}).Exited(t, 0) // makes the state directory
		precious := filepath.Join(c.Home, "precious")
		for _, d := range []string{precious, filepath.Join(c.StateDir(), "UPPER"), filepath.Join(c.StateDir(), "forged"), filepath.Join(c.StateDir(), "forged", "priv")} {
			if err := os.Mkdir(d, 0o700); err != nil {
				t.Fatal(err)
			}
			if os.Geteuid() == 0 {
				os.Chown(d, c.UID, c.UID)
			}
		}
		if err := os.Symlink(precious, filepath.Join(c.StateDir(), "link")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(precious, filepath.Join(c.StateDir(), "forged", "link")); err != nil {
			t.Fatal(err)
		}
		c.File(t, "state/forged/priv/record.json", `{"v":1,"id":"forged","cgroups":["/sys/fs/cgroup","/sys/fs/cgroup/memory","/","`+precious+`","relative/jail-x","/sys/fs/cgroup/memory/../memory/jail-x"]}`)
		code, ls := gc(t, c)
		if code != 1 || len(ls) != 1 || ls[0].ID != "forged" || ls[0].Removed || ls[0].Error == "" {
			t.Errorf("a forged record: exit status %d, %v", code, ls)
		}
		for _, p := range []string{precious, filepath.Join(c.StateDir(), "UPPER"), "/sys/fs/cgroup"} {
			if _, err := os.Stat(p); err != nil {
				t.Error(err)
			}
		}
	})
}
