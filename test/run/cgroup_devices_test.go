package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// withV2 is the caller whose limits cgroup v2 holds. Where v1 does, it wants the
// refusal of what v1 is not used for, and skips the rest.
func withV2(t *testing.T, controller string, flags ...string) *jail.Caller {
	t.Helper()
	c, by := limitedBy(t)
	if strings.Join(by, " ") == "cgroup1 cgroup1 cgroup1" {
		o := c.Run(t, jail.Job{Flags: flags, Sh: "echo RAN"})
		o.Refused(t, 125, jailer.CodeIsolationUnavailable, "cgroup.v2only."+controller, "cgroup v2 alone", "systemd.unified_cgroup_hierarchy=1")
	}
	return limited2(t)
}

// TestAbsentCPU: a CPU that this host has not is refused, whatever holds limits
// here: the kernel would take others in its place.
func TestAbsentCPU(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		strict := *c
		strict.Policy = ""
		for _, by := range []*jail.Caller{&strict, c.WithPolicy(t, "best.toml", jail.BestEffort)} {
			for _, set := range []string{"8000", "0,8000"} {
				o := by.Run(t, jail.Job{Flags: []string{"--cpuset", set}, Sh: "echo RAN"})
				o.Refused(t, 125, jailer.CodeIsolationUnavailable, set, "the CPUs of this host", "--cpuset")
				if o.Err.Reason != "cgroup.cpus" || strings.Contains(o.Stdout, "RAN") {
					t.Errorf("the reason is %q:\n%s", o.Err.Reason, o)
				}
			}
		}
	})
}

// A set of CPUs is one that the job can't leave.
func TestCPUSet(t *testing.T) {
	c := withV2(t, "cpuset", "--cpuset", "0")
	o := c.Run(t, jail.Job{Flags: []string{"--cpuset", "0"}, Sh: `
grep Cpus_allowed_list /proc/self/status
taskset -pc 1 $$ >/dev/null 2>&1 && echo moved
nproc`})
	if r := o.Exited(t, 0); strings.Join(strings.Fields(o.Out()), " ") != "Cpus_allowed_list: 0 1" || r.Isolation.Limits["cpuset"] != "cgroup2" {
		t.Errorf("on CPU 0 alone:\n%s", o)
	}
	o = c.Run(t, jail.Job{Flags: []string{"--cpuset", "0-"}, Sh: "echo RAN"})
	o.Refused(t, 125, jailer.CodeInvalidRequest, "limits.cpuset", "as in 0-1,3")
	if r := c.Run(t, jail.Job{Argv: []string{"true"}}).Exited(t, 0); r.Isolation.Limits["cpuset"] != "" {
		t.Errorf("limits %v without --cpuset", r.Isolation.Limits)
	}
}

// What a device gives is bounded in bytes per second. O_DIRECT passes by the page
// cache, which is not.
func TestIORate(t *testing.T) {
	flags := []string{"--io-read", "1M", "--io-write", "2M"}
	c := withV2(t, "io", flags...)
	file := large(t)
	read := fmt.Sprintf("dd if=%s of=/dev/null bs=256K count=16 iflag=direct 2>/dev/null && echo read", file)
	free := c.Run(t, jail.Job{Sh: read})
	if free.Exited(t, 0); free.Out() != "read\n" {
		need.Feature(t, "direct-io", false, "a file of this host's /usr can't be read with O_DIRECT")
	}
	o := c.Run(t, jail.Job{Flags: append(flags, "--timeout", jail.Timeout(60*time.Second)), Sh: read})
	r := o.Exited(t, 0)
	if r.DurationMs < 2500 || r.Isolation.Limits["io"] != "cgroup2" {
		t.Errorf("4 MiB at 1 MiB a second in %d ms, without a bound in %d ms:\n%s", r.DurationMs, free.Result.DurationMs, o)
	}
	id := fmt.Sprintf("io-%d", os.Getpid())
	l := start(t, c, append(flags, "--id", id), "echo ready; exec sleep 100")
	if m := job(t, id, "io.max"); !strings.Contains(m, "rbps=1048576 wbps=2097152") {
		t.Errorf("io.max is %q", m)
	}
	l.signal(t, os.Interrupt)
	l.end(t)
}

