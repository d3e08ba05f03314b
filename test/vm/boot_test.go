package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/need"
	"github.com/jailer-project/jailer/test/vm/plan"
)

// bed is the machine for boots of the harness's own tests. They are part of `make
// test-vm`, which has made it.
func bed(t *testing.T) machine {
	t.Helper()
	need.Feature(t, "bed", os.Getenv("JAILER_BED") != "", "boots belong to `make test-vm`")
	m, err := newMachine(t.Context(), "trixie")
	if err != nil {
		t.Fatal(err)
	}
	m.dir = t.TempDir()
	return m
}

// TestMain goes where the payload is: the tree.
func TestMain(m *testing.M) {
	if os.Getenv("JAILER_BED") != "" {
		if err := os.Chdir("../.."); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// judged boots m and returns the verdict on a plan.
func judged(t *testing.T, m machine, p plan.Plan, lists map[string][]string, limit time.Duration) string {
	t.Helper()
	var out bytes.Buffer
	r := newReport(p, lists, &out)
	err := r.judge(m.boot(t.Context(), limit, r.add))
	if err == nil {
		t.Fatalf("green:\n%s", out.String())
	}
	return err.Error()
}

// A guest whose init ends: QEMU exits with 0.
func TestPanic(t *testing.T) {
	t.Parallel()
	m := bed(t)
	m.mode = "bed=panic"
	p, lists := small()
	if s := judged(t, m, p, lists, 2*time.Minute); !strings.Contains(s, "the guest panicked: Kernel panic") {
		t.Error(s)
	}
}

// A guest that says nothing more.
func TestHang(t *testing.T) {
	t.Parallel()
	m := bed(t)
	m.mode = "bed=hang"
	p, lists := small()
	began := time.Now()
	if s := judged(t, m, p, lists, 20*time.Second); !strings.Contains(s, "the guest hung: no end marker after") {
		t.Error(s)
	}
	if d := time.Since(began); d > time.Minute {
		t.Errorf("ended after %v", d)
	}
}

// One real boot of all that may go wrong in a guest: a job that exits with 7, a
// test that fails, one that is skipped, one that the guest's answer is without, a
// job that doesn't end, a cgroup left behind, a set-up that fails. What is right
// beside it is not blamed.
func TestRed(t *testing.T) {
	t.Parallel()
	m := bed(t)
	sh := func(name, text string) plan.Job {
		return plan.Job{Name: name, Argv: []string{"/bin/sh", "-c", text}, Limit: time.Minute}
	}
	stuck := sh("stuck", "sleep 1000")
	stuck.Limit = 5 * time.Second
	fake := sh("fake", `echo "=== RUN   TestBad"; echo "--- FAIL: TestBad (0.00s)"; echo "=== RUN   TestSkip"; echo "    SKIPPED (needs swap)"; echo "--- SKIP: TestSkip (0.00s)"; echo "=== RUN   TestGood"; echo "--- PASS: TestGood (0.00s)"; echo FAIL; exit 1`)
	fake.Test = true
	p := plan.Plan{Ways: []plan.Way{
		{Name: "bad", User: "root", Place: plan.Guest, Env: common, Jobs: []plan.Job{sh("seven", "echo before; exit 7"), stuck, fake}},
		{Name: "dirty", User: "root", Place: plan.Guest, Env: common, Jobs: []plan.Job{sh("mkdir", "mkdir /sys/fs/cgroup/left")}},
		{Name: "unset", User: "root", Place: plan.Guest, Env: common, Setup: "echo no such thing; exit 3", Jobs: []plan.Job{sh("never", "true")}},
		{Name: "own", User: "plain", Place: plan.Own, Env: common, Jobs: []plan.Job{sh("id", `[ "$(id -un)" = plain ] && [ -w /sys/fs/cgroup"$(cut -d: -f3 /proc/self/cgroup)" ]`)}},
		{Name: "leaky", User: "plain", Place: plan.Own, Env: common, Jobs: []plan.Job{sh("mkdir", `mkdir /sys/fs/cgroup"$(cut -d: -f3 /proc/self/cgroup)"/jail-left`)}},
		{Name: "system", User: "ranged", Place: plan.System, Env: common, Jobs: []plan.Job{sh("id", `[ "$(id -un)" = ranged ] && ! [ -w /sys/fs/cgroup"$(cut -d: -f3 /proc/self/cgroup)" ]`)}},
	}}
	disk, _, err := payload(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(disk)) })
	m.disk = disk
	s := judged(t, m, p, map[string][]string{"bad fake": {"TestBad", "TestSkip", "TestGood", "TestGone"}}, 10*time.Minute)
	for _, want := range []string{
		"way bad: seven: exit status 7\n    | before",
		"way bad: stuck: exit status -1",
		"way bad: fake: FAIL TestBad",
		"way bad: fake: SKIP TestSkip, which this way must show",
		"way bad: fake: TestGone is missing",
		"way dirty: the cgroup tree changed: new: /left",
		"way leaky: mkdir: exit status 97",
		"/jail-left",
		"way unset: setup: exit status 3: no such thing",
		"way unset: never: missing",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("the verdict is without %q", want)
		}
	}
	for _, not := range []string{"TestGood", "way own", "way system", "end marker"} {
		if strings.Contains(s, not) {
			t.Errorf("the verdict has %q", not)
		}
	}
	if t.Failed() {
		t.Log(s)
	}
}

// A person's boot: a login shell on the console that has the program.
func TestShell(t *testing.T) {
	t.Parallel()
	m := bed(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var screen screen
	go func() {
		defer out.Close()
		// The guest's terminal echoes what is typed: the answers are what it can't.
		for i, line := range []string{"jailer run -- sh -c 'echo jail $((6*7))'", "as plain jailer run --memory 64M -- sh -c 'echo user $((7*8))'", "poweroff -f"} {
			for screen.prompts() <= i && t.Context().Err() == nil {
				time.Sleep(100 * time.Millisecond)
			}
			_, _ = out.WriteString(line + "\n")
		}
		<-t.Context().Done()
	}()
	if err := m.console(t.Context(), in, &screen, 10*time.Minute); err != nil {
		t.Error(err)
	}
	text := screen.String()
	for _, want := range []string{"jail 42", "user 56"} {
		if !strings.Contains(text, want) {
			t.Errorf("without %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// screen is what a console has shown.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) prompts() int { return strings.Count(s.String(), "bed# ") }
