package policy

import (
	"strings"
	"testing"
)

// Each error shows the line that it is about, and what is meant on it.
func TestShows(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"version = 1\n[profiles.x]\nlimits = { max = { memory = \"2Q\" } }\n", "2| [profiles.x]\n3| limits = { max = { memory = \"2Q\" } }\n |                             ^^^^"},
		{"version = 1\n\n\n[profiles.x.limits.max]\nmemory = \"2Q\"\n", "5| memory = \"2Q\"\n |          ^^^^"},
		{"version = 1\n[profiles.x]\nenv = { allow = [\"é\", \"A=B\"] }", "3| env = { allow = [\"é\", \"A=B\"] }\n |         ^^^^^"},
		{"version = 1\n[profiles.x]\n\tseccomp = \"none\"\n", "3| \tseccomp = \"none\"\n | \t          ^^^^^^"},
		{"version = 2\n", "1| version = 2\n |           ^"},
		{"version = 1\n[approve]\nrules = [{ argv = [\"a\"] }, { argv = [] }]\n", "3| rules = [{ argv = [\"a\"] }, { argv = [] }]\n |"},
		{"version = 1\n[[owners]]\nuid = 1\nprofiles = [\"*\"]\n[[owners]]\nuid = 1\nprofiles = [\"*\"]\n", "5| [[owners]]\n |   ^^^^^^"},
		{"version = 1\n[events]\npath = \"relative\"\n", "3| path = \"relative\"\n |        ^^^^^^^^^^"},
		{"version = 1\n[profiles.x]\nMemory = 1\n", "3| Memory = 1\n | ^^^^^^"},
		{"version = 1\n[profiles.x]\nseccmp = \"a\"\n", "3| seccmp = \"a\"\n | ^^^^^^"},
		{"version = 1\n[profiles.x\n", " |            ^"},
		{"version = 1\nextends = \"other\"\n", "2| extends = \"other\"\n |           ^^^^^^^"},
	} {
		_, err := Parse("p", []byte(row.text))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v\nwant\n%s", err, row.want)
		}
	}
}

// FuzzShow: whatever the file is, an error can be drawn.
func FuzzShow(f *testing.F) {
	f.Add([]byte("version = 1\n[profiles.x]\nlimits = { max = { memory = \"2Q\" } }\n"))
	f.Add([]byte("version = 1\n[[owners]]\n[[owners]]\nuid = 1\n"))
	f.Add([]byte("a.b.c = [[1,{b=2}],'''\nx''']\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, path := range []string{"version", "profiles.x.limits.max.memory", "owners[1].uid", "a.b.c[0][1].b", ""} {
			show(bad("p", path, "is wrong"), b)
		}
	})
}
