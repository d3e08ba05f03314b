package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/jailer-project/jailer/test/need"
)

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), need.Time(30*time.Second))
	t.Cleanup(cancel)
	return ctx
}

// through sends in through a real pipe, in pieces of n bytes.
func through(t testing.TB, in []byte, n int, o Options) *Capture {
	t.Helper()
	r, w := pipe(t)
	c := Start(r, o)
	for b := in; len(b) > 0; {
		k := min(n, len(b))
		if _, err := w.Write(b[:k]); err != nil {
			t.Fatalf("the reader is gone: %v", err)
		}
		b = b[k:]
	}
	w.Close()
	if err := c.Wait(soon(t)); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return c
}

func TestKeep(t *testing.T) {
	e7 := strings.Repeat("é", 7)
	for _, tc := range []struct {
		name, in string
		cap      int64
		keep     Keep
		want     string
	}{
		{"all fits", "hello", 5, "", "hello"},
		{"nothing", "", 5, KeepHead, ""},
		{"cap 0 keeps nothing", "x", 0, KeepHead, ""},
		{"head", "0123456789", 4, KeepHead, "0123"},
		{"head, inside a character", e7, 11, KeepHead, "ééééé"},
		{"head, between characters", e7, 10, KeepHead, "ééééé"},
		{"head, one byte of three", "€€", 4, KeepHead, "€"},
		{"head, two bytes of three", "€€", 5, KeepHead, "€"},
		{"head, four-byte character larger than the cap", "😀x", 3, KeepHead, ""},
		{"head, binary is cut exactly", "\xff\xfe\xfd\xfc", 3, KeepHead, "\xff\xfe\xfd"},
		{"head, only looks like a character at the cap", "ab\xe2xyz", 3, KeepHead, "ab\xe2"},
		{"head, longer look-alike at the cap", "ab\xe2\x82xyz", 3, KeepHead, "ab\xe2"},
		{"head, ends inside a character below the cap", "ab\xe2\x82", 9, KeepHead, "ab\xe2\x82"},
		{"head, ends inside a character at the cap", "ab\xe2\x82", 4, KeepHead, "ab\xe2\x82"},
		{"tail", "0123456789", 4, KeepTail, "6789"},
		{"tail, inside a character", e7, 11, KeepTail, "ééééé"},
		{"tail, all fits", e7, 14, KeepTail, e7},
		{"tail, binary is cut exactly", "\xff\xfe\xfd\xfc", 3, KeepTail, "\xfe\xfd\xfc"},
		{"both", "0123456789", 5, KeepBoth, "01289"},
		{"both, all fits", e7, 14, KeepBoth, e7},
		{"both, all fits, odd halves in characters", "€€€€", 12, KeepBoth, "€€€€"},
		{"both, inside characters", e7, 11, KeepBoth, "ééééé"},
		{"both, binary", "\xff\xfe\xfd\xfc\xfb", 4, KeepBoth, "\xff\xfe\xfc\xfb"},
	} {
		for _, n := range []int{1, 2, 3, 5, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", tc.name, n), func(t *testing.T) {
				var raw bytes.Buffer
				for _, out := range []*bytes.Buffer{nil, &raw} {
					o := Options{Cap: tc.cap, Keep: tc.keep}
					if out != nil {
						o.Out = out
					}
					c := through(t, []byte(tc.in), n, o)
					got := c.Bytes()
					if out != nil {
						if got != nil {
							t.Errorf("Bytes() = %q with an Out, want nil", got)
						}
						got = out.Bytes()
					}
					if diff := cmp.Diff(tc.want, string(got)); diff != "" {
						t.Errorf("out %v: kept (-want +got):\n%s", out != nil, diff)
					}
					if c.Total() != int64(len(tc.in)) {
						t.Errorf("Total = %d, want %d", c.Total(), len(tc.in))
					}
					if c.Delivered() != int64(len(tc.want)) {
						t.Errorf("Delivered = %d, want %d", c.Delivered(), len(tc.want))
					}
					if want := int64(len(tc.in)) > tc.cap; c.Truncated() != want {
						t.Errorf("Truncated = %v, want %v", c.Truncated(), want)
					}
				}
			})
		}
	}
}

