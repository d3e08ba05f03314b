package prereq

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// A policy that somebody else could have written.
func TestPolicyOfOthers(t *testing.T) {
	const stranger = 60001
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		d := filepath.Join(c.Home, "p")
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		own := func(t *testing.T, p string, uid int) {
			t.Helper()
			if os.Geteuid() != 0 {
				need.Feature(t, "root", uid == c.UID, "a file of another owner takes root to make")
				return
			}
			if err := os.Lchown(p, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
		own(t, d, c.UID)
		// file makes a good policy with a fault of its own.
		file := func(t *testing.T, name string, mode os.FileMode, uid int) string {
			t.Helper()
			p := filepath.Join(d, name)
			if err := os.WriteFile(p, []byte(jail.BestEffort), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
			own(t, p, uid)
			return p
		}
		link := func(t *testing.T, name, target string) string {
			t.Helper()
			p := filepath.Join(d, name)
			if err := os.Symlink(target, p); err != nil {
				t.Fatal(err)
			}
			own(t, p, c.UID)
			return p
		}
		for _, tc := range []struct {
			name string
			make func(t *testing.T) string
			word string
		}{
			{"writable by all", func(t *testing.T) string { return file(t, "all", 0o666, c.UID) }, "writable by others"},
			{"writable by a group", func(t *testing.T) string { return file(t, "group", 0o664, c.UID) }, "writable by others"},
			{"of a stranger", func(t *testing.T) string { return file(t, "stranger", 0o644, stranger) }, "60001"},
			{"a link to one writable by all", func(t *testing.T) string { return link(t, "l1", file(t, "t1", 0o666, c.UID)) }, "writable by others"},
			{"a link to one of a stranger", func(t *testing.T) string { return link(t, "l2", file(t, "t2", 0o644, stranger)) }, "60001"},
			{"a link to nothing", func(t *testing.T) string { return link(t, "l3", filepath.Join(d, "nosuch")) }, "opened"},
			{"a link to itself", func(t *testing.T) string { return link(t, "l4", "l4") }, "opened"},
			{"a directory writable by all", func(t *testing.T) string {
				open := filepath.Join(d, "open")
				if err := os.Mkdir(open, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(open, 0o777); err != nil {
					t.Fatal(err)
				}
				own(t, open, c.UID)
				return file(t, "open/p.toml", 0o644, c.UID)
			}, "writable by others"},
			{"a FIFO", func(t *testing.T) string {
				p := filepath.Join(d, "fifo")
				if err := syscall.Mkfifo(p, 0o600); err != nil {
					t.Fatal(err)
				}
				own(t, p, c.UID)
				return p
			}, "regular"},
			{"a directory", func(*testing.T) string { return d }, "regular"},
			{"a device", func(*testing.T) string { return "/dev/null" }, "regular"},
			{"nothing there", func(*testing.T) string { return filepath.Join(d, "nosuch") }, "opened"},
			{"unknown key", func(t *testing.T) string {
				return content(t, c, d, "k1", jail.BestEffort+"[limit]\n")
			}, "limit"},
			{"key in odd case", func(t *testing.T) string {
				return content(t, c, d, "k2", "version = 1\nextends = \"builtin\"\n[limits]\nEnforce = \"best-effort\"\n")
			}, "Enforce"},
			{"no version", func(t *testing.T) string { return content(t, c, d, "k3", "extends = \"builtin\"\n") }, "version"},
			{"no TOML", func(t *testing.T) string { return content(t, c, d, "k4", "{\"version\": 1}") }, "k4"},
			{"empty", func(t *testing.T) string { return content(t, c, d, "k5", "") }, "version"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				bad := *c
				bad.Policy = tc.make(t)
				o := bad.Run(t, job)
				if o.Result != nil {
					t.Fatalf("the command ran:\n%s", o)
				}
				o.Refused(t, 125, jailer.CodeInvalidPolicy, bad.Policy, tc.word)
			})
		}
		good := *c
		good.Policy = file(t, "good", 0o644, c.UID)
		ran(t, good.Run(t, job))
		good.Policy = link(t, "good-link", good.Policy)
		ran(t, good.Run(t, job))
		if os.Geteuid() == 0 {
			good.Policy = file(t, "of-root", 0o644, 0)
			ran(t, good.Run(t, job))
		}
	})
}

func content(t *testing.T, c *jail.Caller, d, name, text string) string {
	t.Helper()
	return c.File(t, filepath.Join(filepath.Base(d), name), text)
}

// The host's own policy, which decides even when it can't be read. It stands in
// a copy of /etc that is mounted over the real one for the test alone.
func TestHostPolicy(t *testing.T) {
	need.Root(t)
	c := jail.Root(t)
	etc := func(prepare string) string {
		return `etc=` + c.Home + `/etc; rm -rf $etc; mkdir $etc; cp -a /etc/. $etc 2>/dev/null || :; rm -rf $etc/jailer; mkdir -m 755 $etc/jailer; p=$etc/jailer/policy.toml
` + prepare + `
mount --bind $etc /etc`
	}
	write := func(text string) string { return "cat >$p <<'E'\n" + text + "E\n" }
	for name, prepare := range map[string]string{
		"invalid":         write("version = 1\nnosuch = 1\n"),
		"empty":           ": >$p",
		"writable":        write(jail.BestEffort) + "chmod 666 $p",
		"a dangling link": "ln -s nosuch $p",
		"a directory":     "mkdir $p",
	} {
		t.Run(name, func(t *testing.T) {
			o := behind(t, c, []string{"--mount"}, etc(prepare), job)
			if o.Result != nil {
				t.Fatalf("the command ran:\n%s", o)
			}
			o.Refused(t, 125, jailer.CodeInvalidPolicy, "/etc/jailer/policy.toml")
			// Not even a good policy of the caller's helps: this one may be locked.
			other := c.WithPolicy(t, "good.toml", jail.BestEffort)
			behind(t, other, []string{"--mount"}, etc(prepare), job).Refused(t, 125, jailer.CodeInvalidPolicy, "/etc/jailer/policy.toml")
		})
	}
	t.Run("locked", func(t *testing.T) {
		u := jail.User(t)
		o := demoted(t, u, etc(write("version = 1\nextends = \"builtin\"\nlocked = true\n")))
		o.Refused(t, 125, jailer.CodeInvalidPolicy, "locked")
		ran(t, demoted(t, u, etc(write("version = 1\nextends = \"builtin\"\n"))))
	})
	ran(t, behind(t, c, []string{"--mount"}, etc(write("version = 1\nextends = \"builtin\"\n")), job))
	ran(t, behind(t, c, []string{"--mount"}, etc(":"), job))
}

// No place for the records, or one that others could have prepared.
func TestStateDirectory(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		state := c.StateDir()
		fresh := func(t *testing.T, mode os.FileMode, uid int) {
			t.Helper()
			os.RemoveAll(state)
			if err := os.Mkdir(state, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(state, mode); err != nil {
				t.Fatal(err)
			}
			if os.Geteuid() == 0 {
				if err := os.Chown(state, uid, uid); err != nil {
					t.Fatal(err)
				}
			}
		}
		usual := os.FileMode(0o700)
		if c.UID == 0 {
			usual = 0o711
		}
		no := func(t *testing.T, o *jail.Outcome, words ...string) {
			t.Helper()
			if o.Result != nil {
				t.Fatalf("the command ran:\n%s", o)
			}
			o.Refused(t, 125, o.Err.Code, words...)
			if o.Err.Hint == "" {
				t.Errorf("no hint:\n%s", o)
			}
		}
		t.Run("read-only", func(t *testing.T) {
			if c.UID != 0 {
				fresh(t, 0o500, c.UID)
				no(t, c.Run(t, job), "permission denied", "--state-dir")
				return
			}
			fresh(t, usual, c.UID)
			no(t, behind(t, c, []string{"--mount"}, "mount -t tmpfs -o ro,mode=711 none "+state, job), "read-only file system", "--state-dir")
		})
		t.Run("full", func(t *testing.T) {
			need.Feature(t, "root", c.UID == 0, "a full file system takes root to make")
			fresh(t, usual, c.UID)
			no(t, behind(t, c, []string{"--mount"}, "mount -t tmpfs -o nr_inodes=1,mode=711 none "+state, job), "no space")
		})
		t.Run("writable by others", func(t *testing.T) {
			fresh(t, 0o777, c.UID)
			no(t, c.Run(t, job), "writable by others")
		})
		t.Run("of a stranger", func(t *testing.T) {
			need.Root(t)
			fresh(t, usual, 60001)
			no(t, c.Run(t, job), "60001")
		})
		t.Run("a link", func(t *testing.T) {
			fresh(t, usual, c.UID)
			if err := os.Rename(state, state+"-real"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(state+"-real", state); err != nil {
				t.Fatal(err)
			}
			no(t, c.Run(t, job), state)
		})
		t.Run("relative", func(t *testing.T) {
			no(t, c.Run(t, flags("--state-dir", "state")), "absolute")
		})
		t.Run("below a closed directory", func(t *testing.T) {
			need.Feature(t, "root", c.UID == 0, "only root's jails have another uid than the state directory")
			fresh(t, usual, c.UID)
			if err := os.Chmod(c.Home, 0o700); err != nil {
				t.Fatal(err)
			}
			defer os.Chmod(c.Home, 0o711)
			refused(t, c.Run(t, job), jailer.CodeIsolationUnavailable, "rootfs.search", "chmod o+x")
		})
		fresh(t, usual, c.UID)
		ran(t, c.Run(t, job))
	})
}
