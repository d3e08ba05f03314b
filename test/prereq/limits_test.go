package prereq

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

func itoa(n int) string { return strconv.Itoa(n) }

// 1: a limit that nothing can hold, for a caller without a delegated cgroup.
func TestNoDelegation(t *testing.T) {
	c := jail.User(t)
	strict := *c
	strict.Policy = ""
	o := strict.Run(t, job)
	need.Feature(t, "undelegated", o.Err != nil, "this user's cgroup is delegated, with all controllers")
	if o.Err.Reason == "" {
		t.Error("no reason")
	}
	refused(t, o, jailer.CodeIsolationUnavailable, o.Err.Reason, "memory", "best-effort")

	t.Run("policy says required", func(t *testing.T) {
		o := c.WithPolicy(t, "required.toml", "version = 1\nextends = \"builtin\"\n[limits]\nenforce = \"required\"\n").Run(t, job)
		refused(t, o, jailer.CodeIsolationUnavailable, o.Err.Reason, "best-effort")
	})
	for _, limit := range []string{"memory", "pids", "cpu"} {
		t.Run("require "+limit, func(t *testing.T) {
			o := c.WithPolicy(t, limit+".toml", jail.BestEffort+"[profiles.default]\nextends = \"default\"\nrequire = [\"userns\", \""+limit+"\"]\n").Run(t, job)
			if o.Err != nil && o.Err.Code == jailer.CodeInvalidPolicy {
				// The built-in profile may not be extended by itself: name another.
				o = c.WithPolicy(t, limit+".toml", jail.BestEffort+"[profiles.strict]\nextends = \"default\"\nrequire = [\"userns\", \""+limit+"\"]\n").Run(t, flags("--profile", "strict"))
			}
			refused(t, o, jailer.CodeIsolationUnavailable, "require."+limit, limit, "doctor")
		})
	}
	t.Run("require what holds", func(t *testing.T) {
		ran(t, c.WithPolicy(t, "holds.toml", jail.BestEffort+"[profiles.strict]\nextends = \"default\"\nrequire = [\"userns\", \"netns\", \"seccomp\"]\n").Run(t, flags("--profile", "strict")))
	})
	ran(t, c.Run(t, job))
}

// The same for root, whose hierarchies are hidden, read-only, or full.
func TestCgroupsTaken(t *testing.T) {
	need.Root(t)
	c := jail.Root(t)
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	_, v1 := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes")
	need.Feature(t, "cgroup1", v1 == nil && strings.Contains(string(mounts), " /sys/fs/cgroup/pids "), "the hierarchies are not mounted one by one here")
	for _, ctl := range []string{"memory", "pids", "cpu"} {
		t.Run("hidden "+ctl, func(t *testing.T) {
			o := behind(t, c, []string{"--mount"}, "mount -t tmpfs none /sys/fs/cgroup/"+ctl, job)
			refused(t, o, jailer.CodeIsolationUnavailable, "cgroup.controller."+ctl, ctl)
		})
		t.Run("read-only "+ctl, func(t *testing.T) {
			o := behind(t, c, []string{"--mount"}, fmt.Sprintf("mount --bind /sys/fs/cgroup/%[1]s /sys/fs/cgroup/%[1]s; mount -o remount,bind,ro /sys/fs/cgroup/%[1]s", ctl), job)
			refused(t, o, jailer.CodeIsolationUnavailable, "cgroup.readonly."+ctl, ctl, "read-only", "/sys/fs/cgroup/"+ctl)
		})
	}
	t.Run("none at all", func(t *testing.T) {
		o := behind(t, c, []string{"--mount"}, "mount -t tmpfs none /sys/fs/cgroup", job)
		refused(t, o, jailer.CodeIsolationUnavailable, "cgroup.mounted", "cgroup")
	})
	ran(t, behind(t, c, []string{"--mount"}, ":", job))
}
