package session

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jailer-project/jailer"
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
		dest := filepath.Join(c.Home, "none")
		o := c.Run(t, jail.Job{Flags: []string{"--export", "none=" + dest}, Argv: []string{"true"}})
		if o.Code != 125 || o.Result == nil || o.Result.Error == nil || *o.Result.ExitCode != 0 {
			t.Errorf("%s", o)
		}
		o = c.Run(t, jail.Job{Flags: []string{"--export", "x=" + dest, "--cap", "exec"}, Argv: []string{"true"}})
		if o.Code != 126 || o.Err == nil || o.Err.Code != jailer.CodePolicyDenied {
			t.Errorf("%s", o)
		}
		// A link where the caller wants the files: his own, and followed; one in it is not.
		if err := os.Symlink(c.StateDir(), filepath.Join(dest, "link")); err != nil {
			t.Fatal(err)
		}
		o = c.Run(t, jail.Job{Flags: []string{"--export", "link=" + dest}, Sh: "mkdir link; echo x > link/planted"})
		if o.Code != 125 {
			t.Errorf("%s", o)
		}
		if _, err := os.Lstat(filepath.Join(c.StateDir(), "planted")); err == nil {
			t.Error("written through a link")
		}
	})
}
