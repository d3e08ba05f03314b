package need

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestRequired(t *testing.T) {
	for _, tc := range []struct {
		name, require, lacks string
		want                 bool
	}{
		{"swap", "", "", false},
		{"swap", "", "swap", false},
		{"swap", "swap", "", true},
		{"swap", "git,swap", "", true},
		{"swap", "git", "", false},
		{"swap", "swapped", "", false},
		{"swap", "all", "", true},
		{"swap", "all", "git,swap", false},
		{"swap", "all", "git,swapped", true},
		{"swap", "all,swap", "swap", true},
		{"all", "", "", false},
	} {
		if got := required(tc.name, tc.require, tc.lacks); got != tc.want {
			t.Errorf("%q with JAILER_REQUIRE=%s JAILER_LACKS=%s: %v", tc.name, tc.require, tc.lacks, got)
		}
	}
}

// told stands for a test and remembers what became of it.
type told struct {
	testing.TB
	end string
}

func (f *told) Helper() {}

func (f *told) Skipf(format string, args ...any) {
	f.end = "skip: " + fmt.Sprintf(format, args...)
	panic(f)
}

func (f *told) Fatalf(format string, args ...any) {
	f.end = "fail: " + fmt.Sprintf(format, args...)
	panic(f)
}

// ending runs do and returns how it ended the test, "" if it did not.
func ending(t *testing.T, do func(t testing.TB)) string {
	t.Helper()
	f := &told{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(f) {
				panic(r)
			}
		}()
		do(f)
	}()
	return f.end
}

func TestFeature(t *testing.T) {
	for _, tc := range []struct {
		require, lacks string
		have           bool
		want           string
	}{
		{"", "", true, ""},
		{"all", "", true, ""},
		{"", "", false, "skip: SKIPPED (needs flying-pigs): no wings"},
		{"all", "flying-pigs", false, "skip: SKIPPED (needs flying-pigs): no wings"},
		{"all", "", false, `fail: JAILER_REQUIRE asks for "flying-pigs", but it is missing: no wings`},
	} {
		t.Setenv("JAILER_REQUIRE", tc.require)
		t.Setenv("JAILER_LACKS", tc.lacks)
		got := ending(t, func(t testing.TB) { Feature(t, "flying-pigs", tc.have, "no wings") })
		if got != tc.want {
			t.Errorf("JAILER_REQUIRE=%s JAILER_LACKS=%s, there %v: %q", tc.require, tc.lacks, tc.have, got)
		}
	}
	for _, bad := range []string{"", "two words", "a,b"} {
		if got := ending(t, func(t testing.TB) { Feature(t, bad, true, "") }); got == "" {
			t.Errorf("a feature named %q", bad)
		}
	}
}

func TestProgram(t *testing.T) {
	t.Setenv("JAILER_REQUIRE", "")
	if p := Program(t, "sh"); p == "" {
		t.Error("no shell")
	} else if _, err := os.Stat(p); err != nil {
		t.Error(err)
	}
	if got := ending(t, func(t testing.TB) { Program(t, "no-such-program") }); got != "skip: SKIPPED (needs no-such-program): no-such-program is not installed on this host" {
		t.Error(got)
	}
}

func TestScale(t *testing.T) {
	for s, want := range map[string]int{"": 1, "1": 1, "15": 15, "0": 0, "-1": 0, "x": 0, "1.5": 0, "1000000": 0} {
		got, err := parseScale(s)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
	defer func(n int) { scale = n }(scale)
	scale = 15
	if d := Time(2 * time.Second); d != 30*time.Second || !Slow() || Times(200) != 13 || Times(3) != 1 {
		t.Errorf("%v, %v, %d, %d", d, Slow(), Times(200), Times(3))
	}
	scale = 1
	if d := Time(2 * time.Second); d != 2*time.Second || Slow() || Times(200) != 200 {
		t.Errorf("%v, %v, %d", d, Slow(), Times(200))
	}
}
