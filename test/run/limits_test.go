package run

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// marked is a sleep that the host can find: nobody else has that number.
func marked(n int) string { return fmt.Sprintf("3%02d.%06d", n, os.Getpid()) }

func TestTimeLimits(t *testing.T) {
	// Enough for a shell to begin.
	timeout := min(need.Time(2*time.Second), 5*time.Second)
	wall := func(mark, said string) func(*testing.T, *jail.Caller, *jail.Outcome) {
		return func(t *testing.T, c *jail.Caller, o *jail.Outcome) {
			r := o.Ended(t, jailer.StatusTimedOut, jailer.LimitWall, 124)
			o.Within(t, prompt)
			if r.DurationMs < timeout.Milliseconds() || o.Out() != said {
				t.Errorf("ended after %d ms, with the output %q, want %q", r.DurationMs, o.Out(), said)
			}
			jail.Gone(t, 0, jail.Marked(mark))
			if d := jail.Cgroups(t, r.SessionID); len(d) > 0 {
				t.Errorf("left cgroups: %v", d)
			}
		}
	}
	short := []string{"--timeout", timeout.String()}
	each(t, []row{
		{"17 TERM ignored, and a session of its own", jail.Job{
			Flags: short,
			Sh:    `trap "" TERM; setsid sh -c "echo up; sleep ` + marked(1) + `; :" & sleep ` + marked(1),
		}, wall(marked(1), "up\n")},
		{"17 stopped", jail.Job{Flags: short, Sh: `echo up; kill -STOP $$; sleep ` + marked(2)}, wall(marked(2), "up\n")},
		{"17 all stopped", jail.Job{Flags: short, Sh: `sleep ` + marked(3) + ` & echo up; kill -STOP $! $$`}, wall(marked(3), "up\n")},
		{"25b sleep", jail.Job{Flags: short, Argv: []string{"sleep", marked(4)}}, wall(marked(4), "")},
		{
			"18 a child holds stdout",
			jail.Job{Sh: `sleep ` + marked(5) + ` & echo done`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Said(t, "done\n")
				o.Within(t, prompt)
				if r.LeftoverKilled == nil || *r.LeftoverKilled != 1 {
					t.Errorf("leftoverKilled is not 1:\n%s", o)
				}
				jail.Gone(t, 0, jail.Marked(marked(5)))
			},
		},
		{
			"18 a daemon holds stdout",
			jail.Job{Sh: `(setsid sleep ` + marked(6) + ` &) ; (setsid sleep ` + marked(6) + ` &) ; echo done`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Said(t, "done\n")
				o.Within(t, prompt)
				if r.LeftoverKilled == nil || *r.LeftoverKilled != 2 {
					t.Errorf("leftoverKilled is not 2:\n%s", o)
				}
				jail.Gone(t, 0, jail.Marked(marked(6)))
			},
		},
		{
			"CPU time",
			jail.Job{Flags: []string{"--cpus", "0.2", "--cpu-time", "1s", "--timeout", "60s"}, Sh: `while :; do :; done`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Ended(t, jailer.StatusTimedOut, jailer.LimitCPU, 124)
				if r.Usage.CPUUserMs == nil || r.Usage.CPUSystemMs == nil {
					t.Fatalf("no CPU time measured:\n%s", o)
				}
				used := *r.Usage.CPUUserMs + *r.Usage.CPUSystemMs
				least := int64(900)
				if !o.Cgroup("cpuTime") {
					least = 500 // RLIMIT_CPU counts ticks, of which a busy host charges too many
				}
				if used < least || used > 2500 {
					t.Errorf("used %d ms of CPU, want about 1000", used)
				}
				if !o.Cgroup("cpu") {
					if !slices.Contains(r.Isolation.NotEnforced, "cpu") {
						t.Errorf("cpu is neither held by a cgroup nor in notEnforced:\n%s", o)
					}
					return
				}
				if r.DurationMs < 3*used {
					t.Errorf("0.2 CPUs: %d ms of CPU in %d ms", used, r.DurationMs)
				}
				if r.Usage.ThrottledMs == nil || *r.Usage.ThrottledMs == 0 {
					t.Errorf("never throttled:\n%s", o)
				}
			},
		},
		{
			"CPU time, SIGXCPU ignored",
			jail.Job{Flags: []string{"--cpu-time", "1s", "--timeout", "60s"}, Sh: `trap "" XCPU; while :; do :; done`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				o.Ended(t, jailer.StatusTimedOut, jailer.LimitCPU, 124)
			},
		},
		{
			"CPU time of all processes",
			jail.Job{Flags: []string{"--cpu-time", "2s", "--timeout", "100s"}, Sh: `
for i in 1 2 3 4; do (while :; do :; done) & done; wait`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				if !o.Cgroup("cpuTime") {
					// RLIMIT_CPU is each process's: all four die of it, and the shell goes on.
					o.Exited(t, 0)
					return
				}
				o.Ended(t, jailer.StatusTimedOut, jailer.LimitCPU, 124)
			},
		},
	})
}

