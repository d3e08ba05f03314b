package ways

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/test/jail"
)

// cases are situations that people met with other tools and that the arrangement
// of a host could bring back, wherever a jail can have everything: that there is a
// cgroup doesn't say that it holds. The numbers are those of test/run.
func cases(t *testing.T, c *jail.Caller) {
	for _, tc := range []struct {
		name  string
		job   jail.Job
		check func(*testing.T, *jail.Outcome)
	}{
		{
			"11 one process is enough",
			jail.Job{Flags: []string{"--pids", "1"}, Argv: []string{"true"}},
			func(t *testing.T, o *jail.Outcome) { o.Exited(t, 0) },
		},
		{
			"11 four are, and a fifth is one too many",
			jail.Job{Flags: []string{"--pids", "4"}, Sh: "sleep 100 & sleep 100 & sleep 100 & echo four; sleep 100 & wait"},
			func(t *testing.T, o *jail.Outcome) {
				if r := o.Exited(t, 2); o.Out() != "four\n" || !slices.Contains(r.LimitsHit, "pids") {
					t.Errorf("limitsHit %v:\n%s", r.LimitsHit, o)
				}
			},
		},
		{
			"26 a child, and the parent exits 0",
			jail.Job{Flags: []string{"--memory", "32M"}, Sh: eater},
			func(t *testing.T, o *jail.Outcome) { o.Ended(t, "oom_killed", "memory", 137) },
		},
		{
			"36 a full tmpfs is no lack of memory",
			jail.Job{Flags: []string{"--memory", "64M"}, Sh: "for d in /workspace /tmp $HOME /dev/shm; do head -c 48M /dev/zero >$d/x; done; du -cm /workspace /tmp $HOME /dev/shm | sed -n '$s/.total//p'"},
			func(t *testing.T, o *jail.Outcome) {
				r := o.Exited(t, 0)
				if mib, err := strconv.Atoi(strings.TrimSpace(o.Out())); err != nil || mib < 24 || mib > 32 {
					t.Errorf("all four hold %d MiB, want 24 to 32:\n%s", mib, o)
				}
				if strings.Count(o.ErrOut(), "No space left") != 4 || *r.Usage.OOMKills != 0 {
					t.Errorf("%d killed for memory:\n%s", *r.Usage.OOMKills, o)
				}
			},
		},
		{
			"40 few descriptors",
			jail.Job{Sh: "ulimit -Sn; ulimit -Hn"},
			func(t *testing.T, o *jail.Outcome) { o.Said(t, "1024\n4096\n") },
		},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.check(t, c.Run(t, tc.job)) })
	}
}
