package prereq

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// Root's jails need host uids that are nobody's.
func TestRootUIDs(t *testing.T) {
	need.Root(t)
	c := jail.Root(t)
	ids := func(r string) *jail.Caller {
		return c.WithPolicy(t, "ids.toml", fmt.Sprintf("version = 1\nextends = \"builtin\"\n[root]\nuid_range = %q\n", r))
	}
	t.Run("all in use", func(t *testing.T) {
		one := 1_690_000_000 + os.Getpid()
		few := ids(fmt.Sprintf("%d-%d", one, one))
		ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
		defer cancel()
		ready := filepath.Join(c.Home, "pid")
		cmd := few.Command(ctx, "run", "--pid-file", ready, "--", "sleep", "100")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !jail.Eventually(need.Time(time.Minute), func() bool { b, _ := os.ReadFile(ready); return len(b) > 0 }) {
			t.Fatal("the first jail never started")
		}
		o := few.Run(t, job)
		refused(t, o, jailer.CodeSessionLimit, o.Err.Reason, "uid_range")
		if !o.Err.Retryable {
			t.Errorf("not retryable:\n%s", o)
		}
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		ran(t, few.Run(t, job))
	})
	t.Run("those of users", func(t *testing.T) {
		o := ids("1-100").Run(t, job)
		refused(t, o, jailer.CodeInvalidPolicy, o.Err.Reason, "/etc/passwd", "1900000000-1900065535")
	})
	t.Run("subordinate ids of a user", func(t *testing.T) {
		script := "echo nobody:1650000000:65536 >" + c.Home + "/subuid; mount --bind " + c.Home + "/subuid /etc/subuid"
		if _, err := os.Stat("/etc/subuid"); err != nil {
			need.Feature(t, "subuid", false, "no /etc/subuid to cover")
		}
		o := behind(t, ids("1650065535-1650065600"), []string{"--mount"}, script, job)
		refused(t, o, jailer.CodeInvalidPolicy, o.Err.Reason, "/etc/subuid", "1650065535")
		ran(t, behind(t, ids("1650065536-1650065600"), []string{"--mount"}, script, job))
	})
	t.Run("root's own", func(t *testing.T) {
		o := ids("0-100").Run(t, job)
		if o.Result != nil {
			t.Fatalf("the command ran:\n%s", o)
		}
		o.Refused(t, 125, jailer.CodeInvalidPolicy, "uid_range")
	})
	t.Run("none given is the built-in range", func(t *testing.T) {
		ran(t, c.WithPolicy(t, "none.toml", "version = 1\n[profiles.default]\nrootfs = \"host\"\ncapabilities = [\"exec\"]\n").Run(t, job))
	})
	ran(t, c.Run(t, job))
}

// 6: a range of ids is asked for, and there is none, or no helper.
func TestIDRange(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		ranged := c.WithPolicy(t, "range.toml", jail.BestEffort+"[profiles.wide]\nextends = \"default\"\nids = \"range\"\n")
		o := ranged.Run(t, flags("--profile", "wide"))
		if c.UID == 0 {
			refused(t, o, jailer.CodeIsolationUnavailable, "ids.range.root", "single")
		} else {
			// This user has no name, and so no range.
			need.Feature(t, "no-subuid", o.Err != nil, "this user has a range")
			refused(t, o, jailer.CodeIsolationUnavailable, o.Err.Reason, "single")
		}
		ran(t, ranged.Run(t, job)) // the default profile needs none
	})
}

// A profile that asks for what this program or host has not.
func TestUnavailableProfile(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		armor := apparmor.Here()
		reason := ""
		if armor != nil {
			reason = armor.ID
		}
		for name, tc := range map[string]struct{ toml, reason, word string }{
			"apparmor":      {`apparmor = "required"`, reason, "AppArmor"},
			"landlock":      {`require = ["landlock"]`, "require.landlock", "landlock"},
			"need apparmor": {`require = ["apparmor"]`, "require.apparmor", "apparmor"},
			// What is switched off can't be had, whatever is loaded.
			"off and needed": {"apparmor = \"off\"\nrequire = [\"apparmor\"]", "require.apparmor", "apparmor"},
		} {
			t.Run(name, func(t *testing.T) {
				if strings.HasSuffix(name, "apparmor") {
					need.Feature(t, "apparmor-missing", armor != nil, "this host has the profile loaded")
				}
				p := c.WithPolicy(t, "asks.toml", jail.BestEffort+"[profiles.asks]\nextends = \"default\"\n"+tc.toml+"\n")
				refused(t, p.Run(t, flags("--profile", "asks")), jailer.CodeIsolationUnavailable, tc.reason, tc.word)
			})
		}
		t.Run("root file system", func(t *testing.T) {
			p := c.WithPolicy(t, "root.toml", jail.BestEffort+"[rootfs.gone]\npath = \"/nosuch/root\"\n[profiles.asks]\nextends = \"default\"\nrootfs = \"gone\"\n")
			o := p.Run(t, flags("--profile", "asks"))
			if o.Result != nil {
				t.Fatalf("the command ran:\n%s", o)
			}
			o.Refused(t, 125, o.Err.Code, "/nosuch/root")
		})
	})
}