// large is a file of the host's /usr of 4 MiB or more, which the jail sees.
func large(t *testing.T) string {
	t.Helper()
	for _, pattern := range []string{"/usr/bin/*", "/usr/lib/*/*.so*", "/usr/lib/*/*/*/*"} {
		all, _ := filepath.Glob(pattern)
		for _, f := range all {
			if st, err := os.Lstat(f); err == nil && st.Mode().IsRegular() && st.Size() >= 4<<20 {
				return f
			}
		}
	}
	need.Feature(t, "large-file", false, "no file of 4 MiB in /usr")
	return ""
}

// With swap a job holds more than its memory, and no more than both together.
func TestSwap(t *testing.T) {
	swaps, _ := os.ReadFile("/proc/swaps")
	need.Feature(t, "swap", strings.Count(string(swaps), "\n") > 1, "this host has no swap")
	c := limited2(t)
	const fill = "head -c %dM /dev/zero | tail -n 1 | wc -c"
	for _, row := range []struct {
		flags []string
		mib   int
		ended bool
	}{
		{[]string{"--memory", "64M"}, 96, true},
		{[]string{"--memory", "64M", "--swap", "96M"}, 96, false},
		{[]string{"--memory", "64M", "--swap", "16M"}, 160, true},
	} {
		flags := append(row.flags, "--timeout", jail.Timeout(20*time.Second))
		o := c.Run(t, jail.Job{Flags: flags, Sh: fmt.Sprintf(fill, row.mib)})
		if row.ended {
			o.Ended(t, jailer.StatusOOMKilled, jailer.LimitMemory, 137)
			continue
		}
		o.Exited(t, 0)
	}
}

// A job that is throttled, and that waits for the CPU, says so.
func TestPressure(t *testing.T) {
	_, err := os.Stat("/proc/pressure/cpu")
	need.Feature(t, "psi", err == nil, fmt.Sprint(err))
	c := limited(t)
	o := c.Run(t, jail.Job{Flags: []string{"--cpus", "0.2", "--timeout", "3s"}, Sh: "for i in 1 2 3; do (while :; do :; done) & done; while :; do :; done"})
	u := o.Ended(t, jailer.StatusTimedOut, jailer.LimitWall, 124).Usage
	if u.ThrottledMs == nil || *u.ThrottledMs == 0 {
		t.Errorf("never throttled:\n%s", o)
	}
	p := u.Pressure
	if p == nil || p.CPU == nil || p.Memory == nil || p.IO == nil || p.CPU.SomeMs < 500 || p.CPU.FullMs > p.CPU.SomeMs {
		t.Errorf("four busy processes at a fifth of a CPU:\n%s", o)
	}
}

// The smallest memory and pids that are taken start a program, always; less is
// refused before the start, not killed after it.
func TestSmallest(t *testing.T) {
	c := limited(t)
	try := func(t *testing.T, argv ...string) {
		for range max(need.Times(20), 5) {
			c.Run(t, jail.Job{Flags: []string{"--memory", "1M", "--pids", "1"}, Argv: argv}).Exited(t, 0)
		}
	}
	t.Run("dynamic", func(t *testing.T) { try(t, "true") })
	t.Run("static", func(t *testing.T) {
		need.Program(t, "busybox")
		try(t, "busybox", "true")
	})
	o := c.Run(t, jail.Job{Flags: []string{"--memory", "1023K"}, Argv: []string{"true"}})
	o.Refused(t, 125, jailer.CodeInvalidRequest, "limits.memory", "1023K given, a jail needs at least 1M")
	o = c.Run(t, jail.Job{Flags: []string{"--pids", "0"}, Argv: []string{"true"}, Raw: true})
	if o.Code != 125 || !strings.Contains(o.Stderr, "must be positive") {
		t.Errorf("--pids 0:\n%s", o)
	}
}
