package prereq

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/test/jail"
)

// A launcher that is short of descriptors fails at another step for each
// number of them. None may look like the command's own end, none may run it,
// and what is left, gc removes.
func TestFewDescriptors(t *testing.T) {
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		refusals := 0
		for n := 12; n <= 60; n += 2 {
			script := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, n)
			args := append([]string{"-c", script, jail.Program()}, c.Command(t.Context(), "run", "--", "echo", "RAN").Args[1:]...)
			ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
			cmd := c.Exec(ctx, "/bin/sh", args...)
			out, err := cmd.CombinedOutput()
			cancel()
			ran := strings.Contains(string(out), "RAN\n")
			code := cmd.ProcessState.ExitCode()
			var exit *exec.ExitError
			switch {
			case err != nil && !errors.As(err, &exit):
				t.Fatal(err)
			case ran && code == 0:
			case !ran && code == 125 && strings.Contains(string(out), "jailer: error: "):
				refusals++
			default:
				t.Errorf("with %d descriptors: exit status %d, ran %v\n%s", n, code, ran, out)
			}
		}
		if refusals == 0 {
			t.Error("every number of descriptors was enough: the limit did not hold")
		}
		ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
		defer cancel()
		if out, err := c.Command(ctx, "gc").CombinedOutput(); err != nil {
			t.Errorf("gc: %v\n%s", err, out)
		}
		if out, err := c.Command(ctx, "gc", "--check").CombinedOutput(); err != nil {
			t.Errorf("after gc: %v\n%s", err, out)
		}
	})
}
