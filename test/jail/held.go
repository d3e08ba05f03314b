package jail

import (
	"os"
	"testing"
)

// limitsRequired says that this process is an ordinary user's, and that his
// cgroup v2 is delegated with all controllers (JAILER_LIMITS=required): no limit
// may be held by anything less. A user that root plays has no such cgroup.
func limitsRequired() bool {
	return os.Getenv("JAILER_LIMITS") == "required" && os.Geteuid() != 0
}

// held wants cgroup v2 behind the limits of a command that ran.
func (o *Outcome) held(t testing.TB) {
	t.Helper()
	if o.Result == nil {
		return
	}
	for _, limit := range []string{"memory", "pids", "cpu"} {
		if by := o.LimitedBy(limit); by != "cgroup2" {
			t.Errorf("JAILER_LIMITS=required, and %s is held by %q:\n%s", limit, by, o)
		}
	}
}
