package ways

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

const armorOff = `version = 1
extends = "builtin"

[profiles.default]
apparmor = "off"
`

// label is the command of the runs here.
var label = jail.Job{Sh: "cat /proc/self/attr/apparmor/current; echo RAN"}

// armored wants a command that ran under both profiles, or under none.
func armored(t *testing.T, o *jail.Outcome, yes bool) {
	t.Helper()
	want, name := "unconfined\nRAN\n", ""
	if yes {
		want, name = apparmor.JobLabel+"\nRAN\n", apparmor.Default
	}
	if o.Result == nil || o.Result.Stdout == nil || *o.Result.Stdout != want || o.Result.Isolation.AppArmor != name {
		t.Errorf("want the label %q and isolation.apparmor %q:\n%s", want, name, o)
	}
}

// With the profiles loaded: they hold, whoever starts the jail, and the result says
// so; root takes them away and loads them again.
func appArmor(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		c = builtin(c)
		off := c.WithPolicy(t, "off.toml", armorOff)
		required := label
		required.Flags = []string{"--apparmor", "required"}
		require := c.WithPolicy(t, "require.toml", armorRequired)

		armored(t, c.Run(t, label), true)
		armored(t, c.Run(t, required), true)
		armored(t, require.Run(t, label), true)
		armored(t, off.Run(t, label), false)
		fs := doctor(t, c)
		found(t, fs, "apparmor", "yes")
		found(t, fs, "apparmor.profile", "yes")
		loaded(t, c, true)
		t.Run("from outside", func(t *testing.T) { fromOutside(t, c) })
		cases(t, c)
		if c.UID != 0 {
			o := c.Do(t, jail.Job{Raw: true}, "apparmor", "load")
			if o.Code != 1 || !strings.Contains(o.Stderr, "only root") || !strings.Contains(o.Stderr, "sudo") {
				t.Errorf("load by a user:\n%s", o)
			}
			return
		}
		t.Run("not loaded", func(t *testing.T) {
			unload(t, c)
			defer load(t, c)
			armored(t, c.Run(t, label), false)
			refused(t, c.Run(t, required), "apparmor.profile", "jailer apparmor load", "not loaded")
			refused(t, require.Run(t, label), "require.apparmor", "jailer doctor")
			found(t, doctor(t, c), "apparmor.profile", "no")
			loaded(t, c, false)
		})
		t.Run("another one of that name", func(t *testing.T) {
			defer load(t, c)
			// The child alone would do as a name; it doesn't hold.
			weak := "profile jailer-default flags=(complain) { file, profile job flags=(complain) { file, } }"
			parser(t, c, weak, "-r")
			refused(t, c.Run(t, required), "apparmor.profile", "complain", "jailer apparmor load")
			armored(t, c.Run(t, label), false)
			refused(t, require.Run(t, label), "require.apparmor", "jailer doctor")

			// Enforced, and holding little: a run would succeed under it.
			const all = "file, change_profile, signal, capability, network, unix, ptrace, mount, umount, pivot_root, userns, "
			parser(t, c, "abi <abi/4.0>, profile jailer-default { "+all+"profile job { "+all+"} }", "-r")
			refused(t, c.Run(t, required), "apparmor.profile", "not this program's", "jailer apparmor load")
			refused(t, require.Run(t, label), "require.apparmor", "jailer doctor")
			armored(t, c.Run(t, label), false)
			found(t, doctor(t, c), "apparmor.profile", "no")
			if s := status(t, c, 1)[apparmor.Default]; s.State != "loaded" || s.Changed != "yes" || s.Hint == "" {
				t.Errorf("status of another profile: %+v", s)
			}
		})
		armored(t, c.Run(t, required), true)
		loaded(t, c, true)
	})
}

const armorRequired = `version = 1
extends = "builtin"

[profiles.default]
require = ["apparmor"]
`

// fromOutside reads the labels of a live jail as the host sees them.
func fromOutside(t *testing.T, c *jail.Caller) {
	file := c.Home + "/pid"
	mark := "31415926"
	cmd := c.Command(t.Context(), "run", "--pid-file", file, "--timeout", jail.Timeout(time.Minute), "--", "sleep", mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() }()
	var job []jail.Process
	if !jail.Eventually(need.Time(10*time.Second), func() bool {
		job = jail.Living(t, func(p jail.Process) bool { return p.Cmdline == "sleep "+mark })
		return len(job) == 1
	}) {
		t.Fatalf("%d commands", len(job))
	}
	for pid, want := range map[int]string{job[0].PID: apparmor.JobLabel, job[0].Parent: apparmor.PID1Label} {
		if got, err := apparmor.Label(pid); err != nil || got != want {
			t.Errorf("pid %d has the label %q, %v; want %q", pid, got, err, want)
		}
	}
}

