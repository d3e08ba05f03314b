package workspace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
)

// Each way of not being a name.
func TestNamesRefused(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, s := range []string{
		"", "a", "/", "a/", "/a", "//", "a//b", "a/b/", "a/b/c",
		"../a", "a/..", "./a", "a/.", "a/.hidden", "a/../../b", "..", `a\b`, `a/b\c`,
		"A/b", "a/B", "a.b/c", "-a/b", "a/-b", "_a/b", "a/_b", "~/a", "a/~",
		"a b/c", "a/b c", " a/b", "a/b ", "a/b\n", "a\n/b", "a\x00/b", "a/b\x00",
		"\u0430/b", "a/\u00e9", "a/e\u0301", "a\u2215b", "\uff41/b", "a/b\u200b", "a/\xff", "%2e%2e/a", "a/%2f",
		long + "a/b", "a/" + long + "a", strings.Repeat("a/b", 1<<16),
	} {
		n, err := ParseName(s)
		coded(t, err, jailer.CodeInvalidRequest)
		if err == nil {
			t.Errorf("%q is %q", s, n)
		}
		if p := PathOf("/data", s); p != "" {
			t.Errorf("%q is at %s", s, p)
		}
	}
	for _, s := range []string{"a/b", "0/0", "a-b_c/d-e_f.g", "a/b..c", long + "/" + long} {
		n, err := ParseName(s)
		if err != nil || n.String() != s {
			t.Errorf("%q: %q %v", s, n, err)
		}
	}
}

// No two names have one directory, however the letters are dealt out to the two parts;
// and every directory is a plain name.
func TestNamesApart(t *testing.T) {
	parts := []string{""}
	for _, s := range parts {
		for _, c := range "ab1-_" {
			parts = append(parts, s+string(c))
			for _, d := range "ab1-_." {
				parts = append(parts, s+string(c)+string(d), s+string(c)+string(d)+"1")
			}
		}
	}
	seen := map[string]string{}
	for _, a := range parts {
		for _, b := range parts {
			n, err := ParseName(a + "/" + b)
			if err != nil {
				continue
			}
			if was, ok := seen[n.dir()]; ok && was != n.String() {
				t.Fatalf("%s and %s", was, n)
			}
			seen[n.dir()] = n.String()
			if want := fmt.Sprintf("/data/workspaces/%s/files", n.dir()); PathOf("/data", n.String()) != want || strings.Trim(n.dir(), "0123456789abcdef") != "" {
				t.Fatalf("%s is at %s", n, PathOf("/data", n.String()))
			}
		}
	}
	if len(seen) < 1000 {
		t.Errorf("%d names", len(seen))
	}
}
