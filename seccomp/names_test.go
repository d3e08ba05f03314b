package seccomp

import (
	"slices"
	"testing"
)

func TestClose(t *testing.T) {
	known := []string{"open", "openat", "openat2", "socket", "socketpair", "read", "pread64", "ptrace", "mmap", "munmap"}
	for _, c := range []struct {
		name string
		want []string
	}{
		{"opnat", []string{"openat", "openat2"}},
		{"pthrace", []string{"ptrace"}},
		{"ptraec", []string{"ptrace"}},
		{"soket", []string{"socket"}},
		{"sock", []string{"socket", "socketpair"}},
		{"map", []string{"mmap"}},
		{"raed", []string{"read"}},
		{"frobnicate", nil},
		{"", nil},
		{"x", nil},
	} {
		if got := Close(c.name, known); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"open", "open", 0}, {"abc", "cab", 2}} {
		if got := distance(c.a, c.b); got != c.want || distance(c.b, c.a) != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
