package ring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jailer-project/jailer/test/need"
)

// stream is n bytes of a stream from the offset on, no two stretches alike.
func stream(from int64, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		o := uint64(from) + uint64(i)
		out[i] = byte(o*2654435761>>13 ^ o)
	}
	return out
}

func write(t *testing.T, l *Log, p []byte) {
	t.Helper()
	if n, err := l.Write(p); n != len(p) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(p), err)
	}
}

func TestTail(t *testing.T) {
	l := New(10)
	if data, lost := l.Tail(-1); len(data) != 0 || lost != 0 {
		t.Errorf("empty: %q, %d lost", data, lost)
	}
	for _, s := range []string{"abc", "", "defgh", "ijkl", "0123456789ABCDEF", "x"} {
		write(t, l, []byte(s))
	}
	for n, want := range map[int64]string{-1: "789ABCDEFx", 100: "789ABCDEFx", 3: "EFx", 0: ""} {
		if data, lost := l.Tail(n); string(data) != want || lost != 19 {
			t.Errorf("the last %d: %q, %d lost", n, data, lost)
		}
	}
	if total, lost := l.Count(); total != 29 || lost != 19 {
		t.Errorf("%d, %d lost", total, lost)
	}
}

// Nothing kept is a log that only counts.
func TestNothingKept(t *testing.T) {
	for _, limit := range []int{0, -1} {
		l := New(limit)
		write(t, l, []byte("abc"))
		if data, lost := l.Tail(-1); len(data) != 0 || lost != 3 {
			t.Errorf("%q, %d lost", data, lost)
		}
		l.Close()
		if data, at, err := l.Next(t.Context(), 1); len(data) != 0 || at != 3 || err != io.EOF {
			t.Errorf("%q at %d, %v", data, at, err)
		}
	}
}

// What is given out is the reader's: neither it nor the writer can change the log.
func TestNothingShared(t *testing.T) {
	l := New(10)
	p := []byte("abc")
	write(t, l, p)
	p[0] = '!'
	tail, _ := l.Tail(-1)
	tail[1] = '!'
	next, _, _ := l.Next(t.Context(), 0)
	next[2] = '!'
	if data, _ := l.Tail(-1); string(data) != "abc" {
		t.Errorf("%q", data)
	}
}

func TestMemory(t *testing.T) {
	l := New(1 << 20)
	if len(l.buf) != 0 {
		t.Errorf("%d bytes for nothing", len(l.buf))
	}
	write(t, l, stream(0, 100))
	if len(l.buf) > 4<<10 {
		t.Errorf("%d bytes for 100", len(l.buf))
	}
	for i := range 1000 {
		write(t, l, stream(int64(100+i*10_000), 10_000))
		if size := len(l.buf); size > 1<<20 || l.total < 1<<20 && int64(size) > max(4<<10, 2*l.total) {
			t.Fatalf("%d bytes for %d", size, l.total)
		}
	}
	odd := New(5000) // no power of two, and reached by one write
	write(t, odd, stream(0, 20_000))
	if data, lost := odd.Tail(-1); len(odd.buf) != 5000 || lost != 15_000 || !bytes.Equal(data, stream(15_000, 5000)) {
		t.Errorf("%d bytes, %d lost", len(odd.buf), lost)
	}
}

// A gigabyte through a megabyte, with a follower that can't keep up and one that
// never reads.
func TestGigabyte(t *testing.T) {
	const limit, total = 1 << 20, 1 << 30
	l := New(limit)
	block := stream(0, 32<<10)
	var got, lost int64
	var follower sync.WaitGroup
	follower.Go(func() {
		for from := int64(0); ; {
			data, at, err := l.Next(context.Background(), from)
			got, lost = got+int64(len(data)), lost+at-from
			if err != nil {
				return
			}
			for i := range min(len(data), 64) {
				if data[i] != block[(at+int64(i))%int64(len(block))] {
					t.Errorf("wrong at %d", at+int64(i))
					return
				}
			}
			from = at + int64(len(data))
		}
	})
	begin := time.Now()
	for range total / len(block) {
		write(t, l, block)
	}
	took := time.Since(begin)
	l.Close()
	follower.Wait()
	t.Logf("1 GiB in %v; a follower got %d bytes and lost %d", took, got, lost)
	if took > need.Time(30*time.Second) {
		t.Errorf("took %v", took)
	}
	if got+lost != total {
		t.Errorf("%d got + %d lost", got, lost)
	}
	tail, gone := l.Tail(-1)
	if len(l.buf) != limit || len(tail) != limit || gone != total-limit || !bytes.Equal(tail, bytes.Repeat(block, limit/len(block))) {
		t.Errorf("kept %d in %d, %d lost", len(tail), len(l.buf), gone)
	}
}

