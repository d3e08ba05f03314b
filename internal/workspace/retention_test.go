package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
)

// named makes a workspace that was let go so long ago.
func (s *Store) named(t *testing.T, resource string, ago time.Duration, token []byte) Name {
	t.Helper()
	n := Name{"acme", resource}
	w, err := s.Acquire(t.Context(), n, Options{Create: true, TokenHash: token, Holder: Holder{SessionID: resource}.Self()})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.age(t, n, ago)
	return n
}

func (s *Store) age(t *testing.T, n Name, ago time.Duration) {
	t.Helper()
	then := time.Now().Add(-ago)
	if err := os.Chtimes(filepath.Join(s.dirOf(n), lockFile), then, then); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) held(t *testing.T, n Name, o Options) *Workspace {
	t.Helper()
	o.Holder = Holder{SessionID: "holder"}.Self()
	w, err := s.Acquire(t.Context(), n, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func resources(all []Info) (names []string) {
	for _, i := range all {
		names = append(names, i.Name.Resource)
	}
	return names
}

func expect(t *testing.T, what string, all []Info, err error, want ...string) {
	t.Helper()
	if got := resources(all); err != nil || !slices.Equal(got, want) {
		t.Errorf("%s: %q %v, want %q", what, got, err, want)
	}
}

// What was used within the retention stays, and what somebody has.
func TestPrune(t *testing.T) {
	const keep = 24 * time.Hour
	s := store(t)
	token := sha256.Sum256([]byte("secret"))
	s.named(t, "future", -1000*time.Hour, nil)
	s.named(t, "just-not", keep-time.Hour, nil)
	s.named(t, "long-ago", 1000*time.Hour, nil)
	s.named(t, "now", 0, nil)
	s.named(t, "over", keep+time.Second, token[:]) // the operator needs no token
	var busy []*Workspace
	for _, ro := range []bool{false, true} {
		n := s.named(t, map[bool]string{false: "written", true: "read"}[ro], 1000*time.Hour, nil)
		busy = append(busy, s.held(t, n, Options{ReadOnly: ro}))
		s.age(t, n, 1000*time.Hour)
	}
	all := []string{"future", "just-not", "long-ago", "now", "over", "read", "written"}
	for _, retention := range []time.Duration{0, -1, 2000 * time.Hour} {
		removed, err := s.Prune(soon(t), retention, false, nil)
		expect(t, retention.String(), removed, err)
	}
	removed, err := s.Prune(soon(t), keep, true, nil)
	expect(t, "dry run", removed, err, "long-ago", "over")
	left, err := s.List()
	expect(t, "after a dry run", left, err, all...)
	for _, i := range left {
		if i.Busy != slices.Contains([]string{"read", "written"}, i.Name.Resource) || i.Busy != (i.Holder != nil) || i.Token != (i.Name.Resource == "over") {
			t.Errorf("%+v", i)
		}
	}
	removed, err = s.Prune(soon(t), keep, false, nil)
	expect(t, "prune", removed, err, "long-ago", "over")
	left, err = s.List()
	expect(t, "left", left, err, "future", "just-not", "now", "read", "written")
	for _, w := range busy {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	// Let go this moment: it is the time of that which counts.
	removed, err = s.Prune(soon(t), keep, false, nil)
	expect(t, "let go", removed, err)
	removed, err = s.Prune(soon(t), time.Nanosecond, false, nil)
	expect(t, "all but the future", removed, err, "just-not", "now", "read", "written")
	if err := s.Remove(soon(t), Name{"acme", "future"}, nil, nil); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(s.path, "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("left %v %v", left, err)
	}
	coded(t, s.Remove(t.Context(), Name{"acme", "now"}, nil, nil), jailer.CodeWorkspaceNotFound, "acme/now")
}

// Where a dead writer's jail can't be ended, his workspace stays, and that is said; a dead
// reader is in nobody's way.
func TestPruneDeadHolders(t *testing.T) {
	s := store(t)
	p := another(t, s, "dies")
	p.says(t)
	p.Process.Kill()
	p.Wait()
	s.age(t, other, 1000*time.Hour)
	marks, err := filepath.Glob(filepath.Join(s.dirOf(other), holdersDir, "*"))
	if err != nil || len(marks) != 1 {
		t.Fatalf("%v %v", marks, err)
	}
	old := time.Now().Add(-1000 * time.Hour)
	if err := os.Chtimes(marks[0], old, old); err != nil {
		t.Fatal(err)
	}
	stuck := errors.New("still there")
	removed, err := s.Prune(soon(t), time.Hour, false, func(context.Context, Holder) error { return stuck })
	expect(t, "stuck", removed, err, other.Resource)
	if len(removed) == 1 {
		coded(t, removed[0].Err, jailer.CodeWorkspaceBusy, "session dies", "still there")
	}
	left, err := s.List()
	expect(t, "stuck", left, err, other.Resource)
	reaped := ""
	removed, err = s.Prune(soon(t), time.Hour, false, func(_ context.Context, h Holder) error { reaped += h.SessionID; return nil })
	expect(t, "ended", removed, err, other.Resource)
	if reaped != "dies" || len(removed) == 1 && removed[0].Err != nil {
		t.Errorf("%q %+v", reaped, removed)
	}
	if n := len(must(s.List())(t)); n != 0 {
		t.Errorf("%d left", n)
	}
}

// A removal that is cancelled has the workspace out of the way, and the next sweep ends
// it; a dry one tells of it.
func TestRemoveCancelled(t *testing.T) {
	s := store(t)
	w, err := s.mine(t, Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := os.MkdirAll(filepath.Join(w.Path(), string(rune('a'+i)), "d"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	coded(t, s.Remove(ctx, other, nil, nil), jailer.CodeInternal, "not all files")
	if n := len(must(s.List())(t)); n != 0 {
		t.Errorf("%d in the way", n)
	}
	if w, err := s.mine(t, Options{Create: true}); err != nil || w.Close() != nil {
		t.Errorf("its name is free: %v", err)
	}
	for _, dryRun := range []bool{true, true, false} {
		if left, err := s.Sweep(soon(t), dryRun); err != nil || len(left) != 1 || filepath.Dir(left[0]) != filepath.Join(s.path, trash) {
			t.Errorf("%q %v", left, err)
		}
	}
	if left, err := s.Sweep(soon(t), false); err != nil || len(left) != 0 {
		t.Errorf("%q %v", left, err)
	}
}

// What is being made is left alone, and what was to be made a while ago is not.
func TestSweepStages(t *testing.T) {
	s := store(t)
	n := s.named(t, "kept", 0, nil)
	for _, p := range []string{
		filepath.Join(s.path, workspaces, stagePrefix+"a"), filepath.Join(s.path, workspaces, stagePrefix+"b", filesDir),
	} {
		if err := os.MkdirAll(p, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	temps := []string{
		filepath.Join(s.dirOf(n), tempPrefix+"a"), filepath.Join(s.dirOf(n), tempPrefix+"b"),
		filepath.Join(s.dirOf(n), holdersDir, tempPrefix+"a"), filepath.Join(s.dirOf(n), holdersDir, tempPrefix+"b"),
	}
	for _, p := range append(temps, filepath.Join(s.dirOf(n), filesDir, tempPrefix+"b")) {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * stageTime)
	for _, p := range []string{filepath.Join(s.path, workspaces, stagePrefix+"b"), temps[1], temps[3], filepath.Join(s.dirOf(n), filesDir, tempPrefix+"b")} {
		if err := os.Chtimes(p, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := s.Sweep(soon(t), false); err != nil || len(left) != 1 || filepath.Base(left[0]) != stagePrefix+"b" {
		t.Errorf("%q %v", left, err)
	}
	for p, want := range map[string]bool{
		filepath.Join(s.path, workspaces, stagePrefix+"a"): true, filepath.Join(s.path, workspaces, stagePrefix+"b"): false,
		temps[0]: true, temps[1]: false, temps[2]: true, temps[3]: false,
		filepath.Join(s.dirOf(n), filesDir, tempPrefix+"b"): true, // a job's
	} {
		if _, err := os.Lstat(p); (err == nil) != want {
			t.Errorf("%s: %v", p, err)
		}
	}
	left, err := s.List()
	expect(t, "no stage is listed", left, err, "kept")
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
