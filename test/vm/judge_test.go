package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/vm/plan"
)

// The plan of these tests: a job with two tests, one that may be skipped for want
// of v1, and a second job that is no test.
func small() (plan.Plan, map[string][]string) {
	p := plan.Plan{Ways: []plan.Way{{
		Name: "w", Env: map[string]string{"JAILER_LACKS": "cgroup1,hybrid"},
		Jobs: []plan.Job{{Name: "a", Test: true, Must: []string{"TestOne/sub"}}, {Name: "b"}},
	}}}
	return p, map[string][]string{"w a": {"TestOne", "TestTwo"}}
}

func result(name, action string) plan.Event {
	return plan.Event{Kind: plan.Test, Way: "w", Job: "a", Go: &plan.TestEvent{Action: action, Test: name}}
}

func output(name, text string) plan.Event {
	return plan.Event{Kind: plan.Test, Way: "w", Job: "a", Go: &plan.TestEvent{Action: "output", Test: name, Output: text}}
}

// good is the answer of a guest that did everything.
func good() []plan.Event {
	return []plan.Event{
		{Kind: plan.Boot},
		{Kind: plan.WayBegin, Way: "w"},
		{Kind: plan.JobBegin, Way: "w", Job: "a"},
		result("TestOne/sub", "pass"),
		result("TestOne", "pass"),
		output("TestTwo", "x_test.go:1: SKIPPED (needs cgroup1): v2 only\n"),
		result("TestTwo", "skip"),
		{Kind: plan.JobEnd, Way: "w", Job: "a"},
		{Kind: plan.JobBegin, Way: "w", Job: "b"},
		{Kind: plan.JobEnd, Way: "w", Job: "b"},
		{Kind: plan.WayEnd, Way: "w"},
		{Kind: plan.End},
	}
}

