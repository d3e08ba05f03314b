package prereq

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/profiles"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// A seccomp profile of the policy's that is broken, too weak, or somebody else's
// to change.
func TestSeccompProfile(t *testing.T) {
	data, err := profiles.FS.ReadFile("seccomp/default.json")
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	rule := func(name, rest string) string {
		return strings.Replace(good, `"syscalls": [`, `"syscalls": [{"comment":"c","because":"b","names":["`+name+`"],"action":"SCMP_ACT_ALLOW"`+rest+`},`, 1)
	}
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		d := filepath.Join(c.Home, "seccomp")
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		p := filepath.Join(d, "own.json")
		own := func(t *testing.T, path string, uid int) {
			t.Helper()
			if os.Geteuid() != 0 {
				need.Feature(t, "root", uid == c.UID, "a file of another owner takes root to make")
				return
			}
			if err := os.Lchown(path, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
		own(t, d, c.UID)
		with := c.WithPolicy(t, "own.toml", jail.BestEffort+"[seccomp.own]\npath = \""+p+"\"\n[profiles.default]\nseccomp = \"own\"\n")
		write := func(t *testing.T, text string, mode os.FileMode, uid int) {
			t.Helper()
			if err := os.RemoveAll(p); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
			own(t, p, uid)
		}
		for _, tc := range []struct {
			name  string
			text  string
			words []string
		}{
			{"empty", "", []string{"ends too early"}},
			{"cut", good[:len(good)/2], []string{"line ", "ends too early"}},
			{"unknown key", rule("swapcontext", `,"x":1`), []string{"line 7: syscalls[0].x: unknown field"}},
			{"given twice", rule("swapcontext", `,"action":"SCMP_ACT_ERRNO"`), []string{"line 7: ", "given twice"}},
			{"bad value", rule("getcpu", `,"args":[{"index":0,"in32":["AF_NOPE"]}]`), []string{"line 7: syscalls[0].args[0].in32[0]: ", "AF_NOPE"}},
			{"no such call", rule("raed", ""), []string{"line 7: syscalls[0]: ", "raed", "libseccomp"}},
			{"overlap", rule("read", ""), []string{"line 8: syscalls[1]: overlaps another rule for read"}},
			{"never allowed", rule("io_uring_setup", ""), []string{"line 7: syscalls[0]: io_uring_setup: never allowed"}},
			{"never allowed with these arguments", rule("socket", `,"args":[{"index":0,"in32":["40"]}]`), []string{"line 7: ", "never allowed: a socket family"}},
			{"allows by default", strings.Replace(strings.Replace(good, `"SCMP_ACT_ERRNO"`, `"SCMP_ACT_ALLOW"`, 1), `"defaultErrno": "ENOSYS",`, "", 1), []string{"default action"}},
			{"foreign ABI", strings.Replace(good, `"badArchAction": "SCMP_ACT_KILL_PROCESS"`, `"badArchAction": "SCMP_ACT_ALLOW"`, 1), []string{"line 6: badArchAction"}},
			{"no reason", strings.Replace(rule("getcpu2", ""), `"because":"b"`, `"because":""`, 1), []string{"line 7: ", "because"}},
			{"nothing can start", strings.Replace(good, `"execve", `, "", 1), []string{"execve: must be allowed"}},
			{"too large", good + strings.Repeat(" ", 256<<10), []string{"more than the 262144 allowed"}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				write(t, tc.text, 0o600, c.UID)
				refused(t, with.Run(t, job), jailer.CodeInvalidPolicy, "seccomp.profile", append(tc.words, p)...)
			})
		}
		t.Run("missing", func(t *testing.T) {
			os.Remove(p)
			refused(t, with.Run(t, job), jailer.CodeInvalidPolicy, "seccomp.profile", p, "no such file")
		})
		t.Run("writable by others", func(t *testing.T) {
			write(t, good, 0o622, c.UID)
			refused(t, with.Run(t, job), jailer.CodeInvalidPolicy, "seccomp.profile", p, "writable by others", "chmod go-w")
		})
		t.Run("a stranger's", func(t *testing.T) {
			write(t, good, 0o644, 60001)
			refused(t, with.Run(t, job), jailer.CodeInvalidPolicy, "seccomp.profile", p, "owned by uid 60001", "chown root")
		})
		t.Run("in a stranger's directory", func(t *testing.T) {
			write(t, good, 0o600, c.UID)
			own(t, d, 60001)
			defer own(t, d, c.UID)
			o := with.Run(t, job)
			refused(t, o, jailer.CodeInvalidPolicy, "seccomp.profile", d, "owned by uid 60001")
		})
		t.Run("the caller's, and the policy is root's", func(t *testing.T) {
			if c.UID == 0 {
				return // both are root's
			}
			need.Feature(t, "root", os.Geteuid() == 0, "takes root to make")
			write(t, good, 0o644, c.UID)
			own(t, d, 0)
			defer own(t, d, c.UID)
			own(t, with.Policy, 0)
			defer own(t, with.Policy, c.UID)
			if err := os.Chmod(with.Policy, 0o644); err != nil {
				t.Fatal(err)
			}
			refused(t, with.Run(t, job), jailer.CodeInvalidPolicy, "seccomp.profile", "the policy's owner (uid 0)", "chown root")
			own(t, p, 0)
			ran(t, with.Run(t, job))
		})
		t.Run("control", func(t *testing.T) {
			write(t, good, 0o600, c.UID)
			ran(t, with.Run(t, job))
		})
	})
}
