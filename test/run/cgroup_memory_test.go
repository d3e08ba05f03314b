package run

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// 27: swap is no way out. A job fills a tmpfs, which could go to swap as a
// whole, and then wants more than its limit: it is killed, and until then not one
// byte of it was swapped, as the host sees in the job's own files.
func TestSwapIsDenied(t *testing.T) {
	t.Parallel()
	swaps, _ := os.ReadFile("/proc/swaps")
	need.Feature(t, "swap", strings.Count(string(swaps), "\n") > 1, "this host has no swap")
	c := limited2(t)
	id := fmt.Sprintf("swap-%d", os.Getpid())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	// tail holds a line that never ends, until it may.
	l := startWith(t, c, r, []string{"--id", id, "--memory", "64M"}, `
head -c 18M /dev/zero >/workspace/x
echo ready
{ head -c 36M /dev/zero; read x; } | tail -n 1 | wc -c
i=0; while [ $i -lt 4 ]; do head -c 36M /dev/zero | tail -n 1 | wc -c; i=$((i+1)); done
head -c 128M /dev/zero | tail -n 1 | wc -c; sleep 100`)
	if m := job(t, id, "memory.swap.max"); m != "0" {
		t.Errorf("memory.swap.max is %q", m)
	}
	most := map[string]int64{}
	look := func() {
		for _, file := range []string{"memory.current", "memory.swap.current", "memory.swap.peak"} {
			n, _ := strconv.ParseInt(job(t, id, file), 10, 64)
			most[file] = max(most[file], n)
		}
	}
	if !jail.Eventually(prompt, func() bool { look(); return most["memory.current"] >= 54<<20 }) {
		t.Errorf("the job was seen with %d MiB at most, want 54 or more", most["memory.current"]>>20)
	}
	w.WriteString("\n")
	// It is over when the files are gone.
	if !jail.Eventually(prompt, func() bool { look(); return len(jail.Cgroups(t, id)) == 0 }) {
		t.Errorf("it goes on beyond its limit: %v", most)
	}
	code, res := l.end(t)
	if res.Status != jailer.StatusOOMKilled || code != 137 || strings.Contains(l.text(), "134217728") {
		t.Errorf("exit status %d, %s: %q", code, res.Status, l.text())
	}
	if most["memory.current"] > 64<<20 {
		t.Errorf("the job was seen with %d MiB, want 64 at most", most["memory.current"]>>20)
	}
	if most["memory.swap.current"] > 0 || most["memory.swap.peak"] > 0 {
		t.Errorf("swapped: %v", most)
	}
}

// job reads a file of a running job's cgroup; "" if it is not there, or no more.
func job(t *testing.T, id, file string) string {
	t.Helper()
	for _, d := range jail.Cgroups(t, id) {
		if b, err := os.ReadFile(d + "/job-1/" + file); err == nil {
			return strings.TrimSpace(string(b))
		}
	}
	return ""
}

// 37: a full tmpfs is ENOSPC, which a program can handle, and not the end by the
// memory limit, to which the kernel charges it.
func TestTmpfsFillsBeforeMemory(t *testing.T) {
	t.Parallel()
	c := limited(t)
	fill := `for d in /tmp /workspace /dev/shm "$HOME"; do dd if=/dev/zero of=$d/x bs=64k 2>&1 | grep -o "No space left on device"; done
du -k /tmp/x | cut -f1; echo on`
	for _, tc := range []struct {
		flags []string
		least int // KiB in /tmp
	}{
		{[]string{"--memory", "64M"}, 4 << 10},
		{[]string{"--memory", "64M", "--tmp-size", "8M"}, 8 << 10},
		{[]string{"--memory", "256M", "--tmp-size", "32M"}, 32 << 10},
		{[]string{"--memory", "16M"}, 1 << 10},
	} {
		t.Run(strings.Join(tc.flags, " "), func(t *testing.T) {
			o := c.Run(t, jail.Job{Flags: tc.flags, Sh: fill})
			r := o.Exited(t, 0)
			lines := strings.Split(strings.TrimSpace(o.Out()), "\n")
			if len(lines) != 6 || strings.Count(o.Out(), "No space left on device\n") != 4 || lines[5] != "on" {
				t.Fatalf("want four times ENOSPC:\n%s", o)
			}
			if n, err := strconv.Atoi(lines[4]); err != nil || n < tc.least {
				t.Errorf("%d KiB went into /tmp, want at least %d", n, tc.least)
			}
			if r.Usage.OOMKills == nil || *r.Usage.OOMKills != 0 || len(r.LimitsHit) != 1 || r.LimitsHit[0] != "workspace" {
				t.Errorf("limitsHit %v:\n%s", r.LimitsHit, o)
			}
		})
	}
	// Sizes that could not fit are refused beforehand.
	o := c.Run(t, jail.Job{Flags: []string{"--memory", "64M", "--tmp-size", "32M"}, Sh: "echo RAN"})
	if o.Result != nil || o.Code != 125 || o.Err.Code != jailer.CodeInvalidRequest || !strings.Contains(o.Err.Error(), "tmp_size") {
		t.Error(o)
	}
}

// What is measured is what was used.
func TestPeaks(t *testing.T) {
	t.Parallel()
	c := limited(t)
	o := c.Run(t, jail.Job{Flags: []string{"--pids", "16"}, Sh: `
head -c 48M /dev/zero >/workspace/x; rm /workspace/x
sleep 100 & a=$!; sleep 100 & b=$!; sleep 100 & kill $a $b $!; wait`})
	r := o.Exited(t, 0)
	if p := r.Usage.MemoryPeakBytes; p == nil || *p < 48<<20 || *p > 64<<20 {
		t.Errorf("the peak of 48 MiB and a shell:\n%s", o)
	}
	if p := r.Usage.PidsPeak; p == nil || *p != 4 {
		t.Errorf("the peak of a shell and three children:\n%s", o)
	}
	if len(r.LimitsHit) > 0 {
		t.Errorf("limitsHit %v", r.LimitsHit)
	}
}
