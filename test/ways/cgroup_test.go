package ways

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

var controllers = []string{"memory", "pids", "cpu"}

// full is a caller who can have everything: with the built-in policy a run is
// limited by cgroup v2, and doctor says so.
func full(t *testing.T, c *jail.Caller, warnings ...string) {
	t.Helper()
	c = builtin(c)
	ran(t, c.Run(t, job), "cgroup2")
	fs := doctor(t, c)
	for _, ctl := range controllers {
		if f := found(t, fs, "cgroup."+ctl, "yes"); !f.Needed || f.Cause != "" {
			t.Errorf("doctor: %+v", f)
		}
	}
	found(t, fs, "cgroup.hierarchy", "yes")
	found(t, fs, "userns.create", "yes")
	warned(t, fs, warnings...)
	cases(t, c)
	// What can be held can be required.
	strict := c.WithPolicy(t, "strict.toml", jail.BestEffort+`[profiles.strict]
extends = "default"
require = ["userns", "netns", "seccomp", "memory", "pids", "cpu"]
`)
	ran(t, strict.Run(t, with("--profile", "strict")), "cgroup2")
}

func root(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("not root")
	}
	full(t, jail.Root(t))
}

// user is the process itself, whom nobody plays.
func user(t *testing.T) *jail.Caller {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Fatal("root")
	}
	return jail.User(t)
}

func delegated(t *testing.T) {
	c := user(t)
	full(t, c, "ids.subuid")
	t.Run("no range of ids", func(t *testing.T) {
		r := builtin(c).WithPolicy(t, "range.toml", rangePolicy)
		refused(t, r.Run(t, job), "ids.subuid", "usermod --add-subuids", `ids = "single"`)
		if f := found(t, doctor(t, r, "ids.subuid"), "ids.subuid", "no"); !strings.Contains(f.Hint, "usermod --add-subuids") {
			t.Errorf("doctor: %+v", f)
		}
	})
}

// The drop-in that hintDropin matches has been written, and the user has logged
// in again: nothing else was done, and everything is there.
func dropin(t *testing.T) {
	if b, err := os.ReadFile(dropinFile); err != nil || !strings.Contains(string(b), dropinLine) {
		t.Errorf("%q, %v: this is not the way that the hint describes", b, err)
	}
	full(t, user(t), "ids.subuid")
}

// What the hint tells an administrator to write, and where.
const (
	dropinFile = "/etc/systemd/system/user@.service.d/delegate.conf"
	dropinLine = "Delegate=cpu cpuset io memory pids"
)

// partial: the one controller that is missing is named, and no other.
func partial(t *testing.T) {
	c := user(t)
	strict := builtin(c)
	o := strict.Run(t, job)
	refused(t, o, "cgroup.delegation.cpu", "cpu: not delegated", "memory, pids", "/cgroup.controllers", dropinFile, dropinLine, "systemctl daemon-reload", "best-effort")
	if m := o.Err.Error(); strings.Contains(m, "memory, pids, cpu") || strings.Contains(m, "pids, cpu:") {
		t.Errorf("more than cpu is said to be missing: %s", m)
	}
	fs := doctor(t, strict, "cgroup.cpu")
	f := found(t, fs, "cgroup.cpu", "no")
	if f.Cause != "cgroup.delegation.cpu" || !strings.Contains(f.Hint, dropinFile) || !strings.Contains(f.Hint, dropinLine) {
		t.Errorf("doctor: %+v", f)
	}
	found(t, fs, "cgroup.memory", "yes")
	found(t, fs, "cgroup.pids", "yes")
	warned(t, fs, "cgroup.cpuset", "cgroup.io", "ids.subuid")

	// With best effort what is there is used.
	best := builtin(c).WithPolicy(t, "best.toml", jail.BestEffort)
	r := best.Run(t, job).Said(t, "RAN\n")
	if l := r.Isolation.Limits; l["memory"] != "cgroup2" || l["pids"] != "cgroup2" || l["cpuTime"] != "cgroup2" || l["cpu"] != "" {
		t.Errorf("limits %v", l)
	}
	if !slices.Equal(r.Isolation.NotEnforced, []string{"cpu"}) {
		t.Errorf("notEnforced %v, want cpu alone", r.Isolation.NotEnforced)
	}
	best.Run(t, jail.Job{Flags: []string{"--memory", "32M"}, Sh: eater}).Ended(t, jailer.StatusOOMKilled, jailer.LimitMemory, 137)
	for _, ctl := range controllers {
		if f := doctor(t, best)["cgroup."+ctl]; f.Needed {
			t.Errorf("doctor: %+v", f)
		}
	}
	t.Run("what is required under best effort", func(t *testing.T) {
		for _, ctl := range controllers {
			p := c.WithPolicy(t, ctl+".toml", jail.BestEffort+"[profiles.strict]\nextends = \"default\"\nrequire = [\""+ctl+"\"]\n")
			o := p.Run(t, with("--profile", "strict"))
			if ctl == "cpu" {
				refused(t, o, "require.cpu", ctl, "doctor")
				continue
			}
			o.Said(t, "RAN\n")
		}
	})
}

// eater wants four times 32 MiB.
const eater = "head -c 128M /dev/zero | tail -n 1 >/dev/null; echo on"

// bestEffort is the control: with a policy that accepts rlimits the command
// runs, and the result says what holds and what nothing does.
func bestEffort(t *testing.T, c *jail.Caller) {
	t.Helper()
	b := builtin(c).WithPolicy(t, "best.toml", jail.BestEffort)
	r := ran(t, b.Run(t, job), "rlimit")
	if !slices.Contains(r.Isolation.NotEnforced, "cpu") {
		t.Errorf("notEnforced %v is without cpu", r.Isolation.NotEnforced)
	}
	if !r.Isolation.UserNS || !r.Isolation.NetNS || r.Isolation.Seccomp != "default" {
		t.Errorf("isolation %+v", r.Isolation)
	}
	for _, ctl := range controllers {
		if f := doctor(t, b)["cgroup."+ctl]; f.Needed {
			t.Errorf("doctor: %+v", f)
		}
	}
	// Of memory, that the stand-in holds.
	o := b.Run(t, jail.Job{Flags: []string{"--memory", "32M"}, Sh: eater})
	if s := o.Ran(t); s.Status != jailer.StatusExited || !strings.Contains(o.Out(), "on\n") || !strings.Contains(o.ErrOut(), "memory exhausted") {
		t.Errorf("128 MiB under an rlimit of 32:\n%s", o)
	}
}
