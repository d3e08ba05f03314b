package run

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

// A profile's mounts are there, read-only unless it says so, and nothing of a request's
// or flag's makes one.
func TestMounts(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		src := filepath.Join(c.Home, "models")
		for _, err := range []error{os.MkdirAll(filepath.Join(src, "deep"), 0o755), os.WriteFile(filepath.Join(src, "w"), []byte("weights\n"), 0o644)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		own := filepath.Join(c.Home, "out")
		if err := errors.Join(os.Mkdir(own, 0o755), os.Chown(own, c.UID, -1)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(c.Home, 0o711); err != nil { // root's jails are another user
			t.Fatal(err)
		}
		policy := func(name, mounts string) *jail.Caller {
			return c.WithPolicy(t, name+".toml", jail.BestEffort+"[profiles.default]\nmounts = ["+mounts+"]\n")
		}
		m := policy("mounts", fmt.Sprintf("{ source = %q, target = \"/models\" }, { source = %q, target = \"/data/x/w\" }, { source = %q, target = \"/out\", writable = true }", src, filepath.Join(src, "w"), own))
		m.Run(t, jail.Job{Sh: `cat /models/w /data/x/w; for f in /models/new /models/w /models/deep/new /data/x/w /data/new; do (echo x > $f) 2>/dev/null && echo $f was written; done; :`}).Said(t, "weights\nweights\n")
		m.Run(t, jail.Job{Sh: `grep -E " (/models|/data/x/w|/out) " /proc/self/mountinfo | grep -vc nosuid,nodev; :`}).Said(t, "0\n")
		if c.UID != 0 { // root's jails have ids of their own, and no right there
			m.Run(t, jail.Job{Sh: "echo result > /out/r"}).Exited(t, 0)
			if b, err := os.ReadFile(filepath.Join(own, "r")); err != nil || string(b) != "result\n" {
				t.Errorf("%q %v", b, err)
			}
		}
		for _, field := range []string{"mounts", "rootfs", "user", "seccomp", "cgroupParent", "policy", "events"} {
			m.Run(t, jail.Job{Flags: []string{"--request", "-"}, Input: fmt.Sprintf(`{"argv":["true"],%q:"/x"}`, field)}).Refused(t, 125, jailer.CodeInvalidRequest, field)
		}

		// What it really is decides, before anything is made.
		socket := filepath.Join(src, "deep", "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		shared := filepath.Join(c.Home, "shared")
		if err := errors.Join(os.Mkdir(shared, 0o777), os.Chmod(shared, 0o777), os.Symlink("/run", filepath.Join(c.Home, "torun")), os.Symlink("/", filepath.Join(c.Home, "toroot"))); err != nil {
			t.Fatal(err)
		}
		before := len(c.Events(t))
		for source, want := range map[string]string{
			src: "has a socket in it", socket: "is a socket", shared: "writable by others", filepath.Join(c.Home, "torun"): "is really /run",
			filepath.Join(c.Home, "toroot"): "is really /", filepath.Join(c.Home, "none"): "no such file", "/etc": "is really /etc",
		} {
			o := policy("refused", fmt.Sprintf("{ source = %q, target = \"/m\" }", source)).Run(t, jail.Job{Argv: []string{"true"}})
			o.Refused(t, 126, jailer.CodePolicyDenied, "profiles.default.mounts[0]", want)
		}
		for _, e := range c.Events(t)[before:] {
			if e.Type != "policy.denied" {
				t.Error(e.Line)
			}
		}
		o := policy("taken", fmt.Sprintf("{ source = %q, target = \"/srv\" }", own)).Run(t, jail.Job{Sh: "ls -d /srv"})
		if o.Code != 0 && !strings.Contains(o.Stderr, "the root has /srv") {
			t.Errorf("%s", o)
		}
	})
}

// Many mounts are made, too, and cost little each.
func TestManyMounts(t *testing.T) {
	t.Parallel()
	c := jail.User(t)
	const n = 500
	var list strings.Builder
	for i := range n {
		src := filepath.Join(c.Home, "many", fmt.Sprint(i))
		if err := os.MkdirAll(src, 0o755); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&list, "{ source = %q, target = \"/many/%d\" }, ", src, i)
	}
	m := c.WithPolicy(t, "many.toml", jail.BestEffort+"[profiles.default]\nmounts = ["+list.String()+"]\n")
	r := m.Run(t, jail.Job{Sh: "ls /many | wc -l; grep -c ' /many/' /proc/self/mountinfo"}).Said(t, "500\n500\n")
	t.Logf("set-up took %d ms with %d mounts", *r.SetupMs, n)
}
