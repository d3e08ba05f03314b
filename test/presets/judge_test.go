package presets

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// verdict is what a judge makes of a result.
func verdict(o *jail.Outcome, want string) string {
	r := o.Result
	switch {
	case r == nil:
		return "no verdict: " + o.String()
	case r.Limit != nil:
		return map[jailer.Limit]string{
			jailer.LimitWall: "too slow", jailer.LimitCPU: "too slow", jailer.LimitMemory: "too greedy", jailer.LimitOutput: "too much",
		}[*r.Limit]
	case r.Status == jailer.StatusSignaled:
		return "crashed: " + *r.Signal
	case r.Status != jailer.StatusExited:
		return string(r.Status)
	case o.Code != 0:
		return fmt.Sprint("failed: ", o.Code)
	case o.Out() != want:
		return "wrong"
	}
	return "right"
}

// Compile, then judge: the verdicts of right, wrong, slow, greedy, crashing, flooding and
// dishonest programs.
func TestJudge(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		programs, trees := gcc(t)
		// No shell: nothing is there that a submission could use but the compiler.
		c = preset(t, c, "judge", root(t, c, programs, trees))
		dir := c.DataDir(t)
		const scan = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nint main() { long a, b; if (scanf(\"%ld %ld\", &a, &b) != 2) return 3; "
		for name, sub := range map[string]struct{ source, want string }{
			"right":     {`printf("%ld\n", a + b); }`, "right"},
			"wrong":     {`printf("%ld\n", a - b); }`, "wrong"},
			"slow":      {`for (volatile long i = 0;; i++); }`, "too slow"},
			"asleep":    {`for (;;) pause(); }`, "too slow"},
			"greedy":    {`for (;;) { char *p = malloc(1 << 20); if (p) memset(p, 1, 1 << 20); } }`, "too greedy"},
			"crash":     {`return *(volatile int *)0; }`, "crashed: SIGSEGV"},
			"flood":     {`for (;;) puts("0123456789012345678901234567890123456789"); }`, "too much"},
			"dishonest": {`FILE *f = fopen("/workspace/a", "w"); if (!f) f = fopen("/workspace/b", "w"); puts(f ? "changed" : "3"); return 0; }`, "right"},
			"bomb":      {`int n = 0; for (int i = 0; i < 100; i++) { int p = fork(); if (p == 0) { sleep(5); _exit(0); } if (p > 0) n++; } return n < 20 ? 7 : 0; }`, "failed: 7"},
		} {
			t.Run(name, func(t *testing.T) {
				flags := []string{"--workspace", "contest/" + name, "--data-dir", dir}
				source := c.File(t, name+".c", scan+sub.source)
				o := c.Run(t, jail.Job{Flags: append(flags, "--profile", "compile", "--timeout", "60s", "--file", "/workspace/a.c="+source), Argv: []string{"gcc", "-O1", "-o", "a", "a.c"}})
				compiled := o.Exited(t, 0)
				began := time.Now()
				cases := make([]*jail.Outcome, need.Times(3))
				var all sync.WaitGroup
				times := []string{"--timeout", "60s", "--cpu-time", "30s"}
				if sub.want == "too slow" { // a task's own limits
					times = []string{"--timeout", need.Pace(time.Second).String(), "--cpu-time", "500ms"}
				}
				for i := range cases {
					all.Go(func() {
						cases[i] = c.Run(t, jail.Job{Flags: slices.Concat(flags, times, []string{"--stdin", "-"}), Stdin: strings.NewReader("1 2\n"), Argv: []string{"./a"}})
					})
				}
				all.Wait()
				for _, o := range cases {
					if got := verdict(o, "3\n"); got != sub.want {
						t.Errorf("%q, want %q: %s", got, sub.want, o)
					}
				}
				u := cases[0].Result.Usage
				t.Logf("%s: compiled in %d ms, %d cases in %v, of which one %d ms CPU, %v bytes", sub.want, compiled.DurationMs, len(cases), time.Since(began).Round(time.Millisecond), *u.CPUUserMs+*u.CPUSystemMs, *u.MemoryPeakBytes)
			})
		}
		if o := c.Run(t, jail.Job{Flags: []string{"--profile", "compile", "--timeout", "60s"}, Argv: []string{"gcc", "missing.c"}}); o.Code != 1 || !strings.Contains(o.ErrOut(), "missing.c") {
			t.Errorf("%s", o)
		}
		o := c.Run(t, jail.Job{Flags: []string{"--rootfs", "host", "--timeout", "1s"}, Argv: []string{"true"}})
		o.Refused(t, 126, jailer.CodePolicyDenied, "rootfs")
	})
}
