package workspace

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// jail starts a shell as PID 1 of a pid namespace, whose processes are those that a watch
// looks at.
func jail(t *testing.T, dir, script string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

func watch(t *testing.T, dir string, pid int, q Quota) (*Excess, error) {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return (&Watch{Dir: f, Quota: q, PID1: pid, MinFree: 1}).Run(soon(t))
}

// Past the quota in every way that a job has: the watch ends it, little beyond.
func TestWatch(t *testing.T) {
	need.Root(t)
	python := need.Program(t, "python3")
	const quota = 32 << 20
	for name, script := range map[string]string{
		"one file":   "head -c 1G /dev/zero > f; sleep 100",
		"many files": "i=0; while :; do head -c 1M /dev/zero > f$i; i=$((i+1)); done",
		"inodes":     "mkdir d; i=0; while :; do mkdir d/$i; i=$((i+1)); done",
		"writers":    "for w in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do (i=0; while :; do head -c 256K /dev/zero > f$w$i; i=$((i+1)); done) & done; wait",
		"no name":    "exec 3> f; rm f; head -c 1G /dev/zero >&3; sleep 100",
		"hidden":     "mkdir -m 300 d; cd d; i=0; while :; do head -c 1M /dev/zero > f$i; i=$((i+1)); done",
		"mapped": python + ` -c '
import mmap, os, time
keep = []
while True:
    fd = os.open("f", os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 4 << 20)
    m = mmap.mmap(fd, 4 << 20); m[:] = b"x" * (4 << 20); keep.append(m)
    os.unlink("f"); os.close(fd)'`,
		"a thread's own": python + ` -c '
import ctypes, os, threading, time
def work():
    ctypes.CDLL(None).unshare(0x400)
    fd = os.open("f", os.O_RDWR | os.O_CREAT); os.unlink("f")
    while True: os.write(fd, b"x" * (1 << 20))
threading.Thread(target=work).start()'`,
		"moved all the time": "mkdir -p a/b/c; (while :; do mv a/b x; mv x a/b; done) & i=0; while :; do head -c 1M /dev/zero > f$i; i=$((i+1)); done",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			began := time.Now()
			over, err := watch(t, dir, jail(t, dir, script), Quota{Bytes: quota, Inodes: 500})
			if err != nil || over == nil {
				t.Fatalf("%+v %v", over, err)
			}
			t.Logf("%v after %v: %d MiB beyond", over.Reason, time.Since(began), (over.Usage.Bytes-quota)>>20)
			if over.Usage.Bytes > quota+1<<30 {
				t.Errorf("%d bytes", over.Usage.Bytes)
			}
		})
	}
}

// A workspace at rest costs little, and the watch ends with its context.
func TestWatchAtRest(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	walks := 0
	var last Usage
	w := &Watch{Dir: f, Quota: Quota{1 << 40, 1 << 40}, MinFree: 1, Report: func(u Usage) { walks++; last = u }}
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	over, err := w.Run(ctx)
	if over != nil || err != nil || walks < 1 || walks > 4 || last.Bytes < 1<<20 || last.Inodes != 2 {
		t.Errorf("%+v %v: %d walks, %+v", over, err, walks, last)
	}
}

// Whatever the workspace has, the host's file system keeps its floor.
func TestWatchFloor(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // others on that file system
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				_ = os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), make([]byte, 1<<20), 0o644)
			}
		}
	}()
	over, err := (&Watch{Dir: f, Quota: Quota{1 << 40, 1 << 40}, MinFree: 16 << 20}).Run(soon(t))
	if err != nil || over == nil || !strings.Contains(over.Reason, "left") {
		t.Errorf("%+v %v", over, err)
	}
}

// What is gone is forgotten: a job can't make the watch grow.
func TestWatchForgets(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := &Watch{Dir: f, PID1: jail(t, dir, "i=0; while :; do exec 3> f; rm f; echo x >&3; i=$((i+1)); done")}
	known := map[uint64]int64{}
	for range need.Times(200) {
		if _, _, err := w.measure(t.Context(), known); err != nil {
			t.Fatal(err)
		}
	}
	if len(known) > 10 {
		t.Errorf("%d are remembered", len(known))
	}
}
