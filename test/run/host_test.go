package run

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// 1: limits are never dropped in silence.
func TestLimitsRefusedOrTold(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		flags := []string{"--memory", "64M"}
		t.Run("1 required", func(t *testing.T) {
			strict := *c
			strict.Policy = ""
			o := strict.Run(t, jail.Job{Flags: flags, Sh: "echo RAN"})
			if o.Result != nil {
				for _, limit := range []string{"memory", "pids", "cpu"} {
					if !o.Cgroup(limit) {
						t.Errorf("ran, and %s is held by %q:\n%s", limit, o.LimitedBy(limit), o)
					}
				}
				if len(o.Result.Isolation.NotEnforced) > 0 {
					t.Errorf("ran, and not all is enforced:\n%s", o)
				}
				return
			}
			// The controller, its file and the remedy.
			o.Refused(t, 125, jailer.CodeIsolationUnavailable, "memory", "/", "best-effort")
			if o.Err.Reason == "" || strings.Contains(o.Stdout, "RAN\n") {
				t.Error(o)
			}
		})
		t.Run("1 best effort", func(t *testing.T) {
			o := c.WithPolicy(t, "best.toml", jail.BestEffort).Run(t, jail.Job{Flags: flags, Argv: []string{"true"}})
			r := o.Exited(t, 0)
			for _, limit := range []string{"memory", "pids"} {
				if o.LimitedBy(limit) == "" && !slices.Contains(r.Isolation.NotEnforced, limit) {
					t.Errorf("nothing is said about %s:\n%s", limit, o)
				}
			}
			if !o.Cgroup("cpu") && !slices.Contains(r.Isolation.NotEnforced, "cpu") {
				t.Errorf("nothing is said about cpu:\n%s", o)
			}
			if !r.Isolation.UserNS || !r.Isolation.NetNS || r.Isolation.Seccomp != "default" {
				t.Errorf("isolation:\n%s", o)
			}
		})
	})
}

// 4: a host with controllers on v1 is named as what it is.
func TestDoctorNamesHybrid(t *testing.T) {
	t.Parallel()
	_, err1 := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes")
	_, err2 := os.Stat("/sys/fs/cgroup/unified/cgroup.controllers")
	need.Feature(t, "hybrid", err1 == nil && err2 == nil, "this host has no hybrid cgroups")
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		o := c.Do(t, jail.Job{Raw: true}, "doctor")
		text := o.Stdout + o.Stderr
		if !strings.Contains(text, "memory, pids, cpu") && !strings.Contains(text, "memory, cpu, pids") || !strings.Contains(text, "v1") {
			t.Errorf("doctor does not name the arrangement:\n%s", o)
		}
	})
}
