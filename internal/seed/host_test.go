package seed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
)

// hostile makes one thing of every kind that is no file and no directory.
func hostile(t *testing.T, dir string) map[string]string {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	file(t, dir, "target", "secret", 0o600)
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for _, err := range []error{
		os.Symlink("target", at("link")),
		os.Symlink("/nosuch", at("dangling")),
		os.Symlink(".", at("loop")),
		unix.Mkfifo(at("fifo"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	out := map[string]string{"link": "symbolic link", "dangling": "symbolic link", "loop": "symbolic link", "fifo": "FIFO", "socket": "socket"}
	if os.Geteuid() == 0 {
		// A device of number 0:0 opens with ENXIO: here none is ever opened.
		err := errors.Join(unix.Mknod(at("chr"), unix.S_IFCHR|0o644, 0), unix.Mknod(at("blk"), unix.S_IFBLK|0o644, 0))
		switch {
		case errors.Is(err, unix.EPERM): // root of a user namespace: mknod(2)
			t.Log("no devices can be made here")
		case err != nil:
			t.Fatal(err)
		default:
			out["chr"], out["blk"] = "character device", "block device"
		}
	}
	return out
}

func TestKinds(t *testing.T) {
	dir := t.TempDir()
	for name, kind := range hostile(t, dir) {
		t.Run(name, func(t *testing.T) {
			src := filepath.Join(dir, name)
			s := new(Set)
			defer s.Close()
			err := soon(t, func() error { return s.AddFile("f", src) })
			code := jailer.CodeNotRegular
			if kind == "symbolic link" {
				code = jailer.CodeInvalidPath
			}
			refused(t, err, code, src, kind)

			// The same thing, alone in a tree.
			tree := t.TempDir()
			file(t, tree, "a/b/before", "x", 0o644)
			if err := os.Rename(src, filepath.Join(tree, "a", "b", name)); err != nil {
				t.Fatal(err)
			}
			err = soon(t, func() error { return new(Set).AddTree("d", tree) })
			refused(t, err, code, "a/b/"+name, kind)
		})
	}
	link := filepath.Join(dir, "dirlink")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	refused(t, new(Set).AddTree("d", link+"//"), jailer.CodeInvalidPath, "dirlink\"", "symbolic link")
	e := refused(t, new(Set).AddTree("d", link), jailer.CodeInvalidPath, "dirlink", "symbolic link")
	if !strings.Contains(e.Hint, "readlink -f") {
		t.Errorf("the hint is %q", e.Hint)
	}
}

// soon fails the test where f waits for somebody.
func soon(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("hangs")
		return nil
	}
}

// TestLease: who opens a file on which another has a lease waits for that one, up to
// /proc/sys/fs/lease-break-time, 45 s as a rule.
func TestLease(t *testing.T) {
	p := file(t, t.TempDir(), "leased", "x", 0o644)
	f, err := os.OpenFile(p, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatal(err)
	}
	s := new(Set)
	defer s.Close()
	e := refused(t, soon(t, func() error { return s.AddFile("f", p) }), jailer.CodePermissionDenied, "leased", "lease")
	if !e.Retryable {
		t.Error("not retryable")
	}
}

// TestChanged: a file that is another one when it is read than when it was opened.
func TestChanged(t *testing.T) {
	const size = 1 << 20
	big := strings.Repeat("x", size)
	for _, c := range []struct {
		name  string
		while func(t *testing.T, p string) // once the header has been written
		words string
	}{
		{"grows", func(t *testing.T, p string) { truncate(t, p, size+1) }, "and more when it was read"},
		{"shrinks", func(t *testing.T, p string) { truncate(t, p, size-1) }, fmt.Sprintf("had %d bytes, and %d when", size, size-1)},
		{"is emptied", func(t *testing.T, p string) { truncate(t, p, 0) }, "when it was read"},
		{"stays", func(*testing.T, string) {}, ""},
	} {
		for _, how := range []string{"file", "tree"} {
			t.Run(c.name+"/"+how, func(t *testing.T) {
				dir := t.TempDir()
				p := file(t, dir, "f", big, 0o644)
				s := new(Set)
				defer s.Close()
				err := s.AddFile("f", p)
				if how == "tree" {
					err = new(Set).AddTree("d", dir)
					s = new(Set)
					defer s.Close()
					if err == nil {
						err = s.AddTree("d", dir)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				r, w := io.Pipe()
				defer r.Close()
				done := make(chan error, 1)
				go func() { done <- s.Encode(w) }()
				// The pipe has no room: after the first bytes the encoder is in the
				// midst of the file.
				if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
					t.Fatal(err)
				}
				c.while(t, p)
				go io.Copy(io.Discard, r)
				err = <-done
				if c.words == "" {
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				if e := refused(t, err, jailer.CodeInvalidState, p, c.words); !e.Retryable {
					t.Error("not retryable")
				}
			})
		}
	}
}

func truncate(t *testing.T, p string, n int64) {
	t.Helper()
	if err := os.Truncate(p, n); err != nil {
		t.Fatal(err)
	}
}

// TestReplaced: what stands in a file's place when the tree is copied is looked at
// anew, and nothing outside the tree is ever opened.
func TestReplaced(t *testing.T) {
	outside := t.TempDir()
	file(t, outside, "f", "secret", 0o644)
	for _, c := range []struct {
		name  string
		swap  func(dir string) error
		code  jailer.Code
		words string
	}{
		{"by a link", func(dir string) error { return os.Symlink(filepath.Join(outside, "f"), filepath.Join(dir, "d", "f")) }, jailer.CodeInvalidPath, "symbolic link"},
		{"by a FIFO", func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "d", "f"), 0o644) }, jailer.CodeNotRegular, "FIFO"},
		{"by a directory", func(dir string) error { return os.Mkdir(filepath.Join(dir, "d", "f"), 0o755) }, jailer.CodeIsDirectory, "directory"},
		{"by nothing", func(string) error { return nil }, jailer.CodeNotFound, "no such file"},
		{"its directory by a link", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "d")), os.Symlink(outside, filepath.Join(dir, "d")))
		}, jailer.CodeInvalidPath, "symbolic link"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			p := file(t, dir, "d/f", "f", 0o644)
			s := new(Set)
			defer s.Close()
			if err := s.AddTree("t", dir); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Remove(p), c.swap(dir)); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			refused(t, soon(t, func() error { return s.Encode(&b) }), c.code, "d/f", c.words)
			if bytes.Contains(b.Bytes(), []byte("secret")) {
				t.Error("a file outside the tree was read")
			}
		})
	}
}