// A prompt must show before the job waits for the answer.
func TestHeadComesAtOnce(t *testing.T) {
	r, w := pipe(t)
	or, ow := pipe(t)
	Start(r, Options{Cap: 1 << 20, Out: ow})
	fmt.Fprint(w, "name? ")
	or.SetReadDeadline(time.Now().Add(need.Time(20 * time.Second)))
	b := make([]byte, 6)
	if _, err := io.ReadFull(or, b); err != nil || string(b) != "name? " {
		t.Fatalf("got %q, %v before the end of the stream", b, err)
	}
}

// FuzzCut pins the cut: what is kept of valid text is valid, no longer than the
// cap and at most 3 bytes shorter; it does not depend on how the bytes arrive.
func FuzzCut(f *testing.F) {
	f.Add([]byte("ééééééé"), 11, 3, byte(0))
	f.Add([]byte("a€😀b"), 6, 1, byte(1))
	f.Add([]byte("\xf0\x9f\x98x"), 3, 1, byte(0))
	f.Add([]byte("€€€€€"), 7, 2, byte(2))
	f.Fuzz(func(t *testing.T, in []byte, limit, step int, mode byte) {
		if limit < 0 || limit > 1<<16 || step < 1 || len(in) > 1<<16 {
			t.Skip()
		}
		keep := []Keep{KeepHead, KeepTail, KeepBoth}[mode%3]
		run := func(step int) []byte {
			c := &Capture{o: Options{Cap: int64(limit), Keep: keep}}
			c.prepare()
			for b := in; len(b) > 0; {
				k := min(step, len(b))
				c.take(bytes.Clone(b[:k]))
				b = b[k:]
			}
			c.finish()
			if c.Total() != int64(len(in)) || c.Delivered() != int64(len(c.mem)) {
				t.Fatalf("counts: total %d, delivered %d; in %d, kept %d", c.Total(), c.Delivered(), len(in), len(c.mem))
			}
			return c.mem
		}
		got := run(step)
		if whole := run(max(len(in), 1)); !bytes.Equal(got, whole) {
			t.Fatalf("in pieces of %d: %q, at once: %q", step, got, whole)
		}
		if len(got) > limit {
			t.Fatalf("kept %d bytes, cap %d", len(got), limit)
		}
		if len(in) <= limit && !bytes.Equal(got, in) {
			t.Fatalf("kept %q of %q, which fits", got, in)
		}
		short := utf8.UTFMax - 1
		if keep == KeepBoth {
			short *= 2
		}
		if len(in) > limit && len(got) < limit-short {
			t.Fatalf("kept %d bytes of %d, cap %d", len(got), len(in), limit)
		}
		if utf8.Valid(in) && !utf8.Valid(got) {
			t.Fatalf("valid text cut to invalid %q", got)
		}
		switch {
		case keep == KeepHead && !bytes.HasPrefix(in, got), keep == KeepTail && !bytes.HasSuffix(in, got):
			t.Fatalf("%s kept %q of %q", keep, got, in)
		}
	})
}

func TestFloodIsFlat(t *testing.T) {
	const size, limit = 200 << 20, 1 << 20
	for _, keep := range []Keep{KeepHead, KeepTail, KeepBoth} {
		t.Run(string(keep), func(t *testing.T) {
			r, w := pipe(t)
			c := Start(r, Options{Cap: limit, Keep: keep})
			block := bytes.Repeat([]byte{'x'}, chunk) // not one line end
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			before, high := m.HeapAlloc, uint64(0)
			for i := range size / chunk {
				if _, err := w.Write(block); err != nil {
					t.Fatal(err)
				}
				if i%256 == 0 {
					runtime.ReadMemStats(&m)
					high = max(high, m.HeapAlloc)
				}
			}
			w.Close()
			if err := c.Wait(soon(t)); err != nil {
				t.Fatal(err)
			}
			if c.Total() != size || int64(len(c.Bytes())) != limit || !c.Truncated() {
				t.Errorf("total %d, kept %d, truncated %v", c.Total(), len(c.Bytes()), c.Truncated())
			}
			if grown := int64(high) - int64(before); grown > 8*limit {
				t.Errorf("heap grew by %d bytes for a cap of %d", grown, limit)
			}
		})
	}
}

// A terminal or socket can't be spliced the same way; the count must not differ.
func TestSocket(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(fds[1]), "w")
	c := Start(os.NewFile(uintptr(fds[0]), "r"), Options{Cap: 10})
	w.Write(make([]byte, 300000))
	w.Close()
	if err := c.Wait(soon(t)); err != nil || c.Total() != 300000 || len(c.Bytes()) != 10 {
		t.Errorf("total %d, kept %d, %v", c.Total(), len(c.Bytes()), err)
	}
}

