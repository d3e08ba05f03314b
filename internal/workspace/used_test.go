package workspace

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A writer who is killed has used the workspace, though he never let it go.
func TestPruneUsedByTheKilled(t *testing.T) {
	s := store(t)
	n := s.named(t, other.Resource, 1000*time.Hour, nil)
	p := another(t, s, "dies")
	if said := p.says(t); said != "holds" {
		t.Fatal(said)
	}
	p.Process.Kill()
	p.Wait()
	if err := os.WriteFile(filepath.Join(s.dirOf(n), filesDir, "work"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	removed, err := s.Prune(soon(t), 24*time.Hour, false, func(context.Context, Holder) error { return nil })
	expect(t, "used a moment ago", removed, err)
}