// profileStatus is one of `jailer apparmor status --json`.
type profileStatus struct {
	Name, State, Mode, Changed, Reason, Hint string
	OK                                       bool
}

func status(t *testing.T, c *jail.Caller, code int) map[string]profileStatus {
	t.Helper()
	// Not of the launcher's: this copy of the program lies elsewhere.
	o := c.Do(t, jail.Job{Raw: true}, "apparmor", "status", "--json", apparmor.Default)
	var doc struct {
		OK       bool
		Profiles []profileStatus
	}
	if err := json.Unmarshal([]byte(o.Stdout), &doc); err != nil || o.Code != code || doc.OK != (code == 0) {
		t.Errorf("exit status %d, want %d: %v\n%s", o.Code, code, err, o)
	}
	out := map[string]profileStatus{}
	for _, p := range doc.Profiles {
		out[p.Name] = p
	}
	return out
}

// loaded holds status to what is so.
func loaded(t *testing.T, c *jail.Caller, yes bool) {
	t.Helper()
	if !yes {
		if s := status(t, c, 1)[apparmor.Default]; s.State != "not loaded" || !strings.Contains(s.Hint, "jailer apparmor load") {
			t.Errorf("%+v", s)
		}
		return
	}
	all := status(t, c, 0)
	if s := all[apparmor.Default]; s.State != "loaded" || s.Mode != "enforce" || s.Changed != "no" {
		t.Errorf("%+v", s)
	}
}

func load(t *testing.T, c *jail.Caller) {
	t.Helper()
	if o := c.Do(t, jail.Job{Raw: true}, "apparmor", "load", apparmor.Default); o.Code != 0 || !strings.Contains(o.Stdout, "loaded, until the next boot") {
		t.Errorf("load:\n%s", o)
	}
}

func unload(t *testing.T, c *jail.Caller) {
	t.Helper()
	parser(t, c, "profile jailer-default { profile job { } }", "-R")
}

func parser(t *testing.T, c *jail.Caller, text string, flags ...string) {
	t.Helper()
	cmd := c.Exec(t.Context(), "/usr/sbin/apparmor_parser", append(flags, "-K", "-q")...)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("apparmor_parser %v: %v\n%s", flags, err, out)
	}
}

// appArmorRoot adds what only root can do and see.
func appArmorRoot(t *testing.T) {
	t.Run("launcher", launcherProfile)
	appArmor(t)
}

// The launcher's profile stays on the program through every stage, of which some
// run from memory, where no path could attach it anew: the command that PID 1, a
// file in memory too, starts without a profile of its own still has it.
func launcherProfile(t *testing.T) {
	c := jail.Root(t)
	c = c.WithPolicy(t, "off.toml", armorOff)
	const program = "/usr/local/bin/jailer"
	cmd := c.Exec(t.Context(), program, "run", "--state-dir", c.StateDir(), "--policy", c.Policy, "--json", "--", "sh", "-c", label.Sh)
	o := jail.Finish(t, label, cmd)
	if o.Result == nil || *o.Result.Stdout != "jailer (unconfined)\nRAN\n" || o.Result.Isolation.AppArmor != "" {
		t.Errorf("the launcher's profile was lost on the way:\n%s", o)
	}
	cmd = c.Exec(t.Context(), program, "run", "--state-dir", c.StateDir(), "--apparmor", "required", "--json", "--", "sh", "-c", label.Sh)
	armored(t, jail.Finish(t, label, cmd), true)
	cmd = c.Exec(t.Context(), program, "apparmor", "status", "--json")
	o = jail.Finish(t, jail.Job{Raw: true}, cmd)
	if o.Code != 0 || strings.Count(o.Stdout, `"changed":"no"`) != 2 {
		t.Errorf("status of the installed program:\n%s", o)
	}
	t.Run("elsewhere", func(t *testing.T) {
		const other = "/usr/bin/jailer"
		if out, err := exec.Command("cp", program, other).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		defer os.Remove(other)
		cmd := c.Exec(t.Context(), other, "run", "--state-dir", c.StateDir(), "--policy", c.Policy, "--json", "--", "sh", "-c", label.Sh)
		armored(t, jail.Finish(t, label, cmd), false)
	})
	t.Run("where others can write", func(t *testing.T) {
		dir := filepath.Dir(program)
		st, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o775); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(dir, st.Mode())
		o := jail.Finish(t, jail.Job{Raw: true}, c.Exec(t.Context(), program, "apparmor", "load", apparmor.Launcher))
		if o.Code != 1 || !strings.Contains(o.Stderr, dir+" belongs to another user than root, or others can write to it") {
			t.Errorf("load:\n%s", o)
		}
	})
}
