// Package run holds `jailer run` to what it promises, with the real program: as
// root with the kernel's limits, and as an ordinary user whose policy accepts
// best effort, where isolation.limits of the result says what may be expected.
// The names of the tests are the rows of the acceptance table and the numbers of
// the situations that people met with other tools.
package run

import (
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

func TestMain(m *testing.M) { jail.Main(m) }

// row is one run and what must come of it.
type row struct {
	name  string
	job   jail.Job
	check func(t *testing.T, c *jail.Caller, o *jail.Outcome)
}

// each runs every row for every caller, several at a time.
func each(t *testing.T, rows []row) {
	t.Helper()
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for _, r := range rows {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				r.check(t, c, c.Run(t, r.job))
			})
		}
	})
}

// says is the check for a command that prints this and ends with 0.
func says(want string) func(*testing.T, *jail.Caller, *jail.Outcome) {
	return func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
		t.Helper()
		o.Said(t, want)
	}
}

// prompt is how soon a run must be over that has nothing to wait for. It is far
// more than it takes, and far less than the sleeps that it must not wait for.
var prompt = min(need.Time(60*time.Second), 4*time.Minute)

// tick is a pause between two looks.
func tick() <-chan time.Time { return time.After(20 * time.Millisecond) }
