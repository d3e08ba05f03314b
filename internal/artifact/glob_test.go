package artifact

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/need"
)

// model is what a glob means, without care for time: does it match this path, or one
// above it?
func model(g glob, elements []string) bool {
	switch {
	case len(g) == 0:
		return true // and all that is below
	case g[0] == anyDepth:
		for i := 0; i <= len(elements); i++ {
			if len(g) == 1 && i == 0 && len(elements) == 0 {
				continue
			}
			if model(g[1:], elements[i:]) && (len(g) > 1 || len(elements) > 0) {
				return true
			}
		}
		return false
	case len(elements) == 0:
		return false
	}
	ok, _ := path.Match(g[0], elements[0])
	if !ok {
		return false
	}
	if len(g) == 2 && g[1] == anyDepth {
		return true
	}
	return model(g[1:], elements[1:])
}

// walked is what a walk says of it.
func walked(g glob, elements []string) bool {
	globs := []glob{g}
	p, whole := begin(globs)
	if whole[0] {
		return true
	}
	for _, e := range elements {
		next, matches, on := p.enter(globs, e)
		if matches[0] {
			return true
		}
		if !on {
			return false
		}
		p = next
	}
	return false
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob string
		yes  []string
		no   []string
	}{
		{"a", []string{"a", "a/b", "a/b/c"}, []string{"b", "b/a", "ab"}},
		{".", []string{"a", "b/c"}, nil},
		{"./a//", []string{"a"}, []string{"b"}},
		{"*.txt", []string{"x.txt", ".txt"}, []string{"d/x.txt", "x.txtx"}},
		{"**", []string{"a", "a/b"}, nil},
		{"**/*.o", []string{"x.o", "a/x.o", "a/b/c/x.o", "a/x.o/y"}, []string{"x.c", "a/x.oo"}},
		{"out/**", []string{"out", "out/a", "out/a/b"}, []string{"outer", "a/out"}},
		{"a/**/z", []string{"a/z", "a/b/z", "a/b/c/z/y"}, []string{"a", "z", "a/b"}},
		{"a/**/**/z", []string{"a/z"}, []string{"a"}},
		{"?/[b-d]", []string{"x/c"}, []string{"xx/c", "x/e"}},
		{"\\*", []string{"*"}, []string{"x"}},
		{"**/a/**/b", []string{"a/b", "x/a/y/b", "a/a/b"}, []string{"b/a"}},
	} {
		g, err := parseGlob(c.glob)
		if err != nil {
			t.Errorf("%q: %v", c.glob, err)
			continue
		}
		for want, list := range map[bool][]string{true: c.yes, false: c.no} {
			for _, p := range list {
				e := strings.Split(p, "/")
				if walked(g, e) != want || model(g, e) != want {
					t.Errorf("%q %q: %v and %v, want %v", c.glob, p, walked(g, e), model(g, e), want)
				}
			}
		}
	}
	for _, bad := range []string{"", "/a", "..", "a/../b", "a\x00", "[", "a/[x", strings.Repeat("a/", 65), strings.Repeat("x", 4096)} {
		if g, err := parseGlob(bad); err == nil {
			t.Errorf("%.20q: %v", bad, g)
		}
	}
}

// A pattern that a naive matcher would try in every way.
func TestGlobTime(t *testing.T) {
	g, err := parseGlob(strings.Repeat("**/a*/", 30) + "b")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if walked(g, strings.Split(strings.Repeat("aaaa/", 90)+"c", "/")) {
		t.Error("matched")
	}
	if took := time.Since(began); took > need.Time(time.Second) {
		t.Errorf("took %v", took)
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("**/a*/[b-c]?", "x/ab/cd")
	f.Add("a/**", "a")
	f.Add("**", "")
	f.Add("*/**/*", "a/b")
	f.Fuzz(func(t *testing.T, s, p string) {
		g, err := parseGlob(s)
		if err != nil || len(g) > 6 || len(p) > 60 || p == "" || strings.Contains(p, "//") || strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/") {
			return
		}
		e := strings.Split(p, "/")
		if w, m := walked(g, e), model(g, e); w != m {
			t.Errorf("%q %q: %v, want %v", s, p, w, m)
		}
	})
}

func TestProtected(t *testing.T) {
	p := parseProtected([]string{".git/hooks", ".envrc", ".vscode/tasks.json"})
	for _, yes := range []string{
		".envrc", "a/.envrc", ".git/hooks", ".git/hooks/pre-commit", "sub/.git/hooks/x/y", ".GIT/HOOKS", ".git/Hooks", ".envrc.", ".ENVRC ", ".en\u200cvrc",
		".envrc::$DATA", ".vscode/TASKS.json", "\ufeff.envrc", ".envrc...", "a/.envrc/b", ".g\u0131t/hooks"[:0] + ".git/hoo\u212as", // KELVIN SIGN
	} {
		if !p.covers(yes) {
			t.Errorf("%q is not covered", yes)
		}
	}
	for _, no := range []string{"envrc", ".envrc2", ".git", "hooks", ".git/x/hooks", "tasks.json", "a.envrc", ""} {
		if p.covers(no) {
			t.Errorf("%q is covered", no)
		}
	}
	if parseProtected(nil).covers(".envrc") || parseProtected([]string{"."}).covers("x") {
		t.Error("nothing covers something")
	}
}

// FuzzProtected: a covered path stays covered in other letters, below and behind other
// names.
func FuzzProtected(f *testing.F) {
	f.Add(".git/hooks", "a/.git/hooks/b")
	f.Add("K", "\u212a")
	f.Fuzz(func(t *testing.T, rule, path string) {
		p := parseProtected([]string{rule})
		if !p.covers(path) {
			return
		}
		for _, other := range []string{strings.ToUpper(path), "x/" + path, path + "/x"} {
			// One letter may have another number of letters in upper case.
			if len([]rune(other)) == len([]rune(path)) || strings.ContainsRune(other, 'x') {
				back := strings.ToLower(strings.ToUpper(path))
				if !p.covers(other) && back == strings.ToLower(path) {
					t.Errorf("%q covers %q, not %q", rule, path, other)
				}
			}
		}
	})
}
