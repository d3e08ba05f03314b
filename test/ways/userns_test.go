package ways

import (
	"os"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/test/jail"
)

// switched wants the value that the way is about, or the way is another one.
func switched(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(b)) != "0" {
		t.Fatalf("%s is %q, %v", file, b, err)
	}
}

// Without user namespaces there is no jail, for root neither, whatever the
// policy accepts: nothing weaker stands in. There is no control but the plain
// command outside of a jail.
func noUserNamespaces(t *testing.T) {
	switched(t, "/proc/sys/user/max_user_namespaces")
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		best := refusedAnyway(t, c, "userns.max", "/proc/sys/user/max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=15000")
		fs := doctor(t, best, "userns.max", "userns.create")
		if f := found(t, fs, "userns.max", "no"); !strings.Contains(f.Hint, "sysctl -w user.max_user_namespaces=") {
			t.Errorf("doctor: %+v", f)
		}
		found(t, fs, "userns.clone", "yes")
		warned(t, fs, "ids.subuid", "net.egress")
		outside(t, c)
	})
}

// refusedAnyway wants the refusal with the built-in policy and with one that accepts
// best effort, which it returns.
func refusedAnyway(t *testing.T, c *jail.Caller, reason string, words ...string) *jail.Caller {
	t.Helper()
	strict, best := builtin(c), builtin(c).WithPolicy(t, "best.toml", jail.BestEffort)
	t.Run("built in", func(t *testing.T) { refused(t, strict.Run(t, job), reason, words...) })
	t.Run("best effort", func(t *testing.T) { refused(t, best.Run(t, job), reason, words...) })
	return best
}

// outside is the control where nothing can run in a jail: the command itself.
func outside(t *testing.T, c *jail.Caller) {
	t.Helper()
	if out, err := c.Exec(t.Context(), "/bin/sh", "-c", job.Sh).Output(); err != nil || string(out) != "RAN\n" {
		t.Errorf("the command itself: %q, %v", out, err)
	}
}

// Debian's switch is for users, and binds root's jails too: root could make the
// jail's user namespace, but not, inside of it, the command's.
func noClone(t *testing.T) {
	switched(t, "/proc/sys/kernel/unprivileged_userns_clone")
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		best := refusedAnyway(t, c, "userns.clone", "/proc/sys/kernel/unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1")
		failed := []string{"userns.clone", "userns.create"}
		if c.UID == 0 { // who can still make the first one
			failed = failed[:1]
		}
		fs := doctor(t, best, failed...)
		if f := found(t, fs, "userns.clone", "no"); !strings.Contains(f.Hint, "sysctl -w kernel.unprivileged_userns_clone=1") {
			t.Errorf("doctor: %+v", f)
		}
		found(t, fs, "userns.max", "yes")
		warned(t, fs, "ids.subuid", "net.egress")
		outside(t, c)
	})
}
