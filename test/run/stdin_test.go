package run

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

// yes is a reader without an end.
type yes struct{}

func (yes) Read(b []byte) (int, error) { return copy(b, "y\n"), nil }

func TestStdin(t *testing.T) {
	each(t, []row{
		{"31 none by default", jail.Job{Stdin: yes{}, Argv: []string{"cat"}}, says("")},
		{"31 given", jail.Job{Input: "abc", Flags: []string{"--stdin", "-"}, Argv: []string{"cat"}}, says("abc")},
		{"31 not read to its end", jail.Job{Stdin: yes{}, Flags: []string{"--stdin", "-"}, Argv: []string{"true"}}, says("")},
		{"31 much", jail.Job{Input: strings.Repeat("y\n", 4<<20), Flags: []string{"--stdin", "-"}, Sh: "wc -c"}, says("8388608\n")},
		{"31 empty", jail.Job{Flags: []string{"--stdin", "-"}, Argv: []string{"cat"}}, says("")},
		{"31 a file", jail.Job{Flags: []string{"--stdin", "/etc/passwd"}, Sh: "head -c 5"}, says("root:")},
		{
			"31 a file that is not there",
			jail.Job{Flags: []string{"--stdin", "/nosuch"}, Sh: "echo RAN"},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				o.Refused(t, 125, jailer.CodeInvalidPath, "/nosuch")
			},
		},
		{
			"31 a directory",
			jail.Job{Flags: []string{"--stdin", "/tmp"}, Sh: "echo RAN"},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				o.Refused(t, 125, jailer.CodeInvalidPath, "/tmp")
			},
		},
		{"31 no terminal", jail.Job{Sh: "tty; [ -t 0 ] || [ -t 1 ] || echo none"}, func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
			if o.Exited(t, 0); o.Out() != "not a tty\nnone\n" {
				t.Error(o)
			}
		}},
	})
}

// The shell's pipelines, with jailer in the place of the command.
func TestPipelines(t *testing.T) {
	t.Parallel()
	pipelines := []struct{ name, script, want string }{
		{"31 yes into cat that has no stdin", `yes | $J -- cat; echo $?`, "0\n"},
		{"31 printf into cat", `printf abc | $J --stdin - -- cat; echo " $?"`, "abc 0\n"},
		{"31 yes into true", `yes | $J --stdin - -- true; echo $?`, "0\n"},
		{"yes into head", `$J -- yes | head -1`, "y\n"},
		{"stderr apart", `$J -- sh -c 'echo o; echo e >&2' 2>/dev/null`, "o\n"},
		{"into a file", `$J -- echo abc >"$T/out"; cat "$T/out"`, "abc\n"},
		{"a closed stdout", `$J -- sh -c 'echo x; exit 3' >&-; echo $?`, ""},
		{"a closed stdin", `$J --stdin - -- cat <&-; echo $?`, ""},
	}
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for _, p := range pipelines {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				o := c.Run(t, jail.Job{Raw: true, Flags: []string{"--timeout", "200s"}, Setup: func(cmd *exec.Cmd) {
					args := cmd.Args // jailer run --state-dir … [--policy …]
					cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", p.script}
					cmd.Env = append(cmd.Env, "J="+strings.Join(args, " "), "T="+c.Home)
				}})
				o.Within(t, prompt)
				if p.want == "" {
					// A shell's mistake may fail, but must not hang or claim a signal.
					if n := strings.TrimSpace(o.Stdout); n != "0" && n != "3" && n != "125" {
						t.Error(o)
					}
					return
				}
				if o.Stdout != p.want {
					t.Errorf("want %q, got:\n%s", p.want, o)
				}
			})
		}
	})
}

// The caller's stdin stays the caller's: what the job did not ask for is not
// eaten.
func TestStdinUntouched(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := w.WriteString("mine"); err != nil {
			t.Fatal(err)
		}
		w.Close()
		c.Run(t, jail.Job{Stdin: r, Argv: []string{"cat"}}).Said(t, "")
		if b, err := io.ReadAll(r); err != nil || string(b) != "mine" {
			t.Errorf("%q is left of the caller's stdin, %v", b, err)
		}
	})
}