// hog takes 256 MiB and says so.
const hog = `x = bytearray(1<<28); print("had it")`

// sockets fills the buffers of connections on the loopback, 200 MiB at most, and
// says how many MiB the kernel holds for them.
const sockets = `
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(128)
held, open_ = 0, []
while held < 200 << 20 and len(open_) < 600:
    c = socket.socket(); c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    c.connect(s.getsockname()); a, _ = s.accept(); open_ += [c, a]
    c.setblocking(False)
    try:
        while held < 200 << 20: held += c.send(b"x" * 65536)
    except BlockingIOError: pass
print(held >> 20)`

func TestMemoryLimit(t *testing.T) {
	need.Program(t, "python3")
	flags := []string{"--memory", "64M"}
	killed := func(t *testing.T, c *jail.Caller, o *jail.Outcome) {
		t.Helper()
		o.Within(t, prompt)
		if strings.Contains(o.Out(), "had it") {
			t.Errorf("256 MiB under a limit of 64:\n%s", o)
		}
		if !o.Cgroup("memory") {
			// RLIMIT_DATA refuses the allocation; nothing is killed.
			if r := o.Ran(t); r.Status != jailer.StatusExited || o.LimitedBy("memory") != "rlimit" || !strings.Contains(o.ErrOut(), "MemoryError") {
				t.Error(o)
			}
			return
		}
		r := o.Ended(t, jailer.StatusOOMKilled, jailer.LimitMemory, 137)
		if r.Usage.OOMKills == nil || *r.Usage.OOMKills < 1 {
			t.Errorf("no oomKills:\n%s", o)
		}
		if p := r.Usage.MemoryPeakBytes; p == nil || *p < 16<<20 || *p > 65<<20 {
			t.Errorf("the peak is not between 16 and 65 MiB:\n%s", o)
		}
	}
	each(t, []row{
		{"25a the command", jail.Job{Flags: flags, Argv: []string{"python3", "-c", hog}}, killed},
		{"26 a child, and the parent exits 0", jail.Job{Flags: flags, Sh: `python3 -c '` + hog + `'; exit 0`}, killed},
		{"26 a child, and the parent goes on", jail.Job{Flags: flags, Sh: `python3 -c '` + hog + `'; echo hi; sleep 1; exit 0`}, killed},
		{
			"27 swap is no way out",
			jail.Job{Flags: flags, Argv: []string{"python3", "-c", hog}},
			func(t *testing.T, c *jail.Caller, o *jail.Outcome) {
				swaps, _ := os.ReadFile("/proc/swaps")
				need.Feature(t, "swap", strings.Count(string(swaps), "\n") > 1, "this host has no swap")
				killed(t, c, o)
			},
		},
		{
			"files in memory count",
			jail.Job{Flags: []string{"--memory", "96M"}, Sh: `
head -c 40M /dev/zero >/workspace/x; python3 -c 'x = bytearray(80<<20); print("had it")'; exit 0`},
			func(t *testing.T, c *jail.Caller, o *jail.Outcome) {
				if o.Cgroup("memory") {
					o.Ended(t, jailer.StatusOOMKilled, jailer.LimitMemory, 137)
				}
			},
		},
		{
			"32 socket buffers count",
			jail.Job{Flags: []string{"--memory", "64M", "--timeout", jail.Timeout(20 * time.Second)}, Argv: []string{"python3", "-c", sockets}},
			func(t *testing.T, c *jail.Caller, o *jail.Outcome) {
				if !o.Cgroup("memory") {
					return
				}
				// Held back or killed, never beyond the limit.
				if n, _ := strconv.Atoi(strings.TrimSpace(o.Out())); n > 96 {
					t.Errorf("%d MiB in the buffers of sockets under a limit of 64:\n%s", n, o)
				}
			},
		},
		{"enough is enough", jail.Job{Flags: []string{"--memory", "512M"}, Argv: []string{"python3", "-c", hog}}, says("had it\n")},
	})
}

