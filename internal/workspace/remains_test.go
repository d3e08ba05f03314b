package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/test/need"
)

// deep makes directories in one another, more than a path can name, some of them beside
// others, and shuts the last. It gives how many there are.
func deep(t *testing.T, dir string, levels int) (all int64) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range levels {
		names := []string{"d"}
		if i%10 == 0 {
			names = []string{"a", "d", "z"} // whatever the order in which they are listed
		}
		for _, name := range names {
			if err := unix.Mkdirat(at, name, 0o700); err != nil {
				t.Fatal(err)
			}
			all++
		}
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(at)
		at = next
	}
	if err := unix.Fchmod(at, 0); err != nil {
		t.Fatal(err)
	}
	unix.Close(at)
	return all
}

// few leaves this process with few descriptors.
func few(t *testing.T) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
}

// A tree deeper than a path is long is counted whole, and removed whole, with few
// descriptors.
func TestDeep(t *testing.T) {
	levels := 5000
	if need.Slow() {
		levels = 1500
	}
	s := store(t)
	w, err := s.mine(t, Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	all := deep(t, w.Path(), levels)
	few(t)
	dir, err := w.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, n, err := files.Usage(soon(t), dir); err != nil || n != all+1 {
		t.Errorf("%d of %d: %v", n, all+1, err)
	}
	dir.Close()
	began := time.Now()
	if err := w.remove(soon(t)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d levels removed in %v", levels, time.Since(began))
	if left, _ := filepath.Glob(filepath.Join(s.path, "*", "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// Names that no shell would take, files of many ids and of none, and all shut: they go, by
// prune too, and what a link leads to stays.
func TestHostileRemains(t *testing.T) {
	s := store(t)
	w, err := s.mine(t, Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.Mkdir(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(kept, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var long [255]byte
	for i := range long {
		long[i] = 0xff
	}
	var dirs []string
	for i, name := range []string{"\n", "a\nb", " ", "-rf", "*", "\x01\x1b[2J", "\xff\xfe", "\xc3\x28", "...", `\`, string(long[:])} {
		d := filepath.Join(w.Path(), name)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, d)
		for j, p := range []string{name, "f", "l", "hole"} {
			p = filepath.Join(d, p)
			switch j {
			case 0:
				err = os.Mkdir(p, 0)
			case 1:
				err = os.WriteFile(p, nil, 0)
			case 2:
				err = os.Symlink(kept, p)
			case 3:
				err = unix.Mkfifo(p, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			if os.Geteuid() == 0 {
				if err := os.Lchown(p, 100000+i*7, 200000+j); err != nil {
					t.Fatal(err)
				}
			}
		}
		if os.Geteuid() == 0 {
			if err := os.Lchown(d, 100000+i, 65534); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, d := range append(dirs, w.Path()) {
		if err := os.Chmod(d, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.age(t, other, time.Hour)
	removed, err := s.Prune(soon(t), time.Minute, false, nil)
	if expect(t, "prune", removed, err, other.Resource); len(removed) == 1 && removed[0].Err != nil {
		t.Error(removed[0].Err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.path, "*", "*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	if _, err := os.Stat(filepath.Join(kept, "f")); err != nil {
		t.Error(err)
	}
}

// Where the file system has less than its floor already, half of what it has is kept.
func TestWatchLowFloor(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	taken := 0
	take := func(mib int) {
		for range mib {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", taken)), megabyte, 0o600); err != nil {
				t.Error(err)
			}
			taken++
		}
	}
	take(8) // 8 are left, and 4 of them are kept
	ctx, stop := context.WithTimeout(t.Context(), need.Time(60*time.Second))
	defer stop()
	walked := make(chan struct{}, 1)
	type end struct {
		over *Excess
		err  error
	}
	ended := make(chan end, 1)
	w := &Watch{Dir: f, Quota: Quota{1 << 40, 1 << 40}, MinFree: 1 << 30, Report: func(Usage) {
		select {
		case walked <- struct{}{}:
		default:
		}
	}}
	go func() { over, err := w.Run(ctx); ended <- end{over, err} }()
	<-walked
	take(3)
	select {
	case e := <-ended:
		t.Fatalf("5 of 8 MiB are left: %+v %v", e.over, e.err)
	case <-time.After(10 * tick):
	}
	take(2)
	if e := <-ended; e.err != nil || e.over == nil {
		t.Errorf("3 of 8 MiB are left: %+v %v", e.over, e.err)
	}
}

// Ten thousand files at rest are walked once a second, and the watch ends when it is told
// to.
func TestWatchPaces(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		d := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		for j := range 200 {
			if err := os.WriteFile(filepath.Join(d, fmt.Sprint(j)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var at []time.Time
	w := &Watch{Dir: f, Quota: Quota{1 << 40, 1 << 40}, MinFree: 1, Report: func(u Usage) {
		at = append(at, time.Now())
		if u.Inodes != 50*201+1 {
			t.Errorf("%+v", u)
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var cancelled time.Time
	time.AfterFunc(3500*time.Millisecond, func() { cancelled = time.Now(); cancel() })
	if over, err := w.Run(ctx); over != nil || err != nil {
		t.Errorf("%+v %v", over, err)
	}
	if d := time.Since(cancelled); d > need.Time(time.Second) {
		t.Errorf("ended %v after its context", d)
	}
	if len(at) < 1 || len(at) > 4 {
		t.Errorf("%d walks", len(at))
	}
	for i := 1; i < len(at); i++ {
		if d := at[i].Sub(at[i-1]); d < walkMost/2 {
			t.Errorf("%v between two walks", d)
		}
	}
}
