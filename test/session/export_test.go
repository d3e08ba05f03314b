package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/test/jail"
)

// --export takes files out however the command ends, before the jail goes.
func TestExportOfRun(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		write := "mkdir out; echo result > out/r; ln -s /etc/passwd out/l; "
		for name, row := range map[string]struct {
			flags []string
			sh    string
			code  int
		}{
			"exits":      {nil, write + "exit 3", 3},
			"timeout":    {[]string{"--timeout", "2s"}, write + "sleep 1000", 124},
			"killed":     {nil, write + "kill -KILL $$", 137},
			"memory":     {[]string{"--memory", "32M"}, write + "head -c 200M /dev/zero | tail", 137},
			"descendant": {nil, write + "(while :; do echo more >> out/log; done) & exit 0", 0},
		} {
			t.Run(name, func(t *testing.T) {
				dest := filepath.Join(c.Home, "exported-"+name)
				o := c.Run(t, jail.Job{Flags: append(row.flags, "--export", "out/**="+dest, "--export", "out/r="+dest+".tar"), Sh: row.sh})
				if o.Code != row.code {
					t.Fatalf("%s", o)
				}
				if b, err := os.ReadFile(filepath.Join(dest, "out", "r")); err != nil || string(b) != "result\n" {
					t.Errorf("%q %v", b, err)
				}
				if _, err := os.Lstat(filepath.Join(dest, "out", "l")); err == nil {
					t.Error("a link was taken out")
				}
				if st, err := os.Stat(dest + ".tar"); err != nil || st.Size() == 0 {
					t.Error(err)
				}
				if len(o.Result.Artifacts) < 2 || o.Result.Artifacts[0].Path == "" || len(o.Result.Artifacts[0].SHA256) != 64 {
					t.Errorf("%+v", o.Result.Artifacts)
				}
			})
		}
		dest, kept := filepath.Join(c.Home, "none"), c.File(t, "kept.tar", "old")
		unmade := func() {
			t.Helper()
			if _, err := os.Lstat(dest); err == nil {
				t.Error("the directory was made")
			}
			if b, err := os.ReadFile(kept); err != nil || string(b) != "old" {
				t.Errorf("the file has %q now: %v", b, err)
			}
		}
		o := c.Run(t, jail.Job{Flags: []string{"--export", "none=" + dest, "--export", "none=" + kept}, Argv: []string{"true"}})
		if o.Code != 125 || o.Result == nil || o.Result.Error == nil || *o.Result.ExitCode != 0 {
			t.Errorf("%s", o)
		}
		unmade()
		// A file too large for the session comes after some that are not.
		o = c.Run(t, jail.Job{Flags: []string{"--export", "*=" + dest, "--export", "*=" + kept}, Sh: "echo x > a; truncate -s 11M b"})
		if o.Code != 125 || o.Result == nil || o.Result.Error == nil || !strings.Contains(o.Result.Error.Error(), "at most") {
			t.Errorf("%s", o)
		}
		unmade()
		for _, row := range []struct {
			flags []string
			code  int
			why   string
		}{
			{[]string{"--export", "x=" + dest, "--cap", "exec"}, 126, "which the run has not"},
			{[]string{"--export", "x=" + dest, "--export", "[=" + dest}, 125, "--export [="},
			{[]string{"--export", "../x=" + dest}, 125, `contains ".."`},
			{[]string{"--export", "/etc/passwd=" + dest}, 125, "absolute"},
			{[]string{"--export", "x=" + kept, "--export", "y=" + c.Home + "/./kept.tar"}, 125, "can't be both"},
			{[]string{"--export", "x=" + dest, "--export", "y=" + filepath.Join(c.Home, "no", "x")}, 125, "no such file"},
			{[]string{"--export", "x=" + dest, "--export", "y=/proc/self"}, 125, "write to"},
			{[]string{"--export", "x=" + dest, "--export", "y=" + kept + "/x"}, 125, "not a directory"},
		} {
			before := len(c.Events(t, "--type", "exec.started"))
			o := c.Run(t, jail.Job{Flags: row.flags, Argv: []string{"true"}})
			if o.Result != nil || o.Code != row.code || !strings.Contains(o.Stderr, row.why) {
				t.Errorf("%q: want %d and %q: %s", row.flags, row.code, row.why, o)
			}
			if n := len(c.Events(t, "--type", "exec.started")); n != before {
				t.Errorf("%q: it was started", row.flags)
			}
			unmade()
		}
		if err := os.Mkdir(dest, 0o755); err != nil {
			t.Fatal(err)
		}
		// A link where the caller wants the files: his own, and followed; one in it is not.
		if err := os.Symlink(c.StateDir(), filepath.Join(dest, "link")); err != nil {
			t.Fatal(err)
		}
		// What came before it is told of.
		o = c.Run(t, jail.Job{Flags: []string{"--export", "**=" + dest}, Sh: "mkdir link; echo x > first; echo x > link/planted"})
		if o.Code != 125 || len(o.Result.Artifacts) != 1 {
			t.Errorf("%s", o)
		}
		told := c.Events(t, "--type", "artifact.exported")
		if last := told[len(told)-1].Data; last["partial"] != true || last["files"] != 1.0 {
			t.Errorf("%v", last)
		}
		if _, err := os.Lstat(filepath.Join(c.StateDir(), "planted")); err == nil {
			t.Error("written through a link")
		}
	})
}