// Whatever is missing from an answer, or wrong in it, is red and says what.
func TestJudge(t *testing.T) {
	without := func(drop func(plan.Event) bool) []plan.Event {
		return slices.DeleteFunc(good(), drop)
	}
	test := func(name string) func(plan.Event) bool {
		return func(e plan.Event) bool { return e.Go != nil && e.Go.Test == name && e.Go.Action != "output" }
	}
	change := func(pick func(plan.Event) bool, to func(*plan.Event)) []plan.Event {
		es := good()
		i := slices.IndexFunc(es, pick)
		to(&es[i])
		return es
	}
	kind := func(k plan.Kind, job string) func(plan.Event) bool {
		return func(e plan.Event) bool { return e.Kind == k && e.Job == job }
	}
	for _, tc := range []struct {
		name   string
		events []plan.Event
		end    end
		want   string // "" for green
	}{
		{"all there", good(), end{}, ""},
		{"no end marker", good()[:11], end{}, "powered off without an end marker"},
		{"nothing at all", nil, end{}, "way w: missing"},
		{"hung", good()[:5], end{hung: true, took: time.Minute}, "the guest hung: no end marker after 1m0s"},
		{"panicked", good()[:5], end{console: "x\r\n[ 1.0] Kernel panic - not syncing: Attempted to kill init!\r\n"}, "Kernel panic - not syncing: Attempted to kill init!"},
		{"qemu failed", nil, end{err: io.ErrUnexpectedEOF}, "qemu failed: unexpected EOF"},
		{"listed test missing", without(test("TestOne")), end{}, "way w: a: TestOne is missing"},
		{"subtest that must be missing", without(test("TestOne/sub")), end{}, "TestOne/sub is missing"},
		{"test that never ended", append(without(test("TestTwo")), output("TestTwo", "=== RUN\n")), end{}, "TestTwo is missing"},
		{"failed test", append([]plan.Event{}, change(test("TestOne/sub"), func(e *plan.Event) { e.Go.Action = "fail" })...), end{}, "FAIL TestOne/sub"},
		{"skip for want of something else", change(func(e plan.Event) bool { return e.Go != nil && e.Go.Action == "output" }, func(e *plan.Event) {
			e.Go.Output = "SKIPPED (needs swap): none\n"
		}), end{}, "SKIP TestTwo"},
		{"skip without a reason", without(func(e plan.Event) bool { return e.Go != nil && e.Go.Action == "output" }), end{}, "SKIP TestTwo"},
		{"job exits 7", change(kind(plan.JobEnd, "b"), func(e *plan.Event) { e.Code = 7 }), end{}, "way w: b: exit status 7"},
		{"job missing", without(func(e plan.Event) bool { return e.Job == "b" }), end{}, "way w: b: missing"},
		{"job without end", without(kind(plan.JobEnd, "b")), end{}, "way w: b: did not come to its end"},
		{"way without end", without(kind(plan.WayEnd, "")), end{}, "way w: did not come to its end"},
		{"way with an error", change(kind(plan.WayEnd, ""), func(e *plan.Event) { e.Error = "the cgroup tree changed: new: /x" }), end{}, "new: /x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, lists := small()
			r := newReport(p, lists, io.Discard)
			for _, e := range tc.events {
				r.add(e)
			}
			err := r.judge(tc.end)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}

// A line that is cut or no JSON is shown, and is no end marker.
func TestFollow(t *testing.T) {
	f := filepath.Join(t.TempDir(), "results")
	if err := os.WriteFile(f, []byte("{\"kind\":\"boot\"}\nrubbish\n{\"kind\":\"end\""), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var got []plan.Kind
	follow(in, func(e plan.Event) { got = append(got, e.Kind) })()
	if !slices.Equal(got, []plan.Kind{plan.Boot, plan.Output}) {
		t.Errorf("%v", got)
	}
}

// Whoever changes a script gets another image.
func TestKey(t *testing.T) {
	p := guestOf("trixie")
	seen := map[string]bool{p.key(): true, guestOf("bookworm").key(): true}
	for i := range p.scripts {
		q := guestOf("trixie")
		q.scripts[i].text = append(slices.Clone(q.scripts[i].text), '\n')
		seen[q.key()] = true
	}
	if len(seen) != len(p.scripts)+2 {
		t.Errorf("%d different keys for %d scripts", len(seen), len(p.scripts))
	}
	if p.key() != guestOf("trixie").key() {
		t.Error("the key is not stable")
	}
}

func TestWaysAreNamed(t *testing.T) {
	for _, w := range ways {
		if !slices.Contains(strings.Split(w.Env["JAILER_REQUIRE"], ","), "all") || w.What == "" || len(w.Jobs) == 0 || w.Jobs[0].Name != "test/ways" {
			t.Errorf("%+v", w)
		}
	}
	for _, none := range [][2]string{{"nosuch", ""}, {"", "test/typo"}, {"partial", "test/run"}} {
		if p, err := waysOf(none[0], none[1], false); err == nil {
			t.Errorf("-way %q -job %q: %d ways", none[0], none[1], len(p.Ways))
		}
	}
	p, err := waysOf("root", "", true)
	if err != nil || !slices.ContainsFunc(p.Ways[0].Jobs, func(j plan.Job) bool { return j.Name == "guest" }) || len(p.Ways[0].Jobs) != len(allJobs)+2 {
		t.Errorf("all of root: %+v, %v", p, err)
	}
	if p, err = waysOf("none", "test/escape", true); err != nil || len(p.Ways[0].Jobs) != 1 {
		t.Errorf("the attacks in none: %+v, %v", p, err)
	}
	if p, err = waysOf("apparmor,root", "", false); err != nil {
		t.Fatal(err)
	}
	if q, err := in("trixie", p); err != nil || len(q.Ways) != 2 {
		t.Errorf("in trixie: %+v, %v", q, err)
	}
	if q, err := in("bookworm", p); err != nil || len(q.Ways) != 1 || q.Ways[0].Name != "root" || len(p.Ways) != 2 {
		t.Errorf("in bookworm: %+v, %v", q, err)
	}
	p.Ways = p.Ways[:1]
	if _, err := in("bookworm", p); err == nil {
		t.Error("in bookworm nothing is left, and that is no error")
	}
}
