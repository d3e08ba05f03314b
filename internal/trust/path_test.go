package trust

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/test/need"
)

func TestPath(t *testing.T) {
	lax := Rules{Owners: []int{0, os.Geteuid()}, Links: true, Sticky: true}
	strict := Rules{Owners: []int{0}}
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	try(errors.Join(os.MkdirAll(at("own/deep"), 0o755), os.MkdirAll(at("open/deep"), 0o755), os.Chmod(at("open"), 0o777),
		os.MkdirAll(at("sticky/deep"), 0o755), os.Chmod(at("sticky"), 0o777|os.ModeSticky),
		os.Symlink("own", at("link")), os.Symlink("open/../own", at("around")), os.Symlink("loop", at("loop")), os.Symlink("sticky/deep/..", at("back"))))
	for _, c := range []struct {
		rules Rules
		path  string
		want  string
	}{
		{lax, at("own/deep"), ""},
		{lax, at("link/deep"), ""},
		{lax, at("open/deep"), "open: is writable by others"},
		{lax, at("around/deep"), "open: is writable by others"},
		{lax, at("sticky"), "sticky: is writable by others"},
		{lax, at("back"), "sticky: is writable by others"},
		{lax, at("none/deep"), "no such file"},
		{lax, at("loop/deep"), "too many levels"},
		{strict, at("own/deep"), "/tmp: is writable by others"},
		{strict, "/usr", ""},
	} {
		err := c.rules.Path(c.path)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	t.Run("others", func(t *testing.T) {
		need.Root(t)
		if err := lax.Path(at("sticky/deep")); err != nil {
			t.Errorf("root's own below a sticky directory of root's: %v", err)
		}
		try(errors.Join(os.Chown(at("sticky"), 54321, 0), os.Lchown(at("link"), 54321, 0)))
		for _, p := range []string{"sticky/deep", "link/deep"} {
			if err := lax.Path(at(p)); err == nil {
				t.Errorf("%s is another's and is passed", p)
			}
		}
	})
	if b, err := os.ReadFile("/proc/self/uid_map"); err == nil && strings.Contains(string(b), "4294967295") && unmapped(65534) {
		t.Error("every uid of this namespace has an id, and one is said to have none")
	}
}

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{"/a/b-1.x": "/a/b-1.x", "": "''", "a b": "'a b'", "$(x)": "'$(x)'", "it's": `'it'\''s'`, "~": "'~'"} {
		if got := Quote(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}
