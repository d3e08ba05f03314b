package prereq

import (
	"os"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// User namespaces switched off. The limit is one of each user namespace
// (namespaces(7)): the one that is set here belongs to a namespace of the test's
// own, in which the caller keeps his id.
func TestNoUserNamespaces(t *testing.T) {
	need.Program(t, "setpriv")
	drop := func(limit string) string {
		return "echo " + limit + ` >/proc/sys/user/max_user_namespaces
set -- setpriv --inh-caps=-all --ambient-caps=-all "$@"`
	}
	unshare := []string{"--user", "--map-current-user", "--keep-caps"}
	c := jail.User(t)
	if err := tried(c, "/usr/bin/unshare", append(unshare, "true")...); err != nil {
		need.Feature(t, "userns", false, "an ordinary user can't make user namespaces here")
	}
	o := behind(t, c, unshare, drop("0"), job)
	refused(t, o, jailer.CodeIsolationUnavailable, "userns.max", "max_user_namespaces", "sysctl")
	ran(t, behind(t, c, unshare, drop("1000"), job))

	// One for the jail and none for the job: found out by PID 1, at the last moment.
	t.Run("too few", func(t *testing.T) {
		o := behind(t, c, unshare, drop("1"), job)
		if o.Err == nil || o.Code != 125 || o.Err.Code != jailer.CodeIsolationUnavailable || o.Err.Hint == "" {
			t.Errorf("want a refusal with a hint, got:\n%s", o)
		}
	})

	t.Run("root", func(t *testing.T) {
		need.Root(t)
		c := jail.Root(t)
		o := behind(t, c, []string{"--user", "--map-root-user"}, "echo 0 >/proc/sys/user/max_user_namespaces", job)
		refused(t, o, jailer.CodeIsolationUnavailable, "userns.max", "max_user_namespaces", "sysctl")
		ran(t, c.Run(t, job))
	})
}

// 7: a /proc that is partly covered, as in a container. The kernel then refuses
// a fresh one, and the covered one is no substitute.
func TestMaskedProc(t *testing.T) {
	mask := map[string]string{"a file": "mount --bind /dev/null /proc/keys"}
	if _, err := os.Stat("/proc/keys"); err != nil {
		mask["a file"] = "mount --bind /dev/null /proc/timer_list"
	}
	for _, d := range []string{"/proc/scsi", "/proc/acpi", "/proc/bus", "/proc/tty"} {
		if _, err := os.Stat(d); err == nil {
			mask["a directory"] = "mount -t tmpfs -o ro none " + d
		}
	}
	proc := func(t *testing.T, c *jail.Caller, unshare []string) {
		for name, script := range mask {
			t.Run(name, func(t *testing.T) {
				refused(t, behind(t, c, unshare, script, job), jailer.CodeIsolationUnavailable, "proc.fresh", "systempaths=unconfined")
			})
		}
		ran(t, behind(t, c, unshare, ":", job))
	}
	t.Run("root", func(t *testing.T) {
		need.Root(t)
		proc(t, jail.Root(t), []string{"--mount"})
	})
	t.Run("user", func(t *testing.T) {
		need.Root(t) // to cover it for him
		c := jail.User(t)
		for name, script := range mask {
			t.Run(name, func(t *testing.T) {
				refused(t, demoted(t, c, script), jailer.CodeIsolationUnavailable, "proc.fresh", "systempaths=unconfined")
			})
		}
		ran(t, demoted(t, c, ":"))
	})
}

// demoted runs jailer as the user c after root has prepared a private mount
// namespace with a script.
func demoted(t *testing.T, c *jail.Caller, script string) *jail.Outcome {
	t.Helper()
	need.Program(t, "setpriv")
	root := *c
	root.UID = 0
	return behind(t, &root, []string{"--mount"}, script+"\nset -- setpriv --reuid "+itoa(c.UID)+" --regid "+itoa(c.UID)+` --clear-groups "$@"`, job)
}
