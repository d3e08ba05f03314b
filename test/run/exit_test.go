package run

import (
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

func TestExit(t *testing.T) {
	exits := func(code int) func(*testing.T, *jail.Caller, *jail.Outcome) {
		return func(t *testing.T, _ *jail.Caller, o *jail.Outcome) { o.Exited(t, code) }
	}
	signaled := func(name string, code int) func(*testing.T, *jail.Caller, *jail.Outcome) {
		return func(t *testing.T, _ *jail.Caller, o *jail.Outcome) { o.Signaled(t, name, code) }
	}
	each(t, []row{
		{"true", jail.Job{Argv: []string{"true"}}, exits(0)},
		{"exit 7", jail.Job{Sh: "exit 7"}, exits(7)},
		{"exit 125 is the command's", jail.Job{Sh: "exit 125"}, exits(125)},
		{"25d exit 137 is no kill", jail.Job{Sh: "exit 137"}, exits(137)},
		{"exit 255", jail.Job{Sh: "exit 255"}, exits(255)},
		{"nosuch", jail.Job{Argv: []string{"nosuch"}}, func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
			o.Refused(t, 127, jailer.CodeCommandNotFound, `"nosuch"`)
		}},
		{"nosuch path", jail.Job{Argv: []string{"/nosuch/dir/cmd"}}, func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
			o.Refused(t, 127, jailer.CodeCommandNotFound, "/nosuch/dir/cmd")
		}},
		{"not executable", jail.Job{Argv: []string{"/etc/passwd"}}, func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
			o.Refused(t, 126, jailer.CodeCommandNotExecutable, "/etc/passwd")
		}},
		{"a directory", jail.Job{Argv: []string{"/usr"}}, func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
			o.Refused(t, 126, jailer.CodeCommandNotExecutable, "/usr")
		}},
		{"kill -TERM itself", jail.Job{Sh: "kill -TERM $$"}, signaled("SIGTERM", 143)},
		{"kill -ABRT itself", jail.Job{Sh: "kill -ABRT $$"}, signaled("SIGABRT", 134)},
		{"25c kill -KILL itself", jail.Job{Sh: "kill -KILL $$"}, signaled("SIGKILL", 137)},
		{"28 kill -SEGV itself", jail.Job{Sh: "kill -SEGV $$"}, signaled("SIGSEGV", 139)},
		{"28 kill -USR1 itself", jail.Job{Sh: "kill -USR1 $$"}, signaled("SIGUSR1", 138)},
		{"cwd that is not there", jail.Job{Flags: []string{"--cwd", "/nosuch"}, Sh: "echo RAN"}, func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
			o.Refused(t, 125, jailer.CodeInvalidPath, "/nosuch", "/workspace")
		}},
		{"over a ceiling", jail.Job{Flags: []string{"--timeout", "301s"}, Sh: "echo RAN"}, func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
			o.Refused(t, 126, jailer.CodePolicyDenied, "timeout", "5m1s", "5m0s")
		}},
	})
}

// In raw mode the exit status alone has to tell.
func TestExitRaw(t *testing.T) {
	each(t, []row{
		{"exit 7", jail.Job{Raw: true, Sh: "echo out; echo err >&2; exit 7"}, raw(7, "out\n", "err\n")},
		{"kill -TERM itself", jail.Job{Raw: true, Sh: "kill -TERM $$"}, raw(143, "", "")},
		{"kill -ABRT itself", jail.Job{Raw: true, Sh: "kill -ABRT $$"}, raw(134, "", "")},
		{"kill -KILL itself", jail.Job{Raw: true, Sh: "kill -KILL $$"}, raw(137, "", "")},
		{"nosuch", jail.Job{Raw: true, Argv: []string{"nosuch"}}, rawError(127, `"nosuch"`)},
		{"not executable", jail.Job{Raw: true, Argv: []string{"/etc/passwd"}}, rawError(126, "/etc/passwd")},
		{"unknown flag", jail.Job{Raw: true, Flags: []string{"--memroy", "1"}, Argv: []string{"true"}}, rawError(125, "--memroy")},
		{"no command", jail.Job{Raw: true}, rawError(125, "no command")},
		{
			"timeout",
			jail.Job{Raw: true, Flags: []string{"--timeout", "3s"}, Sh: "echo out; sleep 200"},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				if o.Code != 124 || o.Stdout != "out\n" || !strings.HasPrefix(o.Stderr, "jailer: warning: ended by the wall clock") {
					t.Error(o)
				}
				o.Within(t, prompt)
			},
		},
	})
}

func raw(code int, stdout, stderr string) func(*testing.T, *jail.Caller, *jail.Outcome) {
	return func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
		if o.Code != code || o.Stdout != stdout || o.Stderr != stderr {
			t.Errorf("want exit status %d, stdout %q, stderr %q, got:\n%s", code, stdout, stderr, o)
		}
	}
}

func rawError(code int, word string) func(*testing.T, *jail.Caller, *jail.Outcome) {
	return func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
		if o.Code != code || o.Stdout != "" || !strings.HasPrefix(o.Stderr, "jailer: error: ") || !strings.Contains(o.Stderr, word) {
			t.Errorf("want exit status %d and an error with %q, got:\n%s", code, word, o)
		}
		if strings.Contains(o.Stderr, "Usage:") {
			t.Errorf("usage text after an error:\n%s", o)
		}
	}
}
