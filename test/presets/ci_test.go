package presets

import (
	"archive/tar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

// A checkout is cloned, built and tested, and its archive comes out; one that brings a
// hook is refused.
func TestCI(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		git := program(t, "git")
		program(t, "gcc")
		c = preset(t, c, "ci", "")
		src := filepath.Join(c.Home, "src")
		sh := func(script string) {
			t.Helper()
			cmd := c.Exec(t.Context(), "/bin/sh", "-ec", script)
			cmd.Env = append(cmd.Env, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		sh(`mkdir ` + src + `; cd ` + src + `
			` + git + ` init -q -b main .
			printf '#include <stdio.h>\nint main(void) { puts(VERSION); return 0; }\n' > hello.c
			printf 'gcc -O1 -DVERSION="\\"$(git describe --always --abbrev=40)\\"" -o hello hello.c\n' > build.sh
			printf 'set -e\n./hello > out; test "$(cat out)" = "$(git rev-parse HEAD)"; echo "$CI"\n' > test.sh
			` + git + ` add .; ` + git + ` commit -qm one`)
		out := filepath.Join(c.Home, "dist.tar")
		build := `set -e
			git config --global --add safe.directory '*'
			git clone -q src work; cd work; sh build.sh; sh test.sh; tar -cf ../hello.tar hello; cd ..; `
		run := func(more string) *jail.Outcome {
			return c.Run(t, jail.Job{Flags: []string{"--dir", "/workspace/src=" + src, "--export", "hello.tar=" + out, "--export", "dist/**=" + filepath.Join(c.Home, "dist")}, Sh: build + more})
		}
		o := run("mkdir dist; cp work/hello dist")
		r := o.Exited(t, 0)
		if o.Out() != "true\n" {
			t.Errorf("%s", o)
		}
		f, err := os.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		outer := tar.NewReader(f)
		for h, err := outer.Next(); ; h, err = outer.Next() {
			if err != nil {
				t.Fatal(err)
			}
			if h.Name == "hello.tar" {
				break
			}
		}
		if h, err := tar.NewReader(outer).Next(); err != nil || h.Name != "hello" || h.Mode&0o111 == 0 {
			t.Errorf("%+v %v", h, err)
		}
		if b, err := exec.Command(filepath.Join(c.Home, "dist/dist/hello")).Output(); err != nil || len(strings.TrimSpace(string(b))) != 40 {
			t.Errorf("%q %v", b, err)
		}
		t.Logf("%d ms and %d ms of set-up, %d processes, %d bytes", r.DurationMs, *r.SetupMs, *r.Usage.PidsPeak, *r.Usage.MemoryPeakBytes)
		o = run("mkdir -p dist/.git/hooks; echo evil > dist/.git/hooks/post-checkout")
		if o.Result == nil || o.Result.Error == nil || o.Result.Error.Code != jailer.CodePolicyDenied || !strings.Contains(o.Result.Error.Error(), ".git/hooks") {
			t.Errorf("%s", o)
		}
	})
}
