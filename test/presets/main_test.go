// Package presets gives the policies of profiles/policies real tasks, with the real
// program, and prints what they took.
package presets

import (
	"strings"
	"testing"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

func TestMain(m *testing.M) { jail.Main(m) }

// each runs f for every caller for whom limits hold: a preset has no best effort.
func each(t *testing.T, f func(t *testing.T, c *jail.Caller)) {
	t.Helper()
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		b := c.WithPolicy(t, "builtin.toml", "version = 1\nextends = \"builtin\"\n")
		if o := b.Run(t, jail.Job{Argv: []string{"true"}}); o.Err != nil {
			need.Feature(t, "delegated", !strings.HasPrefix(o.Err.Reason, "cgroup."), o.Err.Error())
			t.Fatal(o)
		}
		f(t, c)
	})
}
