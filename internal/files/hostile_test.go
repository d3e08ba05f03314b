package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// What is no regular file is refused at once, on each verb that reads or replaces.
func TestNotRegular(t *testing.T) {
	d, root, _ := open(t)
	if err := unix.Mkfifo(filepath.Join(root, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(root, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Mkdir(filepath.Join(root, "directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{"fifo": NotRegular, "socket": NotRegular, "directory": IsDirectory}
	if os.Geteuid() == 0 { // nobody else can make one
		if err := unix.Mknod(filepath.Join(root, "device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
			t.Fatal(err)
		}
		kinds["device"] = NotRegular
	}
	for name, code := range kinds {
		for _, verb := range []string{"cat", "page", "put"} {
			began := time.Now()
			_, err := verbs[verb](d, soon(t), name)
			coded(t, err, code)
			if took := time.Since(began); took > need.Time(time.Second) {
				t.Errorf("%s %s: after %v", verb, name, took)
			}
		}
		if i, err := d.Stat(name); err != nil || string(i.Type) != name {
			t.Errorf("%+v %v", i, err)
		}
	}
	if _, err := verbs["mkdir parents"](d, soon(t), "directory"); err != nil {
		t.Error(err)
	}
	_, err = verbs["mkdir parents"](d, soon(t), "fifo")
	coded(t, err, NotRegular)
	_, err = verbs["mkdir"](d, soon(t), "directory")
	coded(t, err, InvalidState)
	for name := range kinds {
		if _, err := d.Remove(soon(t), name, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A writer that waits for a reader of its FIFO is not woken by a look at it.
func TestFIFOWriterSleepsOn(t *testing.T) {
	d, root, _ := open(t)
	p := filepath.Join(root, "fifo")
	if err := unix.Mkfifo(p, 0o666); err != nil {
		t.Fatal(err)
	}
	var woken atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		f, err := os.OpenFile(p, os.O_WRONLY, 0)
		if err == nil {
			woken.Store(true)
			f.Close()
		}
	}()
	for range 20 {
		_, err := verbs["cat"](d, soon(t), "fifo")
		coded(t, err, NotRegular)
		time.Sleep(5 * time.Millisecond)
	}
	if woken.Load() {
		t.Error("its writer was woken")
	}
	f, err := os.OpenFile(p, os.O_RDONLY|unix.O_NONBLOCK, 0) // ends it
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	<-done
}

// A lease is no wait: its holder would have 45 s to give it back (proc(5),
// lease-break-time).
func TestLease(t *testing.T) {
	d, root, _ := open(t)
	write(t, filepath.Join(root, "f"), "x")
	f, err := os.OpenFile(filepath.Join(root, "f"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	need.Feature(t, "leases", err == nil, fmt.Sprintf("this file system gives no lease: %v", err))
	for _, verb := range []string{"cat", "page"} {
		began := time.Now()
		_, err := verbs[verb](d, soon(t), "f")
		coded(t, err, InvalidState)
		var e *Error
		if !errors.As(err, &e) || !e.Retryable || time.Since(began) > need.Time(time.Second) {
			t.Errorf("%s: %v after %v", verb, err, time.Since(began))
		}
	}
	if _, err := verbs["put"](d, soon(t), "f"); err != nil {
		t.Errorf("replaced: %v", err)
	}
}

// A size is judged before a byte is read, and a file that grows meanwhile is cut.
func TestSizes(t *testing.T) {
	d, root, _ := open(t)
	write(t, filepath.Join(root, "sparse"), "")
	if err := os.Truncate(filepath.Join(root, "sparse"), 1<<40); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var out bytes.Buffer
	n, err := d.Cat(soon(t), &out, "sparse", 10<<20)
	coded(t, err, TooLarge)
	if n != 0 || out.Len() != 0 || time.Since(began) > need.Time(time.Second) {
		t.Errorf("%d bytes after %v", n, time.Since(began))
	}
	if p, err := d.Page(soon(t), "sparse", PageOptions{}); err != nil || len(p.Data) != DefaultPageBytes || p.Size != 1<<40 || p.Cursor == "" {
		t.Errorf("%d bytes, %v", len(p.Data), err)
	}

	grows := filepath.Join(root, "grows")
	write(t, grows, "begin")
	n, err = d.Cat(soon(t), writer(func(b []byte) (int, error) {
		f, err := os.OpenFile(grows, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.Write(bytes.Repeat([]byte("x"), 100))
			f.Close()
		}
		return len(b), err
	}), "grows", 1000)
	coded(t, err, TooLarge)
	if n != 1000 {
		t.Errorf("%d bytes of a file that grows for ever", n)
	}
	if n, err := d.Cat(soon(t), io.Discard, "grows", 1<<20); err != nil || n < 1000 {
		t.Errorf("%d %v", n, err)
	}

	_, err = d.Put(soon(t), "big", strings.NewReader("0123456789"), PutOptions{Mode: 0o644, Max: 9})
	coded(t, err, TooLarge)
	if w, err := d.Put(soon(t), "fits", strings.NewReader("0123456789"), PutOptions{Mode: 0o640, Max: 10}); err != nil || w.Bytes != 10 {
		t.Errorf("%d %v", n, err)
	}
	empty(t, root, "sparse", "grows", "fits")
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// empty wants these names in a directory and no other: nothing half written.
func empty(t *testing.T, dir string, but ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.Contains(" "+strings.Join(but, " ")+" ", " "+e.Name()+" ") {
			t.Errorf("left: %s", e.Name())
		}
	}
	if len(entries) < len(but) {
		t.Errorf("%d names, want %v", len(entries), but)
	}
}

// A reader that fails, a context that ends, a file system that is full: nothing is left,
// and the older file stands.
func TestPutFails(t *testing.T) {
	d, root, _ := open(t)
	write(t, filepath.Join(root, "f"), "old")
	_, err := d.Put(soon(t), "f", io.MultiReader(strings.NewReader("new"), broken{}), PutOptions{Mode: 0o644, Max: 100})
	if err == nil || !strings.Contains(err.Error(), "torn") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = d.Put(ctx, "f", io.MultiReader(strings.NewReader("new"), reader(func([]byte) (int, error) { cancel(); return 0, nil }), strings.NewReader("more")), PutOptions{Mode: 0o644, Max: 100})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(t.Context()) // ends when all is read, and nothing named
	_, err = d.Put(ctx, "f", io.MultiReader(strings.NewReader("new"), reader(func([]byte) (int, error) { cancel(); return 0, io.EOF })), PutOptions{Mode: 0o644, Max: 100})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, err = d.Put(soon(t), "f", strings.NewReader("new"), PutOptions{Mode: 0o644, Max: 100, Exclusive: true})
	coded(t, err, InvalidState)
	_, err = d.Put(soon(t), "f", strings.NewReader("new"), PutOptions{Mode: 0o4755, Max: 100})
	coded(t, err, InvalidRequest)
	_, err = d.Put(soon(t), "no/f", strings.NewReader("new"), PutOptions{Mode: 0o644, Max: 100})
	coded(t, err, NotFound)
	_, err = d.Put(soon(t), "f/g", strings.NewReader("new"), PutOptions{Mode: 0o644, Max: 100, Parents: true})
	coded(t, err, NotFound)
	if b, _ := os.ReadFile(filepath.Join(root, "f")); string(b) != "old" {
		t.Errorf("%q", b)
	}
	empty(t, root, "f")
	for _, exclusive := range []bool{false, true} {
		if _, err := d.Put(soon(t), "a/b/c", strings.NewReader("new"), PutOptions{Mode: 0o640, Max: 100, Parents: true, Exclusive: exclusive}); (err != nil) != exclusive {
			t.Error(err)
		}
	}
	if st, err := os.Stat(filepath.Join(root, "a/b/c")); err != nil || st.Mode() != 0o640 {
		t.Errorf("%v %v", st.Mode(), err)
	}
}

func TestPutFull(t *testing.T) {
	need.Root(t)
	d, root, _ := open(t)
	small := filepath.Join(root, "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=64k,nr_inodes=8"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(small, unix.MNT_DETACH)
	// From above it is another mount, and no part of the workspace.
	_, err := d.Put(soon(t), "small/f", strings.NewReader("x"), PutOptions{Mode: 0o644, Max: 100})
	coded(t, err, InvalidPath)
	s := openRoot(t, small)
	_, err = s.Put(soon(t), "f", strings.NewReader(strings.Repeat("x", 1<<20)), PutOptions{Mode: 0o644, Max: 1 << 30})
	coded(t, err, NoSpace)
	empty(t, small)
	for i := 0; err == nil || i == 0; i++ {
		_, err = s.Put(soon(t), fmt.Sprint("f", i), strings.NewReader(""), PutOptions{Mode: 0o644, Max: 1 << 30})
		if i > 10 {
			t.Fatal("more inodes than there are")
		}
	}
	coded(t, err, NoSpace)
}

// What is wrong with the receiver is no fault of the file's; an input may have an error
// of a file's.
func TestOthersErrors(t *testing.T) {
	d, root, _ := open(t)
	write(t, filepath.Join(root, "f"), "x")
	for _, errno := range []error{unix.ENOSPC, unix.EAGAIN, unix.ENOENT, unix.EACCES} {
		_, err := d.Cat(soon(t), writer(func([]byte) (int, error) { return 0, errno }), "f", 100)
		var e *Error
		if !errors.Is(err, errno) || errors.As(err, &e) {
			t.Errorf("%v", err)
		}
	}
	wrapped := fmt.Errorf("of another: %w", &Error{Code: NotFound})
	_, err := d.Put(soon(t), "g", reader(func([]byte) (int, error) { return 0, wrapped }), PutOptions{Mode: 0o644, Max: 1})
	if !errors.Is(err, wrapped) {
		t.Error(err)
	}
	empty(t, root, "f")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("torn") }

type reader func([]byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }

// Names are bytes; what no name can be is refused before a system call.
func TestNames(t *testing.T) {
	d, root, _ := open(t)
	for _, p := range []string{"\xff\xfe", "a\nb", "-r", " ", "…", "a\x1b[2J", strings.Repeat("n", 255), ".jailer-x"} {
		if _, err := verbs["put"](d, soon(t), p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
		if got, err := verbs["cat"](d, soon(t), p); err != nil || got != "put\n" {
			t.Errorf("%q: %q %v", p, got, err)
		}
		l, err := d.List(soon(t), "", "", 0)
		if err != nil || len(l.Entries) != 1 || l.Entries[0].Name != p {
			t.Errorf("%q: %+v %v", p, l, err)
		}
		if _, err := verbs["rm"](d, soon(t), p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
	for _, p := range []string{"/etc/passwd", "..", "a/..", "../canary", "a/../../canary", "\x00", "a\x00b", "/", "//", strings.Repeat("n", 256), strings.Repeat("a/", 2050)} {
		for verb, do := range verbs {
			_, err := do(d, soon(t), p)
			coded(t, err, InvalidPath)
			if err == nil {
				t.Errorf("%s %q", verb, p)
			}
		}
	}
	for _, p := range []string{"", ".", "./", "./."} {
		for _, verb := range []string{"cat", "page", "put", "mkdir", "mkdir parents", "rm", "rm recursive"} {
			_, err := verbs[verb](d, soon(t), p)
			coded(t, err, InvalidPath)
		}
		for _, verb := range []string{"stat", "ls"} {
			if _, err := verbs[verb](d, soon(t), p); err != nil {
				t.Errorf("%s %q: %v", verb, p, err)
			}
		}
	}
	empty(t, root)
}
