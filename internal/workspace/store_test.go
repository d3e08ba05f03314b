package workspace

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
)

// nobody is a user that this test can be.
const nobody = 65534

// asUser does something as a user who is not root, on a thread of its own, which ends
// with it. The store of real root is not in the test's directory, and so never opened.
func asUser(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Geteuid() == 0 {
			runtime.LockOSThread() // and never unlocked
			// By itself, as x/sys would do it to all threads.
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), nobody, ^uintptr(0)); errno != 0 {
				t.Error(errno)
				return
			}
		}
		do()
	}()
	<-done
}

// theirs is a directory of that user's.
func theirs(t *testing.T) string {
	t.Helper()
	base := t.TempDir()
	if os.Geteuid() == 0 {
		for d := base; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(base, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return base
}

func TestOpen(t *testing.T) {
	base := theirs(t)
	asUser(t, func() {
		path := filepath.Join(base, "a", "b", "data")
		if There(path) {
			t.Error("there before it is made")
		}
		for range 2 {
			s, err := Open(path + "/../data/")
			if err != nil {
				t.Error(err)
				return
			}
			if s.path != path || s.uids != filepath.Join(path, uids) || !There(path) {
				t.Errorf("%+v", s)
			}
		}
		for _, d := range []string{path, filepath.Join(path, workspaces), filepath.Join(path, trash)} {
			if st, err := os.Stat(d); err != nil || st.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v %v", d, st, err)
			}
		}
	})
}

// What is not this user's alone, all the way to it, is no place for a store.
func TestOpenRefused(t *testing.T) {
	base := theirs(t)
	if There("") || There(base) {
		t.Error("there")
	}
	mode := func(m os.FileMode) func(string) error {
		return func(p string) error {
			if err := os.Mkdir(p, 0o700); err != nil {
				return err
			}
			return os.Chmod(p, m)
		}
	}
	asUser(t, func() {
		for name, c := range map[string]struct {
			make func(string) error
			sub  string
		}{
			"a file":           {make: func(p string) error { return os.WriteFile(p, nil, 0o600) }},
			"a link":           {make: func(p string) error { return os.Symlink(base, p) }},
			"a dangling link":  {make: func(p string) error { return os.Symlink("/nowhere/at/all", p) }},
			"of the group":     {make: mode(0o770)},
			"of all":           {make: mode(0o777)},
			"of all, sticky":   {make: mode(0o777 | os.ModeSticky)},
			"below one of all": {make: mode(0o777), sub: "data"},
			"shut":             {make: mode(0), sub: "data"},
			"below a file":     {make: func(p string) error { return os.WriteFile(p, nil, 0o600) }, sub: "data"},
			"its workspaces are a link": {make: func(p string) error {
				if err := os.Mkdir(p, 0o700); err != nil {
					return err
				}
				return os.Symlink(base, filepath.Join(p, workspaces))
			}},
			"its trash is of all": {make: func(p string) error {
				if err := os.MkdirAll(filepath.Join(p, trash), 0o700); err != nil {
					return err
				}
				return os.Chmod(filepath.Join(p, trash), 0o777)
			}},
		} {
			p := filepath.Join(base, name)
			if err := c.make(p); err != nil {
				t.Error(err)
				continue
			}
			_, err := Open(filepath.Join(p, c.sub))
			coded(t, err, jailer.CodeInternal)
			if err == nil {
				t.Errorf("%s is taken", name)
			}
		}
		for _, p := range []string{"data", "./data", "../data", "~/data"} {
			_, err := Open(p)
			coded(t, err, jailer.CodeInternal, "absolute")
		}
		for _, p := range []string{"", "/root/data", "/proc/data", "/etc"} {
			_, err := Open(p)
			coded(t, err, jailer.CodeInternal)
		}
	})
}

func TestLocate(t *testing.T) {
	for _, c := range []struct{ given, data, home, want string }{
		{"/d/../e", "/x", "/h", "/e"},
		{"rel", "/x", "/h", "rel"}, // Open refuses it
		{"", "/x", "/h", "/x/jailer"},
		{"", "rel", "/h", "/h/.local/share/jailer"},
		{"", "", "/h", "/h/.local/share/jailer"},
		{"", "rel", "rel", ""},
		{"", "", "", ""},
	} {
		if c.given == "" && os.Geteuid() == 0 {
			if got := Locate(c.given, c.data, c.home); got != "/var/lib/jailer" {
				t.Errorf("%+v: root's is %q", c, got)
			}
		}
		asUser(t, func() {
			if got := Locate(c.given, c.data, c.home); got != c.want {
				t.Errorf("%+v: %q", c, got)
			}
		})
	}
}

// Another user's workspace is nobody's but root's, whatever the token.
func TestOwner(t *testing.T) {
	base := theirs(t)
	s := &Store{path: base, uids: filepath.Join(base, uids)}
	asUser(t, func() {
		for _, d := range []string{workspaces, trash, uids} {
			if err := ownDir(filepath.Join(base, d)); err != nil {
				t.Error(err)
				return
			}
		}
		w, err := s.mine(t, Options{Create: true})
		if err != nil {
			t.Error(err)
			return
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		change := func(f func(*record)) {
			r, err := readRecord(w.dir)
			if err != nil {
				t.Error(err)
				return
			}
			f(r)
			if err := writeJSON(w.dir, recordFile, r); err != nil {
				t.Error(err)
			}
		}
		change(func(r *record) { r.Owner++ })
		for _, token := range [][]byte{nil, make([]byte, 32)} {
			for _, ro := range []bool{false, true} {
				_, err := s.mine(t, Options{Create: true, ReadOnly: ro, TokenHash: token})
				coded(t, err, jailer.CodeUnauthorized, "another user's")
			}
			coded(t, s.Remove(t.Context(), other, token, nil), jailer.CodeUnauthorized, "another user's")
		}
		if all, err := s.List(); err != nil || len(all) != 1 || all[0].Busy {
			t.Errorf("a refusal leaves nothing: %+v %v", all, err)
		}
		// A directory under the name of another.
		change(func(r *record) { r.Owner, r.Resource = os.Geteuid(), "other" })
		_, err = s.mine(t, Options{})
		coded(t, err, jailer.CodeUnauthorized, "another one")
		change(func(r *record) { r.Resource, r.Tenant = other.Resource, "evil" })
		_, err = s.mine(t, Options{})
		coded(t, err, jailer.CodeUnauthorized, "another one")
		// A token's hash that is none opens to nobody.
		change(func(r *record) { r.Tenant, r.TokenSHA256 = other.Tenant, "zz" })
		for _, token := range [][]byte{nil, {}, []byte("zz")} {
			_, err = s.mine(t, Options{TokenHash: token})
			coded(t, err, jailer.CodeUnauthorized)
		}
		change(func(r *record) { r.TokenSHA256 = "" })
		if w, err = s.mine(t, Options{}); err != nil {
			t.Error(err)
			return
		}
		w.Close()
	})
	if os.Geteuid() == 0 {
		w, err := s.mine(t, Options{})
		if err != nil {
			t.Fatalf("root: %v", err)
		}
		w.Close()
	}
}
