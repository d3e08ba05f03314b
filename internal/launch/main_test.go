package launch

import (
	"os"
	"slices"
	"testing"

	"github.com/jailer-project/jailer/internal/host"
)

// A refusal starts this program again in new namespaces, to find its reason, as
// it does the real one.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], host.TrialArgs) {
		os.Exit(host.Inside())
	}
	os.Exit(m.Run())
}
