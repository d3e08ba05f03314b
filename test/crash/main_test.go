// Package crash kills launchers, runs many of them, and looks at what the host
// has left of it: nothing, after one `jailer gc` at most.
package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

func TestMain(m *testing.M) {
	// Whoever a killed launcher leaves behind becomes a child of this process
	// (PR_SET_CHILD_SUBREAPER): no survivor can hide, whatever its name or uid.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	jail.Main(m)
}

// count is a number from the environment: `make test-long` asks for more.
func count(t *testing.T, name string, usual int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return need.Times(usual)
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number of times", name, v)
	}
	return n
}

// firstUID and the next few are the host ids of root's jails here, and of nobody
// else's: a range of its own for each test process.
func firstUID() int { return 1_700_000_000 + os.Getpid()%100_000*1000 }

const uids = 900

// private is a caller all of whose jails' host uids are known, and nobody else's.
func private(t *testing.T, c *jail.Caller) *jail.Caller {
	t.Helper()
	if c.UID != 0 {
		return c // UserID is this process's
	}
	return c.WithPolicy(t, "uids.toml", fmt.Sprintf("version = 1\nextends = \"builtin\"\n[root]\nuid_range = \"%d-%d\"\n", firstUID(), firstUID()+uids))
}

// ours matches the processes of private's jails by the Uid line of their status,
// and by their mark those that have not changed their uid yet.
func ours(c *jail.Caller, mark string) func(jail.Process) bool {
	return func(p jail.Process) bool {
		if p.PID == os.Getpid() {
			return false
		}
		for _, uid := range p.UID {
			if c.UID == 0 && uid >= firstUID() && uid <= firstUID()+uids {
				return true
			}
			if c.UID != 0 && os.Geteuid() == 0 && uid == c.UID {
				return true
			}
		}
		return strings.Contains(p.Cmdline, mark)
	}
}

// orphans lists the children of this process, which started none but launchers
// that it has already waited for. Dead ones are reaped on the way.
func orphans(t *testing.T) []jail.Process {
	t.Helper()
	var out []jail.Process
	for _, p := range jail.Processes(t) {
		if p.Parent != os.Getpid() {
			continue
		}
		if p.Zombie {
			var ws syscall.WaitStatus
			_, _ = syscall.Wait4(p.PID, &ws, syscall.WNOHANG, nil)
			continue
		}
		out = append(out, p)
	}
	return out
}

// leak is what `jailer gc --json` says of one.
type leak struct {
	ID      string
	Removed bool
	Error   string
}

// gc runs `jailer gc --json` and returns its exit status and list.
func gc(t *testing.T, c *jail.Caller, flags ...string) (int, []leak) {
	t.Helper()
	o := c.Do(t, jail.Job{Raw: true}, append([]string{"gc", "--json"}, flags...)...)
	var doc struct {
		V      int
		Leaked []leak
	}
	if err := json.Unmarshal([]byte(o.Stdout), &doc); err != nil || doc.V != 1 {
		t.Fatalf("no document: %v\n%s", err, o)
	}
	return o.Code, doc.Leaked
}

// launcher starts a run and kills it after the delay, or when at says so.
func launcher(t *testing.T, c *jail.Caller, at func() bool, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), jail.Deadline)
	defer cancel()
	cmd := c.Command(ctx, append([]string{"run"}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill(t, cmd, at)
}

// kill looks often: a moment that is drawn at random must not be rounded up to
// one when the program has ended.
func kill(t *testing.T, cmd *exec.Cmd, at func() bool) {
	t.Helper()
	end := time.Now().Add(need.Time(time.Minute))
	for !at() {
		if time.Now().After(end) {
			t.Error("the moment to kill the launcher never came")
			break
		}
		time.Sleep(200 * time.Microsecond)
	}
	cmd.Process.Kill()
	cmd.Wait()
}
