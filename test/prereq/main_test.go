// Package prereq takes away, one at a time, what a jail rests on. Each time
// jailer must refuse with exit status 125, the reason and the remedy, and the
// command must not run, inside a jail or outside. A control without the fault
// runs it, so that a refusal for another reason doesn't count.
package prereq

import (
	"context"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

func TestMain(m *testing.M) { jail.Main(m) }

// The command of every test here: it says so if it runs.
var job = jail.Job{Sh: "echo RAN"}

// flags is job with flags.
func flags(f ...string) jail.Job {
	j := job
	j.Flags = f
	return j
}

// ran is the control.
func ran(t *testing.T, o *jail.Outcome) {
	t.Helper()
	o.Said(t, "RAN\n")
}

// refused is what every fault must come to.
func refused(t *testing.T, o *jail.Outcome, code jailer.Code, reason string, words ...string) {
	t.Helper()
	if strings.Contains(o.Stdout, `RAN\n`) || strings.Contains(o.Stdout+o.Stderr, "RAN\n") {
		t.Fatalf("the command ran:\n%s", o)
	}
	o.Refused(t, 125, code, words...)
	if o.Err.Reason != reason {
		t.Errorf("the reason is %q, want %q:\n%s", o.Err.Reason, reason, o)
	}
	if o.Err.Hint == "" {
		t.Errorf("no hint:\n%s", o)
	}
}

// behind runs jailer after a shell script has changed what it will find, in the
// namespaces that unshare(1)'s flags make: nothing of it reaches the host.
func behind(t *testing.T, c *jail.Caller, unshare []string, script string, j jail.Job) *jail.Outcome {
	t.Helper()
	need.Program(t, "unshare")
	ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
	defer cancel()
	args := []string{"run", "--json"}
	args = append(append(args, j.Flags...), "--", "sh", "-c", j.Sh)
	inner := c.Command(ctx, args...)
	argv := append(append([]string{}, unshare...), "/bin/sh", "-ec", script+"\nexec \"$@\"", "sh")
	outer := c.Exec(ctx, "/usr/bin/unshare", append(argv, inner.Args...)...)
	return jail.Finish(t, j, outer)
}

// tried says whether a command works here at all, for what a host may deny.
func tried(c *jail.Caller, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), jail.Deadline)
	defer cancel()
	return c.Exec(ctx, name, args...).Run()
}
