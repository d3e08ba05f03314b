package workspace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A hider is a job that sees each walk coming and moves what it has from where the walk
// comes last to where it has been. mu is held while it does something: it can be frozen.
type hider struct {
	t           *testing.T
	mu          sync.Mutex
	dir         string
	first, last string // of a walk
	files       int
	moved       bool
	back        time.Time // when to move what was moved
}

func hide(t *testing.T, dir string) *hider {
	h := &hider{t: t, dir: dir}
	for i := range 1500 {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		t.Fatal(err)
	}
	h.first, h.last = names[len(names)-1], names[0]
	return h
}

func (h *hider) move(from, to string) {
	for i := range h.files {
		if err := os.Rename(filepath.Join(h.dir, from, fmt.Sprint(i)), filepath.Join(h.dir, to, fmt.Sprint(i))); err != nil {
			h.t.Error(err)
		}
	}
	h.moved = !h.moved
}

// opened is told which directory a walk has opened.
func (h *hider) opened(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case name == h.last && h.moved: // the walk is as good as over
		h.back = time.Now().Add(20 * time.Millisecond)
	case name != h.first && name != h.last && !h.moved:
		h.move(h.last, h.first)
	}
}

// write writes one more, once the others are back where a walk comes last.
func (h *hider) write(size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.moved && !h.back.IsZero() && time.Now().After(h.back) {
		h.move(h.first, h.last)
		h.back = time.Time{}
	}
	if h.moved {
		return
	}
	if err := os.WriteFile(filepath.Join(h.dir, h.last, fmt.Sprint(h.files)), make([]byte, size), 0o644); err != nil {
		h.t.Error(err)
	}
	h.files++
}

func (h *hider) run(ctx context.Context, size, most int) {
	in, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		h.t.Error(err)
		return
	}
	defer unix.Close(in)
	if _, err := unix.InotifyAddWatch(in, h.dir, unix.IN_OPEN|unix.IN_ONLYDIR); err != nil {
		h.t.Error(err)
		return
	}
	buf := make([]byte, 1<<16)
	for wrote := time.Now(); ctx.Err() == nil; {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(in), Events: unix.POLLIN}}, 10)
		n, err := unix.Read(in, buf)
		for b := buf[:max(n, 0)]; err == nil && len(b) >= unix.SizeofInotifyEvent; {
			size := int(binary.NativeEndian.Uint32(b[12:])) // of the name: inotify(7)
			name := unix.ByteSliceToString(b[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+size])
			if name != "" {
				h.opened(name)
			}
			b = b[unix.SizeofInotifyEvent+size:]
		}
		if time.Since(wrote) > 50*time.Millisecond && h.files*size < most {
			h.write(size)
			wrote = time.Now()
		}
	}
}

// What moves out of a walk's way is found by one that the job is stopped for.
func TestWatchHidden(t *testing.T) {
	dir := t.TempDir()
	h := hide(t, dir)
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const quota = 32 << 20
	frozen := 0
	w := &Watch{Dir: f, Quota: Quota{quota, 1 << 20}, MinFree: 1, Freeze: func(context.Context) (func() error, error) {
		h.mu.Lock()
		frozen++
		return func() error { h.mu.Unlock(); return nil }, nil
	}}
	ctx, cancel := context.WithCancel(soon(t))
	var done sync.WaitGroup
	done.Go(func() { h.run(ctx, 4<<20, 8*quota) })
	over, err := w.Run(ctx)
	cancel()
	done.Wait()
	if err != nil || over == nil || frozen == 0 {
		t.Fatalf("%+v %v: frozen %d times, %d MiB written", over, err, frozen, h.files*4)
	}
	t.Logf("%s, frozen %d times", over.Reason, frozen)
	if over.Usage.Bytes > 4*quota {
		t.Errorf("%d bytes", over.Usage.Bytes)
	}
}

// What others write to that file system is no reason to end a job, nor to stop it again
// and again: it is stopped once for each piece that could be its own.
func TestWatchOthers(t *testing.T) {
	// Tests beside this one write to the file system of a temporary directory.
	at, err := os.MkdirTemp("/dev/shm", "jailer-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(at)
	dir, others := filepath.Join(at, "dir"), filepath.Join(at, "others")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(others, 0o755)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	frozen, walks := 0, 0
	w := &Watch{Dir: f, Quota: Quota{32 << 20, 1 << 20}, MinFree: 1, Report: func(Usage) { walks++ }, Freeze: func(context.Context) (func() error, error) {
		frozen++
		return func() error { return nil }, nil
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := w.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(others, "f"), make([]byte, 64<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	over, err := w.Run(ctx)
	if over != nil || err != nil || frozen != 1 || walks < 2 {
		t.Errorf("%+v %v: frozen %d times, %d walks", over, err, frozen, walks)
	}
}
