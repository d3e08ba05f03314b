// Package need turns missing host features into skips that say so, and into
// failures where JAILER_REQUIRE names the feature. A skip is true only for what
// this kernel or host can't show; a defect of jailer is never a skip.
package need

import (
	"os"
	"strings"
	"testing"
)

// Feature skips t when have is false, naming the feature and the reason. With
// the feature's name in the comma-separated JAILER_REQUIRE it fails instead, so
// that a test bed can't lose a proof in silence.
func Feature(t testing.TB, name string, have bool, reason string) {
	t.Helper()
	if have {
		return
	}
	for _, f := range strings.Split(os.Getenv("JAILER_REQUIRE"), ",") {
		if f == name || f == "all" {
			t.Fatalf("JAILER_REQUIRE names %q, but it is missing: %s", name, reason)
		}
	}
	t.Skipf("SKIPPED (needs %s): %s", name, reason)
}

// Root asks for effective uid 0.
func Root(t testing.TB) {
	t.Helper()
	Feature(t, "root", os.Geteuid() == 0, "not running as root")
}

// Program asks for a program on the host, by name in the usual directories.
func Program(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
		if st, err := os.Stat(dir + "/" + name); err == nil && st.Mode()&0o111 != 0 && !st.IsDir() {
			return dir + "/" + name
		}
	}
	Feature(t, name, false, name+" is not installed on this host")
	return ""
}
