package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// limited is a caller whose limits a cgroup holds, all three: root, where this
// process is root's, as the user that root plays is in no cgroup of his own.
func limited(t *testing.T) *jail.Caller {
	t.Helper()
	c, by := limitedBy(t)
	need.Feature(t, "cgroup", !slices.ContainsFunc(by, func(s string) bool { return !strings.HasPrefix(s, "cgroup") }),
		fmt.Sprintf("memory, pids and cpu of this caller are held by %q", by))
	return c
}

// limited2 is the same with cgroup v2, whose files a test can then read.
func limited2(t *testing.T) *jail.Caller {
	t.Helper()
	c, by := limitedBy(t)
	need.Feature(t, "cgroup2", !slices.ContainsFunc(by, func(s string) bool { return s != "cgroup2" }),
		fmt.Sprintf("memory, pids and cpu of this caller are held by %q", by))
	return c
}

func limitedBy(t *testing.T) (c *jail.Caller, by []string) {
	t.Helper()
	if c = jail.User(t); os.Geteuid() == 0 {
		c = jail.Root(t)
	}
	o := c.Run(t, jail.Job{Argv: []string{"true"}})
	o.Exited(t, 0)
	for _, limit := range []string{"memory", "pids", "cpu"} {
		by = append(by, o.LimitedBy(limit))
	}
	return c, by
}

// The limits stand in the kernel's files, read from the host while the job runs.
func TestLimitsAreSet(t *testing.T) {
	t.Parallel()
	c := limited(t)
	id := fmt.Sprintf("set-%d", os.Getpid())
	l := start(t, c, []string{"--id", id, "--memory", "100M", "--pids", "17", "--cpus", "0.25"}, `echo ready; exec sleep 100`)
	defer l.end(t)
	defer l.signal(t, os.Interrupt)
	want := map[string]string{
		"memory.limit_in_bytes": "104857600", "memory.max": "104857600",
		"memory.memsw.limit_in_bytes": "104857600", "memory.swap.max": "0",
		"pids.max": "17", "cpu.max": "25000 100000",
		"cpu.cfs_quota_us": "25000", "cpu.cfs_period_us": "100000",
		// One killed is all killed; the whole jail, with PID 1, is not meant.
		"memory.oom.group": "1",
	}
	seen := map[string]string{}
	for _, d := range jail.Cgroups(t, id) {
		for file := range want {
			if b, err := os.ReadFile(d + "/job-1/" + file); err == nil {
				seen[file] = strings.TrimSpace(string(b))
			}
		}
	}
	for file, v := range seen {
		if v != want[file] {
			t.Errorf("%s is %q, want %q", file, v, want[file])
		}
	}
	for _, one := range [][]string{{"memory.limit_in_bytes", "memory.max"}, {"cpu.cfs_quota_us", "cpu.max"}, {"pids.max"}} {
		if !slices.ContainsFunc(one, func(file string) bool { return seen[file] != "" }) {
			t.Errorf("none of %q was seen in %v", one, jail.Cgroups(t, id))
		}
	}
	for _, d := range jail.Cgroups(t, id) {
		if b, err := os.ReadFile(d + "/memory.oom.group"); err == nil && string(b) != "0\n" {
			t.Errorf("memory.oom.group of %s is %q", d, b)
		}
	}
}

// What is there beside a jail's own directory is the same after it, on the way
// up to the root of the hierarchy: no controller is enabled or taken away.
func TestCgroupsUntouched(t *testing.T) {
	c := limited2(t) // the first run makes BASE ready
	base := ""
	id := fmt.Sprintf("same-%d", os.Getpid())
	l := start(t, c, []string{"--id", id}, `echo ready; exec sleep 100`)
	for _, d := range jail.Cgroups(t, id) {
		base = filepath.Dir(d)
	}
	l.signal(t, os.Interrupt)
	l.end(t)
	if base == "" {
		t.Fatal("no cgroup of the jail was found")
	}
	before := arrangement(t, base)
	if !strings.Contains(before, "memory") {
		t.Fatalf("nothing is seen in %s: %s", base, before)
	}
	for _, j := range []jail.Job{
		{Sh: "exit 0"},
		{Flags: []string{"--timeout", "300ms"}, Sh: "sleep 100 & sleep 100"},
		{Flags: []string{"--memory", "32M"}, Sh: "head -c 64M /dev/zero | tail -n 1"},
		{Argv: []string{"nosuch"}},
	} {
		j.Flags = append(j.Flags, "--id", id)
		c.Run(t, j)
		c.NothingLeft(t, id)
		if after := arrangement(t, base); after != before {
			t.Errorf("after %v %s: before\n%s\nafter\n%s", j.Flags, j.Sh, before, after)
		}
	}
}

// arrangement is what BASE holds but jails, and what is handed on from each
// cgroup between it and the root of the hierarchy.
func arrangement(t *testing.T, base string) string {
	t.Helper()
	var s strings.Builder
	entries, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), "jail-") {
			fmt.Fprintln(&s, filepath.Join(base, e.Name()))
		}
	}
	for d := base; strings.HasPrefix(d, "/sys/fs/cgroup"); d = filepath.Dir(d) {
		file := filepath.Join(d, "cgroup.subtree_control")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&s, "%s: %s", file, b)
	}
	return s.String()
}

// A fork storm and daemons in sessions of their own end with the timeout, all at
// once, though none of them listens to a signal and new ones come all the time.
func TestStormEnds(t *testing.T) {
	t.Parallel()
	c := limited(t)
	mark := marked(80)
	o := c.Run(t, jail.Job{Flags: []string{"--pids", "64", "--timeout", jail.Timeout(2 * time.Second)}, Sh: `
trap "" TERM HUP INT QUIT
for i in 1 2 3 4; do setsid sh -c 'trap "" TERM HUP; while :; do sleep ` + mark + `; done' & done
f() { f | f & }; (f) 2>/dev/null & # in a child: a shell that can't fork ends with 2
while :; do :; done`})
	r := o.Ended(t, "timed_out", "wall", 124)
	o.Within(t, prompt)
	jail.Gone(t, 0, jail.Marked(mark))
	c.NothingLeft(t, r.SessionID)
	if !slices.Contains(r.LimitsHit, "pids") || r.Usage.PidsPeak != nil && *r.Usage.PidsPeak != 64 {
		t.Errorf("the storm did not reach 64 processes:\n%s", o)
	}
	if out, err := exec.Command("/bin/sh", "-c", "echo forks | cat").Output(); err != nil || string(out) != "forks\n" {
		t.Errorf("the host: %q, %v", out, err)
	}
}
