package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// deep makes a chain of directories, deeper than any path can say, with a file at its
// end, and gives what it takes.
func deep(t *testing.T, root string, n int) {
	t.Helper()
	at, err := unix.Open(root, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := unix.Mkdirat(at, "deep", 0o755); err != nil {
			t.Fatal(err)
		}
		if fd, err := unix.Openat(at, "side", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644); err == nil {
			unix.Close(fd)
		}
		if err := unix.Mkdirat(at, "sib", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, "deep", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(at)
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	unix.Close(at)
}

func descriptors(t testing.TB) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

func TestDeepTree(t *testing.T) {
	d, root, _ := open(t)
	n := 5000
	if need.Slow() {
		n = 1000
	}
	deep(t, root, n)
	were := descriptors(t)
	began := time.Now()
	_, inodes, err := Usage(soon(t), d.f)
	if err != nil || inodes != int64(3*n+1) {
		t.Errorf("%d inodes, want %d: %v", inodes, 3*n+1, err)
	}
	t.Logf("usage of %d: %v", n, time.Since(began))
	_, err = verbs["cat"](d, soon(t), strings.Repeat("deep/", 900)+"none")
	coded(t, err, InvalidPath, NotFound)
	began = time.Now()
	if _, err := d.Remove(soon(t), "deep", true); err != nil {
		t.Fatal(err)
	}
	t.Logf("removed %d: %v", n, time.Since(began))
	empty(t, root, "side", "sib")
	if now := descriptors(t); now != were {
		t.Errorf("%d descriptors, %d before", now, were)
	}
}

// What a job has taken its own permissions from is counted and removed all the same.
func TestWithoutPermissions(t *testing.T) {
	d, root, _ := open(t)
	for _, mode := range []os.FileMode{0, 0o300, 0o400, 0o100, 0o500} {
		dir := filepath.Join(root, "t", fmt.Sprintf("%o", mode), "sub")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "file"), strings.Repeat("x", 100_000))
		for _, p := range []string{filepath.Join(dir, "file"), dir, filepath.Dir(dir)} {
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(filepath.Join(root, "t"), 0); err != nil {
		t.Fatal(err)
	}
	bytes, inodes, err := Usage(soon(t), d.f)
	if err != nil || inodes != 2+5*3 || bytes < 500_000 {
		t.Errorf("%d bytes in %d: %v", bytes, inodes, err)
	}
	if _, err := d.Remove(soon(t), "t", true); err != nil {
		t.Error(err)
	}
	empty(t, root)
}

// What only root can hold in its place, root removes.
func TestImmutable(t *testing.T) {
	need.Root(t)
	d, root, _ := open(t)
	if err := os.MkdirAll(filepath.Join(root, "t", "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"t/file", "t/dir/in"} {
		write(t, filepath.Join(root, p), "x")
	}
	for p, flag := range map[string]uint32{"t/file": 0x10, "t/dir/in": 0x20, "t/dir": 0x10, "t": 0x20} {
		f, err := os.Open(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		n, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		if err == nil {
			err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(n|flag))
		}
		f.Close()
		need.Feature(t, "immutable", err == nil, fmt.Sprintf("this file system has no such attribute: %v", err))
	}
	if os.RemoveAll(filepath.Join(root, "t", "file")) == nil {
		t.Fatal("it is not immutable")
	}
	if _, err := d.Remove(soon(t), "t", true); err != nil {
		t.Fatal(err)
	}
	empty(t, root)
}

// What is removed before a removal ends is told of.
func TestRemoveInterrupted(t *testing.T) {
	d, root, _ := open(t)
	if err := os.Mkdir(filepath.Join(root, "t"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 1500 {
		write(t, filepath.Join(root, "t", strconv.Itoa(i)), "")
	}
	if some, err := d.Remove(&endsAfter{Context: t.Context(), looks: 0}, "t", true); !errors.Is(err, context.Canceled) || some {
		t.Errorf("%v %v", some, err)
	}
	if some, err := d.Remove(&endsAfter{Context: t.Context(), looks: 1}, "t", true); !errors.Is(err, context.Canceled) || !some {
		t.Errorf("%v %v", some, err)
	}
}

// endsAfter is looked at so often before it ends.
type endsAfter struct {
	context.Context
	looks int
}

func (e *endsAfter) Err() error {
	if e.looks--; e.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A mount in the tree is left, and nothing in it removed or counted.
func TestMountIsLeft(t *testing.T) {
	need.Root(t)
	d, root, _ := open(t)
	at := filepath.Join(root, "t", "mnt")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(at, unix.MNT_DETACH)
	write(t, filepath.Join(at, "host"), "x")
	if some, err := d.Remove(soon(t), "t", true); err == nil || some {
		t.Errorf("removed through a mount: %v", some)
	}
	if _, err := os.Stat(filepath.Join(at, "host")); err != nil {
		t.Error(err)
	}
	if _, n, err := Usage(soon(t), d.f); err != nil || n != 2 {
		t.Errorf("%d %v", n, err)
	}
}

// Somebody fills the tree while it is removed: it ends, one way or the other.
func TestRemoveRace(t *testing.T) {
	d, root, canary := open(t)
	stop := make(chan struct{})
	var work sync.WaitGroup
	halt := sync.OnceFunc(func() { close(stop); work.Wait() })
	defer halt()
	for i := range 2 {
		work.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Microsecond): // on one CPU two that never wait let nobody else come to an end
				}
				p := filepath.Join(root, "t", fmt.Sprint(n%50))
				_ = os.MkdirAll(p, 0o755)
				_ = os.Symlink(canary, filepath.Join(p, "l"))
				_ = os.WriteFile(filepath.Join(p, "f"), nil, 0o644)
				if i == 1 {
					_ = unix.Renameat2(unix.AT_FDCWD, p, unix.AT_FDCWD, filepath.Join(root, "t", fmt.Sprint(n%50+1), "moved"), 0)
				}
			}
		})
	}
	for begin := time.Now(); time.Since(begin) < need.RaceTime(); {
		_, err := d.Remove(soon(t), "t", true)
		var e *Error
		if err != nil && (!errors.As(err, &e) || errors.Is(err, context.DeadlineExceeded)) {
			t.Fatal(err)
		}
	}
	halt()
	if _, err := d.Remove(soon(t), "t", true); err != nil {
		var e *Error
		if !errors.As(err, &e) || e.Code != NotFound {
			t.Error(err)
		}
	}
	untouched(t, canary)
	empty(t, root)
}

func TestUsage(t *testing.T) {
	d, root, _ := open(t)
	write(t, filepath.Join(root, "f"), strings.Repeat("x", 1<<20))
	for i := range 10 {
		if err := os.Link(filepath.Join(root, "f"), filepath.Join(root, fmt.Sprint("l", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/usr", filepath.Join(root, "usr")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "sparse"), "")
	if err := os.Truncate(filepath.Join(root, "sparse"), 1<<40); err != nil {
		t.Fatal(err)
	}
	bytes, inodes, err := Usage(soon(t), d.f)
	if err != nil || inodes != 4 || bytes < 1<<20 || bytes > 1<<20+64<<10 {
		t.Errorf("%d bytes in %d: %v", bytes, inodes, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Usage(ctx, d.f); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A listing of any size goes page by page, each name once, and what is renamed
// meanwhile changes nothing for the others.
func TestList(t *testing.T) {
	d, root, _ := open(t)
	n := need.Times(100_000)
	want := make([]string, n)
	for i := range n {
		want[i] = fmt.Sprintf("%x", uint32(i)*2654435761)
		f, err := os.OpenFile(filepath.Join(root, want[i]), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	slices.Sort(want)
	var got []string
	for cursor := ""; ; {
		l, err := d.List(soon(t), "", cursor, MaxEntries)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range l.Entries {
			got = append(got, i.Name)
		}
		if cursor = l.Cursor; cursor == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d names, want %d", len(got), len(want))
	}
	first, err := d.List(soon(t), ".", "", 3)
	if err != nil || len(first.Entries) != 3 || first.Cursor == "" {
		t.Fatalf("%+v %v", first, err)
	}
	for _, w := range want[:3] { // the one the cursor names as well
		if err := os.Rename(filepath.Join(root, w), filepath.Join(root, "z"+w)); err != nil {
			t.Fatal(err)
		}
	}
	if next, err := d.List(soon(t), ".", first.Cursor, 1); err != nil || next.Entries[0].Name != want[3] {
		t.Errorf("%+v %v", next, err)
	}
	for _, bad := range []string{"x", "l1.!", "p1.AA", "l1." + strings.Repeat("A", 1000)} {
		_, err := d.List(soon(t), "", bad, 0)
		coded(t, err, InvalidRequest)
	}
	for _, bad := range []int{-1, MaxEntries + 1} {
		_, err := d.List(soon(t), "", "", bad)
		coded(t, err, InvalidRequest)
	}
	_, err = d.List(soon(t), want[9], "", 0)
	coded(t, err, NotFound)
	if l, err := d.List(soon(t), "", "l1.", 1); err != nil || len(l.Entries) != 1 {
		t.Errorf("%+v %v", l, err)
	}
}