func TestOnExceed(t *testing.T) {
	for _, tc := range []struct {
		name string
		on   OnLimit
		n    int
		want int32
	}{
		{"at the cap", Kill, 100, 0},
		{"over it", Kill, 5000, 1},
		{"truncate", Truncate, 5000, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var calls atomic.Int32
			called := make(chan struct{}, 8)
			c := through(t, make([]byte, tc.n), 10, Options{
				Cap: 100, OnLimit: tc.on,
				OnExceed: func() { calls.Add(1); called <- struct{}{} },
			})
			if tc.want > 0 {
				<-called
			}
			if c.Total() != int64(tc.n) {
				t.Errorf("drained %d, want %d", c.Total(), tc.n)
			}
			if calls.Load() != tc.want {
				t.Errorf("OnExceed called %d times, want %d", calls.Load(), tc.want)
			}
		})
	}
}

type failing struct {
	after int
	err   error
	calls int
}

func (f *failing) Write(b []byte) (int, error) {
	if f.calls++; f.calls > f.after {
		return 0, f.err
	}
	return len(b), nil
}

// The reader of jailer's own output leaves: the job must get SIGPIPE, not run on.
func TestBrokenOut(t *testing.T) {
	r, w := pipe(t)
	c := Start(r, Options{Cap: 1 << 40, Out: &failing{1, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, 0}})
	cmd := exec.Command("/usr/bin/yes")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	cmd.Wait()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGPIPE {
		t.Errorf("the job ended with %v, want SIGPIPE", cmd.ProcessState)
	}
	if err := c.Wait(soon(t)); err != nil {
		t.Errorf("Wait: %v, want nil", err)
	}
}

func TestFailedOut(t *testing.T) {
	r, w := pipe(t)
	full := errors.New("disk full")
	out := &failing{1, full, 0}
	c := Start(r, Options{Cap: 1 << 40, Out: out})
	for range 100 {
		if _, err := w.Write(make([]byte, chunk)); err != nil {
			t.Fatalf("the job's write failed: %v", err)
		}
	}
	w.Close()
	if err := c.Wait(soon(t)); !errors.Is(err, full) {
		t.Errorf("Wait: %v, want %v", err, full)
	}
	if c.Total() != 100*chunk {
		t.Errorf("Total = %d, want %d", c.Total(), 100*chunk)
	}
	if out.calls != 2 {
		t.Errorf("Out was written %d times, want 2", out.calls)
	}
}

func TestWaitEnds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		setup func(t *testing.T, r, w *os.File) *Capture
	}{
		{"pipe held open", func(t *testing.T, r, w *os.File) *Capture {
			return Start(r, Options{Cap: 10})
		}},
		{"pipe held open, draining", func(t *testing.T, r, w *os.File) *Capture {
			c := Start(r, Options{Cap: 10})
			w.Write(make([]byte, 100))
			return c
		}},
		{"pipe in blocking mode", func(t *testing.T, r, w *os.File) *Capture {
			r.Fd()
			syscall.SetNonblock(int(r.Fd()), false)
			return Start(r, Options{Cap: 10})
		}},
		{"slow reader of Out", func(t *testing.T, r, w *os.File) *Capture {
			_, ow := pipe(t)
			c := Start(r, Options{Cap: 1 << 30, Out: ow})
			go w.Write(make([]byte, 1<<20))
			return c
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, w := pipe(t)
			c := tc.setup(t, r, w)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			if err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Wait: %v, want deadline exceeded", err)
			}
			if d := time.Since(start); d > need.Time(5*time.Second) {
				t.Errorf("Wait took %v", d)
			}
			c.Bytes()
		})
	}
}

func BenchmarkDrain(b *testing.B) {
	for _, bm := range []struct {
		name string
		o    Options
	}{
		{"past the cap", Options{Cap: 1 << 10}},
		{"tail", Options{Cap: 1 << 20, Keep: KeepTail}},
		{"raw", Options{Cap: 1 << 60, Out: io.Discard}},
		{"framed", Options{Cap: 1 << 60, Out: NewLines(io.Discard).Framer("stdout")}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			r, w := pipe(b)
			c := Start(r, bm.o)
			block := bytes.Repeat([]byte("0123456789abcde\n"), chunk/16)
			b.SetBytes(chunk)
			for b.Loop() {
				w.Write(block)
			}
			w.Close()
			c.Wait(b.Context())
		})
	}
}
