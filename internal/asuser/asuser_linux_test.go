package asuser

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jailer-project/jailer/test/need"
)

const uid, gid = 54321, 54322

func owner(t *testing.T, path string) (u, g uint32) {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	s := st.Sys().(*syscall.Stat_t)
	return s.Uid, s.Gid
}

// What is made is the user's, what he can't reach root doesn't reach for him, and
// afterwards the process is what it was.
func TestDo(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	for _, err := range []error{os.Chmod(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o755), os.WriteFile(secret, nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	mine := filepath.Join(dir, "mine")
	err := Do(uid, gid, func() error {
		if _, err := os.ReadFile(secret); !errors.Is(err, os.ErrPermission) {
			t.Errorf("root's own file: %v", err)
		}
		return os.WriteFile(mine, nil, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	if u, g := owner(t, mine); u != uid || g != gid {
		t.Errorf("made as %d:%d", u, g)
	}
	for range 20 { // whichever thread
		if _, err := os.ReadFile(secret); err != nil {
			t.Fatal(err)
		}
	}
	want := errors.New("its own")
	if err := Do(uid, gid, func() error { return want }); !errors.Is(err, want) {
		t.Errorf("%v", err)
	}
}

// Nobody but root can be anybody else, and root is himself without a change.
func TestDoAsOneself(t *testing.T) {
	as := uint32(uid)
	if os.Geteuid() == 0 {
		as = 0
	}
	p := filepath.Join(t.TempDir(), "f")
	if err := Do(as, gid, func() error { return os.WriteFile(p, nil, 0o600) }); err != nil {
		t.Fatal(err)
	}
	if u, _ := owner(t, p); int(u) != os.Geteuid() {
		t.Errorf("made as %d", u)
	}
}
