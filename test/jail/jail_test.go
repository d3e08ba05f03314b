package jail

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
)

func TestWithTimeout(t *testing.T) {
	d := Timeout(30 * time.Second)
	for args, want := range map[string]string{
		"run -- true":                   "run --timeout " + d + " -- true",
		"run":                           "run --timeout " + d,
		"run -- sleep --timeout":        "run --timeout " + d + " -- sleep --timeout",
		"run --json --timeout 1s -- x":  "run --json --timeout 1s -- x",
		"run --timeout=1s -- x":         "run --timeout=1s -- x",
		"run --request - -- x":          "run --request - -- x",
		"gc --json":                     "gc --json",
		"doctor --json --policy /x.tom": "doctor --json --policy /x.tom",
	} {
		if got := strings.Join(withTimeout(strings.Fields(args)), " "); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
	if d := Timeout(time.Hour); d != "5m0s" {
		t.Errorf("over the ceiling: %s", d)
	}
}

// The tree is the one that the test runs in.
func TestModule(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if m := Module(); filepath.Join(m, "test", "jail") != wd {
		t.Errorf("%s, started in %s", m, wd)
	}
	t.Chdir("/")
	if d := findModule(); d != "" {
		t.Errorf("a tree at %s", d)
	}
	if Module() == "" {
		t.Error("lost after a change of directory")
	}
}

// told counts the errors of a test that must fail.
type told struct {
	testing.TB
	errors int
}

func (f *told) Helper() {}

func (f *told) Errorf(string, ...any) { f.errors++ }

func TestHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		limits map[string]string
		want   int
	}{
		"cgroup2":     {map[string]string{"memory": "cgroup2", "pids": "cgroup2", "cpu": "cgroup2"}, 0},
		"nothing":     {nil, 3},
		"one is less": {map[string]string{"memory": "cgroup2", "pids": "rlimit", "cpu": "cgroup2"}, 1},
		"cgroup1":     {map[string]string{"memory": "cgroup1", "pids": "cgroup1", "cpu": "cgroup1"}, 3},
	} {
		f := &told{TB: t}
		(&Outcome{Result: &jailer.Result{Isolation: jailer.Isolation{Limits: tc.limits}}}).held(f)
		if f.errors != tc.want {
			t.Errorf("%s: %d errors, want %d", name, f.errors, tc.want)
		}
	}
	f := &told{TB: t}
	if (&Outcome{}).held(f); f.errors > 0 {
		t.Error("of a command that never ran")
	}
}