func TestProcessLimit(t *testing.T) {
	// The bomb is at 16 processes, and for a user limited by the kernel's count
	// of his own namespace: the host can't be harmed.
	each(t, []row{
		{
			"35 fork bomb",
			jail.Job{Flags: []string{"--pids", "16", "--timeout", "5s"}, Sh: `f(){ f|f& };f; sleep 10`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				o.Within(t, prompt)
				r := o.Ran(t)
				timedOut := r.Status == jailer.StatusTimedOut && o.Code == 124
				if !timedOut && !strings.Contains(strings.ToLower(o.ErrOut()), "cannot fork") {
					t.Errorf("neither out of time nor \"cannot fork\":\n%s", o)
				}
				if o.Cgroup("pids") {
					if !slices.Contains(r.LimitsHit, "pids") {
						t.Errorf("limitsHit is without pids:\n%s", o)
					}
					if p := r.Usage.PidsPeak; p == nil || *p > 16 {
						t.Errorf("pidsPeak is not at most 16:\n%s", o)
					}
				} else if o.LimitedBy("pids") != "rlimit" {
					t.Errorf("who holds pids?\n%s", o)
				}
				if out, err := exec.Command("/bin/sh", "-c", "echo forks | cat").Output(); err != nil || string(out) != "forks\n" {
					t.Errorf("the host: %q, %v", out, err)
				}
			},
		},
		{"11 one process", jail.Job{Flags: []string{"--pids", "1"}, Argv: []string{"true"}}, says("")},
		{"11 four processes", jail.Job{Flags: []string{"--pids", "4"}, Sh: `sleep 100 & a=$!; sleep 100 & b=$!; sleep 100 & kill $a $b $!; wait; echo ok`}, says("ok\n")},
		{
			"11 not a fifth",
			jail.Job{Flags: []string{"--pids", "4"}, Sh: strings.Repeat(`sleep 100 & `, 4) + `wait; echo all`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				o.Ran(t)
				if !strings.Contains(strings.ToLower(o.ErrOut()), "cannot fork") {
					t.Errorf("a fifth process:\n%s", o)
				}
				if o.Cgroup("pids") && !slices.Contains(o.Result.LimitsHit, "pids") {
					t.Errorf("limitsHit is without pids:\n%s", o)
				}
			},
		},
		// Until nobody is left but PID 1 and the shell.
		{"20 zombies are reaped", jail.Job{Sh: `
for i in $(seq 100); do (sh -c "exit 0" &) ; done
until set -- /proc/[0-9]*; [ $# -eq 2 ]; do sleep 0.1; done; echo $i`}, says("100\n")},
	})
}

