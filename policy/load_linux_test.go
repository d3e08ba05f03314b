package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/need"
	"golang.org/x/sys/unix"
)

const minimal = "version = 1\nextends = \"builtin\"\n"

// place makes a directory that only the caller can write to, with an own /etc
// policy in it when text is not empty.
func place(t *testing.T, text string) (loader, string) {
	t.Helper()
	dir := t.TempDir()
	chmod(t, dir, 0o755)
	etc := filepath.Join(dir, "etc")
	if err := os.Mkdir(etc, 0o755); err != nil {
		t.Fatal(err)
	}
	l := loader{etc: filepath.Join(etc, "policy.toml"), euid: uint32(os.Geteuid())}
	if text != "" {
		write(t, l.etc, text)
	}
	return l, dir
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestLoadFinds(t *testing.T) {
	l, dir := place(t, "")
	p, err := l.load("")
	if err != nil || p.Name != BuiltinName {
		t.Fatalf("without a file: %+v, %v", p, err)
	}
	own := write(t, filepath.Join(dir, "own.toml"), minimal)
	if p, err = l.load(own); err != nil || p.Name != own {
		t.Fatalf("by path: %+v, %v", p, err)
	}
	write(t, l.etc, minimal)
	if p, err = l.load(""); err != nil || p.Name != l.etc {
		t.Fatalf("the host's: %+v, %v", p, err)
	}
	if p, err = l.load(own); err != nil || p.Name != own {
		t.Fatalf("by path, beside the host's: %+v, %v", p, err)
	}
	if err := os.Symlink(own, filepath.Join(dir, "link.toml")); err != nil {
		t.Fatal(err)
	}
	if _, err = l.load(filepath.Join(dir, "link.toml")); err != nil {
		t.Fatalf("through a link: %v", err)
	}
	t.Chdir(dir)
	if _, err = l.load("own.toml"); err != nil {
		t.Fatalf("relative: %v", err)
	}
}

// TestLoadRefuses: every case leaves the host with a policy that nobody can
// trust, at the path that was given and at the host's own place.
func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, path string)
		msg  string
		hint string
	}{
		{"group can write", func(t *testing.T, p string) { write(t, p, minimal); chmod(t, p, 0o620) }, "writable by others", "chmod go-w PATH"},
		{"others can write", func(t *testing.T, p string) { write(t, p, minimal); chmod(t, p, 0o602) }, "writable by others", "chmod go-w PATH"},
		{"directory is writable", func(t *testing.T, p string) { write(t, p, minimal); chmod(t, filepath.Dir(p), 0o777) }, "writable by others", "chmod go-w DIR"},
		{"directory of the link's target", func(t *testing.T, p string) {
			open := t.TempDir()
			write(t, filepath.Join(open, "x"), minimal)
			chmod(t, open, 0o777)
			if err := os.Symlink(filepath.Join(open, "x"), p); err != nil {
				t.Fatal(err)
			}
		}, "writable by others", "chmod go-w"},
		{"FIFO", func(t *testing.T, p string) {
			if err := unix.Mkfifo(p, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file", ""},
		{"directory", func(t *testing.T, p string) {
			if err := os.Mkdir(p, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file", ""},
		{"device", func(t *testing.T, p string) {
			if err := os.Symlink("/dev/zero", p); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file", ""},
		{"dangling link", func(t *testing.T, p string) {
			if err := os.Symlink("/nonexistent", p); err != nil {
				t.Fatal(err)
			}
		}, "can't be opened", ""},
		{"link to itself", func(t *testing.T, p string) {
			if err := os.Symlink(p, p); err != nil {
				t.Fatal(err)
			}
		}, "can't be opened", ""},
		{"too long", func(t *testing.T, p string) { write(t, p, minimal+"#"+strings.Repeat("x", 1<<20)) }, "more than", ""},
		{"empty", func(t *testing.T, p string) { write(t, p, "") }, "version", ""},
		{"invalid", func(t *testing.T, p string) { write(t, p, "version = 1\nx = 1\n") }, "unknown key", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, dir := place(t, "")
			given := filepath.Join(dir, "own.toml")
			for _, path := range []string{given, l.etc} {
				c.do(t, path)
				ask := given
				if path == l.etc {
					ask = ""
				}
				p, err := deadline(t, func() (*Policy, error) { return l.load(ask) })
				e, ok := errors.AsType[*jailer.Error](err)
				if !ok || p != nil {
					t.Fatalf("%s: got %+v, %v", path, p, err)
				}
				hint := strings.NewReplacer("PATH", path, "DIR", filepath.Dir(path)).Replace(c.hint)
				if e.Code != jailer.CodeInvalidPolicy || e.Path != path || !strings.Contains(e.Error(), c.msg) || !strings.HasPrefix(e.Hint, hint) {
					t.Errorf("got %s %q, hint %q", e.Code, e.Error(), e.Hint)
				}
			}
			chmod(t, dir, 0o755)
			// The bad one at the host's place counts even when another is named.
			good := write(t, filepath.Join(dir, "good.toml"), minimal)
			if _, err := l.load(good); err == nil {
				t.Error("the host's own policy is bad, and another one is taken")
			}
		})
	}
	l, dir := place(t, "")
	if _, err := l.load(filepath.Join(dir, "none.toml")); err == nil {
		t.Error("a file that is not there is taken")
	}
}

func deadline(t *testing.T, f func() (*Policy, error)) (*Policy, error) {
	t.Helper()
	type answer struct {
		p   *Policy
		err error
	}
	c := make(chan answer, 1)
	go func() {
		p, err := f()
		c <- answer{p, err}
	}()
	select {
	case a := <-c:
		return a.p, a.err
	case <-time.After(need.Time(20 * time.Second)):
		t.Fatal("hangs")
		return nil, nil
	}
}

func TestLoadStickyDirectory(t *testing.T) {
	l, dir := place(t, "")
	own := write(t, filepath.Join(dir, "own.toml"), minimal)
	chmod(t, dir, 0o777|os.ModeSticky)
	if _, err := l.load(own); err != nil {
		t.Errorf("nobody else can move a file in a sticky directory: %v", err)
	}
}

// TestLoadOwners plays callers of other uids; only root can make files that
// belong to somebody else.
func TestLoadOwners(t *testing.T) {
	need.Root(t)
	const caller, stranger = 54321, 54322
	for _, c := range []struct {
		name            string
		etc             string
		etcOwner, owner int
		euid            uint32
		msg             string
	}{
		{"root's", "", 0, 0, caller, ""},
		{"the caller's", "", 0, caller, caller, ""},
		{"a stranger's", "", 0, stranger, caller, "owned by uid 54322"},
		{"a stranger's, for root", "", 0, stranger, 0, "owned by uid 54322"},
		{"the host's is a stranger's", minimal, stranger, caller, caller, "owned by uid 54322"},
		{"locked, root's", minimal + "locked = true\n", 0, 0, caller, ""},
		{"locked, the caller's", minimal + "locked = true\n", 0, caller, caller, "is locked"},
		{"not locked, the caller's", minimal, 0, caller, caller, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, dir := place(t, c.etc)
			l.euid = c.euid
			own := write(t, filepath.Join(dir, "own.toml"), minimal)
			if err := os.Chown(own, c.owner, 0); err != nil {
				t.Fatal(err)
			}
			if c.etc != "" {
				if err := os.Chown(l.etc, c.etcOwner, 0); err != nil {
					t.Fatal(err)
				}
			}
			p, err := l.load(own)
			if c.msg == "" {
				if err != nil || p.Name != own {
					t.Fatalf("got %+v, %v", p, err)
				}
				return
			}
			e, ok := errors.AsType[*jailer.Error](err)
			if !ok || e.Code != jailer.CodeInvalidPolicy || !strings.Contains(e.Error(), c.msg) || e.Hint == "" {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// TestLoadLeaksNothing: no descriptor stays, on whichever way out.
func TestLoadLeaksNothing(t *testing.T) {
	l, dir := place(t, minimal)
	bad := write(t, filepath.Join(dir, "bad.toml"), "x")
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := count()
	for _, path := range []string{"", bad, dir, filepath.Join(dir, "none")} {
		_, _ = l.load(path)
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// TestReadFile: what a policy names is as hard to change as the policy itself.
func TestReadFile(t *testing.T) {
	l, dir := place(t, "")
	p, err := l.load(write(t, filepath.Join(dir, "own.toml"), minimal))
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, filepath.Join(dir, "f"), "text")
	if b, err := p.ReadFile(path, 4); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	refused := func(t *testing.T, msg string) {
		t.Helper()
		b, err := p.ReadFile(path, 1<<10)
		if e, ok := errors.AsType[*jailer.Error](err); !ok || e.Code != jailer.CodeInvalidPolicy || !strings.Contains(e.Error(), msg) || b != nil {
			t.Errorf("%q, %v, want …%s…", b, err, msg)
		}
	}
	if b, err := p.ReadFile(path, 3); err == nil || b != nil {
		t.Errorf("4 bytes where 3 are allowed: %q", b)
	}
	chmod(t, path, 0o620)
	refused(t, "writable by others")
	chmod(t, path, 0o600)
	chmod(t, dir, 0o777)
	refused(t, "writable by others")
	chmod(t, dir, 0o755)
	t.Run("owners", func(t *testing.T) {
		need.Root(t)
		const caller, stranger = 54321, 54322
		for _, c := range []struct {
			name          string
			policy, owner int
			euid          uint32
			ok            bool
		}{
			{"all root's", 0, 0, caller, true},
			{"root's for the caller's policy", caller, 0, caller, true},
			{"the caller's for his own", caller, caller, caller, true},
			{"the caller's for root's", 0, caller, caller, false},
			{"a stranger's", caller, stranger, caller, false},
			{"a stranger's for root", 0, stranger, 0, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				l, dir := place(t, "")
				l.euid = c.euid
				own := write(t, filepath.Join(dir, "own.toml"), minimal)
				path := write(t, filepath.Join(dir, "f"), "text")
				for f, uid := range map[string]int{own: c.policy, path: c.owner} {
					if err := os.Chown(f, uid, 0); err != nil {
						t.Fatal(err)
					}
				}
				p, err := l.load(own)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.ReadFile(path, 1<<10); (err == nil) != c.ok {
					t.Errorf("%v, want it read: %t", err, c.ok)
				}
			})
		}
	})
}
