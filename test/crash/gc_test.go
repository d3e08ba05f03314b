package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// A collector in a pid namespace of its own sees no process of the others: the
// living stay, the dead go, with all that they had.
func TestGCAcrossPIDNamespaces(t *testing.T) {
	need.Root(t)
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		c = private(t, c)
		id := fmt.Sprintf("pidns-%d-%s-", os.Getpid(), c.Name)
		crashed(t, c, id, 2)
		for i := range 2 { // of an age at which the next start leaves them alone
			young := time.Now().Add(time.Minute)
			if err := os.Chtimes(filepath.Join(c.StateDir(), id+fmt.Sprint(i)), young, young); err != nil {
				t.Fatal(err)
			}
		}

		ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
		defer cancel()
		ready := filepath.Join(c.Home, "pid-live")
		live := c.Command(ctx, "run", "--id", id+"live", "--pid-file", ready, "--stdin", "-", "--timeout", "300s", "--", "sh", "-c", "cat; exit 6")
		stdin, err := live.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := live.Start(); err != nil {
			t.Fatal(err)
		}
		defer live.Wait()
		defer cancel()
		if !jail.Eventually(need.Time(time.Minute), func() bool { b, _ := os.ReadFile(ready); return len(b) > 0 }) {
			t.Fatal("never ready")
		}

		apart := func(cmd *exec.Cmd) {
			if cmd.SysProcAttr == nil {
				cmd.SysProcAttr = &syscall.SysProcAttr{}
			}
			cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWPID
		}
		for _, want := range [][]string{{id + "0", id + "1"}, nil} {
			o := c.Do(t, jail.Job{Raw: true, Setup: apart}, "gc", "--json")
			var doc struct{ Leaked []leak }
			if err := json.Unmarshal([]byte(o.Stdout), &doc); err != nil {
				t.Fatalf("%v\n%s", err, o)
			}
			var ids []string
			for _, l := range doc.Leaked {
				if !l.Removed {
					t.Errorf("%+v", l)
				}
				ids = append(ids, l.ID)
			}
			if o.Code != 0 || !slices.Equal(ids, want) {
				t.Errorf("exit status %d, %v, want %v", o.Code, ids, want)
			}
		}
		for i := range 2 {
			if left := jail.Cgroups(t, id+fmt.Sprint(i)); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		}
		stdin.Close()
		live.Wait()
		if n := live.ProcessState.ExitCode(); n != 6 {
			t.Errorf("the living jail ended with %d, want 6", n)
		}
		c.NothingLeft(t, id+"*")
	})
}

// What launchers can leave half made, and what somebody may put beside it: gc takes
// its own, whole, names what it can't, and leaves the rest.
func TestGCHalfMade(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		c.Run(t, jail.Job{Argv: []string{"true"}}).Exited(t, 0) // makes the state directory
		own := func(path string) string {
			if os.Geteuid() == 0 {
				if err := os.Lchown(path, c.UID, c.UID); err != nil {
					t.Fatal(err)
				}
			}
			return path
		}
		dir := func(name string) string {
			path := filepath.Join(c.StateDir(), name)
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			return own(path)
		}
		dir("bare")
		dir(".new-young")
		old := dir(".new-old")
		past := time.Now().Add(-time.Minute)
		if err := os.Chtimes(old, past, past); err != nil {
			t.Fatal(err)
		}
		for name, record := range map[string]string{
			"nocgroups": `{"v":1,"id":"nocgroups","cgroups":null}`,
			"rebooted":  `{"v":1,"id":"rebooted","pid":1,"bootId":"11111111-1111-4111-8111-111111111111","cgroups":["/sys/fs/cgroup/none/jail-rebooted"]}`,
			"later":     `{"v":2,"id":"later"}`,
		} {
			dir(name)
			dir(name + "/priv")
			c.File(t, "state/"+name+"/priv/record.json", record)
		}
		dir("odd")
		dir("odd/priv")
		if err := unix.Mkfifo(filepath.Join(c.StateDir(), "odd", "priv", "record.json"), 0o600); err != nil {
			t.Fatal(err)
		}
		own(filepath.Join(c.StateDir(), "odd", "priv", "record.json"))
		code, ls := gc(t, c)
		got := map[string]bool{}
		for _, l := range ls {
			got[l.ID] = l.Removed
		}
		want := map[string]bool{"bare": true, ".new-old": true, "nocgroups": true, "rebooted": true, "odd": true, "later": false}
		if code != 1 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("exit status %d, %v, want %v", code, got, want)
		}
		for name, stays := range map[string]bool{".new-young": true, "later": true, "bare": false, "odd": false} {
			if _, err := os.Lstat(filepath.Join(c.StateDir(), name)); (err == nil) != stays {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