func TestNext(t *testing.T) {
	l := New(8)
	write(t, l, []byte("abcdefghijkl"))
	for _, tc := range []struct {
		from, at int64
		want     string
	}{{0, 4, "efghijkl"}, {-5, 4, "efghijkl"}, {3, 4, "efghijkl"}, {4, 4, "efghijkl"}, {7, 7, "hijkl"}, {11, 11, "l"}} {
		if data, at, err := l.Next(t.Context(), tc.from); string(data) != tc.want || at != tc.at || err != nil {
			t.Errorf("from %d: %q at %d, %v", tc.from, data, at, err)
		}
	}
	l.Close()
	if data, _, err := l.Next(t.Context(), 10); string(data) != "kl" || err != nil {
		t.Errorf("after the end: %q, %v", data, err)
	}
	for _, from := range []int64{12, 100} {
		if data, at, err := l.Next(t.Context(), from); len(data) != 0 || at != from || err != io.EOF {
			t.Errorf("from %d at the end: %q at %d, %v", from, data, at, err)
		}
	}
}

// One Next gives little, however much is kept.
func TestNextIsBounded(t *testing.T) {
	l := New(1 << 20)
	write(t, l, stream(0, 1<<20))
	var from int64
	for from < 1<<20 {
		data, at, err := l.Next(t.Context(), from)
		if len(data) == 0 || len(data) > nextLimit || at != from || err != nil || !bytes.Equal(data, stream(from, len(data))) {
			t.Fatalf("%d bytes at %d, %v", len(data), at, err)
		}
		from += int64(len(data))
	}
}

func TestNextWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(100)
		type answer struct {
			data string
			at   int64
			err  error
		}
		ask := func(ctx context.Context, from int64) chan answer {
			ch := make(chan answer, 1)
			go func() {
				data, at, err := l.Next(ctx, from)
				ch <- answer{string(data), at, err}
			}()
			synctest.Wait()
			if len(ch) > 0 {
				t.Errorf("did not wait: %+v", <-ch)
			}
			return ch
		}
		ctx, cancel := context.WithCancel(t.Context())
		here, there, given := ask(t.Context(), 0), ask(t.Context(), 3), ask(ctx, 0)
		cancel()
		if a := <-given; !errors.Is(a.err, context.Canceled) {
			t.Errorf("cancelled: %+v", a)
		}
		if _, _, err := l.Next(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: %v", err)
		}
		write(t, l, []byte("abc"))
		if a := <-here; a != (answer{"abc", 0, nil}) {
			t.Errorf("%+v", a)
		}
		synctest.Wait()
		if len(there) > 0 {
			t.Errorf("woken for bytes before: %+v", <-there)
		}
		write(t, l, []byte("de"))
		if a := <-there; a != (answer{"de", 3, nil}) {
			t.Errorf("%+v", a)
		}
		last := ask(t.Context(), 5)
		l.Close()
		if a := <-last; a != (answer{"", 5, io.EOF}) {
			t.Errorf("%+v", a)
		}
	})
}

// Many write and many follow: each byte is got or counted as lost, by each.
func TestMany(t *testing.T) {
	l := New(4096)
	var writers, followers sync.WaitGroup
	const each, size, crowd = 200, 300, 4
	for range crowd {
		followers.Go(func() {
			var got, lost, from int64
			for {
				data, at, err := l.Next(t.Context(), from)
				got, lost = got+int64(len(data)), lost+at-from
				from = at + int64(len(data))
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
			if got+lost != crowd*each*size {
				t.Errorf("%d got + %d lost", got, lost)
			}
		})
		writers.Go(func() {
			for range each {
				write(t, l, make([]byte, size))
				l.Tail(10)
			}
		})
	}
	writers.Wait()
	l.Close()
	followers.Wait()
}

// FuzzLog compares with a log that forgets nothing.
func FuzzLog(f *testing.F) {
	f.Add(uint16(10), []byte{3, 0, 200, 7, 1})
	f.Add(uint16(0), []byte{1, 2})
	f.Add(uint16(5000), []byte{255, 255, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, limit uint16, sizes []byte) {
		l := New(int(limit))
		var all []byte
		for _, b := range sizes {
			p := stream(int64(len(all)), int(b)*int(b)/8)
			all = append(all, p...)
			write(t, l, p)
			kept := all[max(0, len(all)-int(limit)):]
			lost := int64(len(all) - len(kept))
			for _, n := range []int64{-1, 0, int64(b), int64(limit), 1 << 40} {
				want := kept
				if n >= 0 {
					want = kept[max(0, int64(len(kept))-n):]
				}
				if data, gone := l.Tail(n); !bytes.Equal(data, want) || gone != lost {
					t.Fatalf("the last %d of %d: %d bytes, %d lost, want %d and %d", n, len(all), len(data), gone, len(want), lost)
				}
			}
			if len(kept) == 0 {
				continue
			}
			for _, from := range []int64{0, lost, int64(len(all)) - 1} {
				data, at, err := l.Next(t.Context(), from)
				end := min(int64(len(all)), at+nextLimit)
				if err != nil || at != max(from, lost) || !bytes.Equal(data, all[at:end]) {
					t.Fatalf("from %d: %d bytes at %d, %v", from, len(data), at, err)
				}
			}
			if size := len(l.buf); size > int(limit) || size > max(firstSize, 2*len(all)) {
				t.Fatalf("%d bytes for %d", size, len(all))
			}
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{64, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l, p := New(1<<20), make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				l.Write(p)
			}
		})
	}
}
