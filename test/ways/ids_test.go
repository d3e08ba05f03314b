package ways

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

const rangePolicy = `version = 1
extends = "builtin"

[profiles.default]
extends = "default"
ids = "range"
`

// ranged: what works with one id works with a range, whose ids the job has, and
// on the host it is one of the range and not the caller.
func ranged(t *testing.T) {
	c := user(t)
	full(t, c)
	r := builtin(c).WithPolicy(t, "range.toml", rangePolicy)
	ran(t, r.Run(t, job), "cgroup2")
	fs := doctor(t, r)
	for _, id := range []string{"ids.subuid", "ids.newuidmap"} {
		if f := found(t, fs, id, "yes"); !f.Needed {
			t.Errorf("doctor: %+v", f)
		}
	}

	o := r.Run(t, jail.Job{Sh: `cat /proc/self/uid_map /proc/self/gid_map; id -u; id -G; touch /workspace/a "$HOME/b" && stat -c '%u %g' /workspace/a
grep -E "^(CapEff|CapBnd|NoNewPrivs)" /proc/self/status; kill -9 1 2>/dev/null && echo KILLED; :`})
	o.Exited(t, 0)
	zero := "0000000000000000"
	if got, want := strings.Join(strings.Fields(o.Out()), " "), "0 1 65535 0 1 65535 1000 1000 1000 1000 CapBnd: "+zero+" CapEff: "+zero; !sameWords(got, want+" NoNewPrivs: 1") {
		t.Errorf("inside: %q\n%s", got, o)
	}
	for flags, want := range map[string]jailer.Status{"--memory 32M": jailer.StatusOOMKilled, "--timeout 1s": jailer.StatusTimedOut} {
		o := r.Run(t, jail.Job{Flags: strings.Fields(flags), Sh: "head -c 64M /dev/zero | tail -n 1 >/dev/null; sleep 100"})
		if s := o.Ran(t).Status; s != want {
			t.Errorf("%s: %s, want %s", flags, s, want)
		}
	}
	t.Run("on the host", func(t *testing.T) { onTheHost(t, r) })
}

// sameWords ignores the order, which of the lines of status is the kernel's.
func sameWords(a, b string) bool {
	count := map[string]int{}
	for _, w := range strings.Fields(a) {
		count[w]++
	}
	for _, w := range strings.Fields(b) {
		count[w]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

func onTheHost(t *testing.T, c *jail.Caller) {
	first := subordinate(t, c.UID)
	ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
	defer cancel()
	ready, mark := filepath.Join(c.Home, "pid"), fmt.Sprintf("300.%06d", os.Getpid())
	cmd := c.Command(ctx, "run", "--pid-file", ready, "--timeout", "200s", "--", "sleep", mark)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cancel()
	var jobs []jail.Process
	if !jail.Eventually(jail.Deadline, func() bool {
		jobs = jail.Living(t, func(p jail.Process) bool { return p.Cmdline == "sleep "+mark && p.NSpid > 1 })
		return len(jobs) == 1
	}) {
		t.Fatalf("no job: %v", jobs)
	}
	// The jail's ids begin at the caller's own, 0, and the range follows at 1; the
	// job's begin at the jail's 1. So the job's 1000 is the range's 1000.
	for _, uid := range jobs[0].UID {
		if uid != first+1000 {
			t.Errorf("the job is uid %v on the host, want %d", jobs[0].UID, first+1000)
			break
		}
	}
}

// subordinate is the first id of the user's first range, which this test bed
// gives by name or number.
func subordinate(t *testing.T, uid int) int {
	t.Helper()
	names := []string{strconv.Itoa(uid)}
	passwd, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(passwd)) {
		if f := strings.Split(line, ":"); len(f) > 2 && f[2] == names[0] {
			names = append(names, f[0])
		}
	}
	b, err := os.ReadFile("/etc/subuid")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) == 3 && (f[0] == names[0] || len(names) > 1 && f[0] == names[1]) {
			first, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return first
		}
	}
	t.Fatalf("no range for %q in /etc/subuid", names)
	return 0
}
