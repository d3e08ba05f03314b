package jailpath

import (
	"path"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	long := strings.Repeat("a", MaxNameBytes)
	deep := strings.Repeat("a/", 2041) + "aa"
	for _, c := range []struct{ name, in, want, msg string }{
		{"relative", "a", "/workspace/a", ""},
		{"relative and deep", "a/b/c.txt", "/workspace/a/b/c.txt", ""},
		{"absolute", "/workspace/a", "/workspace/a", ""},
		{"tmp", "/tmp/a", "/tmp/a", ""},
		{"home", "/home/jail/.config/a", "/home/jail/.config/a", ""},
		{"a mount", "/tmp", "/tmp", ""},
		{"the workspace", ".", "/workspace", ""},
		{"unclean", "./a//b/", "/workspace/a/b", ""},
		{"dots in a name", "a..b/...", "/workspace/a..b/...", ""},
		{"newline and no UTF-8", "a\nb\xff", "/workspace/a\nb\xff", ""},
		{"equals", "a=b", "/workspace/a=b", ""},
		{"longest name", long, "/workspace/" + long, ""},
		{"longest path", deep, "/workspace/" + deep, ""},

		{"empty", "", "", "empty"},
		{"NUL", "a\x00b", "", "NUL"},
		{"up", "../a", "", `".."`},
		{"up inside", "a/../b", "", `".."`},
		{"up at the end", "/tmp/..", "", `".."`},
		{"root", "/", "", "not below"},
		{"etc", "/etc/passwd", "", "not below"},
		{"proc", "/proc/self/fd/3", "", "not below"},
		{"shm", "/dev/shm/a", "", "not below"},
		{"home of others", "/home/other/a", "", "not below"},
		{"home's parent", "/home", "", "not below"},
		{"a prefix that is none", "/tmpx/a", "", "not below"},
		{"a longer name", "a/" + long + "b", "", "at most 255"},
		{"a longer path", "/tmp/" + strings.Repeat("a/", 2048), "", "at most 4095"},
		{"longer with its parent", deep + "a", "", "/workspace before it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Resolve(c.in)
			if c.msg != "" {
				if err == nil || !strings.Contains(err.Error(), c.msg) || len(err.Error()) > 1000 {
					t.Fatalf("got %.80q, %v", got, err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("got %.80q (%d bytes), %v, want %.80q", got, len(got), err, c.want)
			}
		})
	}
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{"a", "/tmp/a", "../a", "/workspace/../etc", "a//./b/", "\x00", "/", "", "/tmp\x00/a", "\u2025/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		abs, err := Resolve(p)
		if err != nil {
			if abs != "" || strings.ContainsAny(err.Error(), "\n\x1b\x00") {
				t.Fatalf("got %q, %q", abs, err)
			}
			return
		}
		again, err := Resolve(abs)
		if err != nil || again != abs {
			t.Errorf("%q resolves to %q, that to %q, %v", p, abs, again, err)
		}
		if len(abs) > MaxBytes || abs != path.Clean(abs) || Mount(abs) == "" || strings.Contains(abs+"/", "/../") || strings.Contains(abs, "\x00") {
			t.Errorf("%q resolves to %q", p, abs)
		}
	})
}
