package workspace

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/need"
)

// TestBackup does what docs/operations.md says, in its words, with a workspace: saved
// under its lock and put back it is what it was, and its id nobody else's.
func TestBackup(t *testing.T) {
	need.Program(t, "flock")
	need.Program(t, "tar")
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range regexp.MustCompile(`(?m)^    ((?:flock|tar) .*)$`).FindAllSubmatch(page, -1) {
		said = append(said, string(m[1]))
	}
	if len(said) != 3 {
		t.Fatalf("the page has the commands %q, want three: save, save the id, put back", said)
	}
	s, saved := store(t), t.TempDir()
	uid := os.Geteuid()
	w, err := s.mine(t, Options{Create: true, NewUID: func() (int, int, error) { return uid, os.Getegid(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(w.Path(), "work")
	if err := os.WriteFile(work, []byte("all of it"), 0o640); err != nil {
		t.Fatal(err)
	}
	run := func(command string) error {
		t.Helper()
		for _, r := range [][2]string{
			{"/var/lib/jailer", s.path},
			{"/srv/backup", saved},
			{"HASH", filepath.Base(w.dir)},
			{"UID", strconv.Itoa(uid)},
		} {
			command = strings.ReplaceAll(command, r[0], r[1])
		}
		cmd := exec.CommandContext(soon(t), "sh", "-c", command)
		cmd.Dir = filepath.Join(s.path, workspaces)
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %v %s", command, err, bytes.TrimSpace(out))
		return err
	}
	if run(said[0]) == nil {
		t.Error("saved while somebody writes")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// Who comes while it is saved is refused.
	lock, err := takeLock(w.dir, false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.mine(t, Options{})
	coded(t, err, jailer.CodeWorkspaceBusy, "is in use")
	lock.Close()

	for _, command := range said[:2] {
		if err := run(command); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove(soon(t), other, nil, nil); err != nil {
		t.Fatal(err)
	}
	// Another workspace has got the id meanwhile.
	if err := s.reserve(uid, s.dirOf(Name{"acme", "next"})); err != nil {
		t.Fatal(err)
	}
	if run(said[2]) == nil {
		t.Error("two workspaces of one id")
	}
	if _, err := os.Lstat(w.dir); !notThere(err) {
		t.Errorf("put back beside another one of its id: %v", err)
	}
	s.free(uid, s.dirOf(Name{"acme", "next"}))

	if err := run(said[2]); err != nil {
		t.Fatal(err)
	}
	again, err := s.mine(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if b, err := os.ReadFile(work); err != nil || string(b) != "all of it" || again.HostUID != uid {
		t.Errorf("%q of uid %d, %v", b, again.HostUID, err)
	}
	if b, err := os.ReadFile(s.marker(uid)); err != nil || string(b) != w.dir {
		t.Errorf("its id is noted for %q, %v", b, err)
	}
}
