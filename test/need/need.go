// Package need turns missing host features into skips that say so, and into
// failures where a test bed promises the feature. A skip is true only for what
// this kernel or host can't show; a defect of jailer is never a skip. It also
// knows how slow the test bed is.
//
// Three variables speak for the test bed:
//
//	JAILER_REQUIRE=a,b    a test that lacks one of these features fails; "all" is every one
//	JAILER_LACKS=a,b      features that are known to be missing: skips, whatever is required
//	JAILER_TIME_SCALE=15  how many times slower than an ordinary machine it is
package need

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Feature skips t when have is false, naming the feature and the reason. Where
// JAILER_REQUIRE asks for the feature it fails instead, so that a test bed can't
// lose a proof in silence.
func Feature(t testing.TB, name string, have bool, reason string) {
	t.Helper()
	if !word.MatchString(name) {
		t.Fatalf("a feature can't be named %q in JAILER_REQUIRE", name)
	}
	switch {
	case have:
	case required(name, os.Getenv("JAILER_REQUIRE"), os.Getenv("JAILER_LACKS")):
		t.Fatalf("JAILER_REQUIRE asks for %q, but it is missing: %s", name, reason)
	default:
		t.Skipf("SKIPPED (needs %s): %s", name, reason)
	}
}

// word is what can stand in a comma-separated list and be typed in a shell. The
// probe of test/escape names its attacks after paths.
var word = regexp.MustCompile(`^[A-Za-z0-9_:/.+-]+$`)

// required tells whether the lack of a feature is a failure. A feature that is
// required by its name and lacks at the same time is one: the two contradict
// each other, and only a proof settles it.
func required(name, require, lacks string) bool {
	wants := strings.Split(require, ",")
	return slices.Contains(wants, name) || slices.Contains(wants, "all") && !slices.Contains(strings.Split(lacks, ","), name)
}

// Root asks for effective uid 0.
func Root(t testing.TB) {
	t.Helper()
	Feature(t, "root", os.Geteuid() == 0, "not running as root")
}

// Program asks for a program on the host, by name in the usual directories.
func Program(t testing.TB, name string) string {
	t.Helper()
	p, err := program(name)
	Feature(t, name, err == nil, fmt.Sprint(err))
	return p
}

func program(name string) (string, error) {
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
		if st, err := os.Stat(dir + "/" + name); err == nil && st.Mode()&0o111 != 0 && !st.IsDir() {
			return dir + "/" + name, nil
		}
	}
	return "", fmt.Errorf("%s is not installed on this host", name)
}