func TestSpaceLimits(t *testing.T) {
	fill := func(dir string, mib int) row {
		return row{
			"36 bytes of " + dir,
			jail.Job{Sh: `
head -c 2G /dev/zero >` + dir + `/x; echo $?; du -m ` + dir + `/x | cut -f1`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Exited(t, 0)
				if ws := dir == "/workspace"; slices.Contains(r.LimitsHit, "workspace") != ws ||
					r.Usage.WorkspaceBytes == nil || (*r.Usage.WorkspaceBytes == int64(mib)<<20) != ws {
					t.Errorf("%s is full; limitsHit %v, usage of the workspace %v", dir, r.LimitsHit, r.Usage.WorkspaceBytes)
				}
				if o.Out() != fmt.Sprintf("1\n%d\n", mib) || !strings.Contains(o.ErrOut(), "No space left on device") {
					t.Errorf("want ENOSPC at %d MiB, got:\n%s", mib, o)
				}
			},
		}
	}
	inodes := func(dir string) row {
		return row{
			"36 inodes of " + dir,
			jail.Job{Flags: []string{"--timeout", jail.Timeout(200 * time.Second)}, Sh: `
cd ` + dir + ` && i=0; while printf "" >f$i; do i=$((i+1)); [ $i -gt 40000 ] && break; done; echo $i; touch one 2>&1; exit 0`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Ran(t)
				var n int
				if _, err := fmt.Sscan(o.Out(), &n); err != nil || n < 1000 || n > 20000 || r.Status != jailer.StatusExited ||
					!strings.Contains(o.Out(), "No space left on device") {
					t.Errorf("want ENOSPC after at most 16 k files, got:\n%s", o)
				}
			},
		}
	}
	each(t, []row{
		fill("/workspace", 256), fill("/tmp", 64), fill("$HOME", 64), fill("/dev/shm", 64),
		inodes("/workspace"), inodes("/tmp"), inodes("$HOME"), inodes("/dev/shm"),
		{"36 nothing else is writable", jail.Job{Sh: `
for d in / /usr /usr/bin /etc /home /dev /proc /proc/sys/kernel /sys /run /var /opt /srv; do
	[ -d $d ] && { touch $d/x 2>/dev/null || mkdir $d/y 2>/dev/null; } && echo "writable: $d"
done; mount 2>/dev/null | grep -c . >/dev/null; echo done`}, says("done\n")},
		{"38 size of /dev/shm", jail.Job{Flags: []string{"--tmp-size", "16M"}, Sh: `df -k /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2`}, says("16384\n")},
	})
}

// 38: each jail has a /dev/shm of its own, as it has its own of everything.
func TestNothingShared(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		t.Parallel()
		c.Run(t, jail.Job{Sh: `for d in /dev/shm /tmp ~ /workspace; do echo a >$d/k; done; ls /tmp`}).Said(t, "k\n")
		c.Run(t, jail.Job{Sh: `ls -A /dev/shm /tmp ~ /workspace | grep -x k; echo`}).Said(t, "\n")
	})
}

// However a run ends, nothing of it is left: no cgroup, mount, directory.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for name, j := range map[string]jail.Job{
			"exit":    {Sh: "exit 0"},
			"nosuch":  {Argv: []string{"nosuch"}},
			"timeout": {Flags: []string{"--timeout", "300ms"}, Sh: "sleep 100 & sleep 100"},
			"refused": {Flags: []string{"--timeout", "24h"}, Sh: "true"},
			"cwd":     {Flags: []string{"--cwd", "/nosuch"}, Sh: "true"},
		} {
			id := fmt.Sprintf("left-%d-%s", os.Getpid(), name)
			j.Flags = append(j.Flags, "--id", id)
			c.Run(t, j)
			c.NothingLeft(t, id)
		}
	})
}

// What the result says of the job is measured on the job alone, and what was not
// measured is absent.
func TestUsage(t *testing.T) {
	each(t, []row{{"usage is the job's alone", jail.Job{Sh: `sleep 0.2`}, func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
		r := o.Exited(t, 0)
		u := r.Usage
		if u.CPUUserMs == nil || u.CPUSystemMs == nil || *u.CPUUserMs+*u.CPUSystemMs > need.Time(400*time.Millisecond).Milliseconds() {
			t.Errorf("CPU time of a sleep:\n%s", o)
		}
		// The job may have begun before jailer, waiting for a CPU, learned of it.
		if r.DurationMs < 100 || r.SetupMs == nil || *r.SetupMs <= 0 || time.Since(r.StartedAt) > time.Hour {
			t.Errorf("times:\n%s", o)
		}
		if !o.Cgroup("memory") {
			if u.MemoryPeakBytes != nil || u.PidsPeak != nil || u.OOMKills != nil || u.ThrottledMs != nil {
				t.Errorf("measured without a cgroup:\n%s", o)
			}
			return
		}
		if u.MemoryPeakBytes == nil || *u.MemoryPeakBytes == 0 || *u.MemoryPeakBytes > 32<<20 {
			t.Errorf("memory of a sleep:\n%s", o)
		}
		if u.PidsPeak == nil || *u.PidsPeak < 1 || *u.PidsPeak > 2 {
			t.Errorf("processes of a sleep:\n%s", o)
		}
	}}})
}
