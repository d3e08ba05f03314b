package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// open makes a root with a canary tree beside it, which nothing may come to.
func open(t testing.TB) (d *Dir, root, canary string) {
	t.Helper()
	base := t.TempDir()
	root, canary = filepath.Join(base, "root"), filepath.Join(base, "canary")
	for _, err := range []error{
		os.Mkdir(root, 0o755), os.MkdirAll(filepath.Join(canary, "sub"), 0o755),
		os.WriteFile(filepath.Join(canary, "secret"), []byte("SECRET\n"), 0o644),
		os.WriteFile(filepath.Join(canary, "sub", "secret"), []byte("SECRET\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return openRoot(t, root), root, canary
}

func openRoot(t testing.TB, root string) *Dir {
	t.Helper()
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := New(os.NewFile(uintptr(fd), "root"))
	t.Cleanup(func() { d.Close() })
	return d
}

// untouched wants the canary tree as it was made.
func untouched(t testing.TB, canary string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(canary, func(p string, e fs.DirEntry, err error) error {
		n++
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if string(b) != "SECRET\n" {
			t.Errorf("%s is %q", p, b)
		}
		return err
	})
	if err != nil || n != 4 {
		t.Errorf("the canary has %d files: %v", n, err)
	}
}

// coded wants an error with one of these codes.
func coded(t testing.TB, err error, codes ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%v, want %v", err, codes)
		return
	}
	for _, c := range codes {
		if e.Code == c {
			return
		}
	}
	t.Errorf("%s (%v), want %v", e.Code, err, codes)
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// soon fails a verb that is held up.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), need.Time(30*time.Second))
	t.Cleanup(cancel)
	return ctx
}