// TestRenamed: a file that was named itself is the one that was there then.
func TestRenamed(t *testing.T) {
	p := file(t, t.TempDir(), "f", "mine", 0o644)
	s := new(Set)
	defer s.Close()
	if err := s.AddFile("f", p); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(p), os.WriteFile(p, []byte("another's"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if got := frames(t, s); got[0].Data != "mine" {
		t.Errorf("got %q", got[0].Data)
	}
}

// TestNoSize: files of /proc say that they are empty, and aren't.
func TestNoSize(t *testing.T) {
	s := new(Set)
	defer s.Close()
	if err := s.AddFile("f", "/proc/self/status"); err != nil {
		t.Fatal(err)
	}
	refused(t, s.Encode(io.Discard), jailer.CodeInvalidState, "/proc/self/status", "/proc")
}

// TestReaderLeaves: the writer's error is no fault of a file.
func TestReaderLeaves(t *testing.T) {
	p := file(t, t.TempDir(), "f", strings.Repeat("x", 1<<20), 0o644)
	s := new(Set)
	defer s.Close()
	if err := s.AddFile("f", p); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	err = s.Encode(w)
	if _, ours := errors.AsType[*jailer.Error](err); ours || !errors.Is(err, unix.EPIPE) {
		t.Errorf("got %v", err)
	}
}

// TestTooMany: a tree without an end is given up.
func TestTooMany(t *testing.T) {
	s := new(Set)
	s.at = make(map[string]*entry, MaxEntries)
	for i := range MaxEntries {
		s.at[fmt.Sprint(i)] = nil
	}
	refused(t, s.AddDir("d"), jailer.CodeNoSpace, fmt.Sprint(MaxEntries), "smaller")
}
