package stream

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/jailer-project/jailer/test/need"
)

func TestText(t *testing.T) {
	for _, tc := range []struct{ in, text, enc string }{
		{"", "", "utf-8"},
		{"é\x00\n", "é\x00\n", "utf-8"},
		{"\xff", "/w==", "base64"},
		{"é\xc3", "w6nD", "base64"},
	} {
		if text, enc := Text([]byte(tc.in)); text != tc.text || enc != tc.enc {
			t.Errorf("Text(%q) = %q, %q; want %q, %q", tc.in, text, enc, tc.text, tc.enc)
		}
	}
}

const nasty = "a\"b\\c\n\r\t\x00\x1b]52;c;eA==\a\x7f\u0085\u009b2J\u2028\u2029\u202e\u200b\ufeff é€😀\ufffd \U000e0001</script>"

func TestEscape(t *testing.T) {
	got := AppendString(nil, nasty)
	var back string
	if err := json.Unmarshal(got, &back); err != nil || back != nasty {
		t.Fatalf("%s\ndecodes to %q, %v", got, back, err)
	}
	safe(t, got)
	if !bytes.Contains(got, []byte("é€😀")) {
		t.Errorf("printable text was escaped: %s", got)
	}

	doc, err := json.Marshal(map[string]string{"k\u009b": nasty})
	if err != nil {
		t.Fatal(err)
	}
	esc := EscapeJSON(doc)
	safe(t, esc)
	var m map[string]string
	if err := json.Unmarshal(esc, &m); err != nil || m["k\u009b"] != nasty {
		t.Errorf("%s\ndecodes to %q, %v", esc, m, err)
	}
	if doc := []byte(`{"a":"\n"}`); !bytes.Equal(EscapeJSON(doc), doc) {
		t.Errorf("EscapeJSON changed %s", doc)
	}
	if got := string(AppendString(nil, "a\xffb")); got != `"a\ufffdb"` {
		t.Errorf("invalid UTF-8: %s", got)
	}
}

func TestWriteString(t *testing.T) {
	for _, unit := range []string{"x", "\x00", "é", "€", "😀", nasty} {
		for _, n := range []int{0, 1, 16<<10 - 1, 16 << 10, 16<<10 + 1, 100_000} {
			for shift := range 4 {
				s := strings.Repeat("a", shift) + strings.Repeat(unit, n/len(unit)+1)
				var b bytes.Buffer
				if err := WriteString(&b, s); err != nil || !bytes.Equal(b.Bytes(), AppendString(nil, s)) {
					t.Fatalf("%d × %q, shifted by %d: differs from AppendString, %v", n/len(unit)+1, unit, shift, err)
				}
			}
		}
	}
}

func safe(t *testing.T, line []byte) {
	t.Helper()
	for _, r := range string(line) {
		if r == '\n' || r != ' ' && !unicode.IsPrint(r) {
			t.Errorf("%U stands bare in %q", r, line)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add(nasty)
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		got := AppendString(nil, s)
		if err := json.Unmarshal(got, &back); err != nil || back != strings.ToValidUTF8(back, "") {
			t.Fatalf("%q -> %s: %v", s, got, err)
		}
		if want, _ := json.Marshal(s); true {
			var w string
			if json.Unmarshal(want, &w); w != back {
				t.Fatalf("%q means %q, encoding/json says %q", s, back, w)
			}
		}
		safe(t, got)
	})
}

// unframe checks every line and returns what each stream carried.
func unframe(t *testing.T, out []byte) map[string]string {
	t.Helper()
	got := map[string]string{}
	var seq int64
	for line := range bytes.Lines(out) {
		var l struct {
			V                            int
			Seq                          int64
			Type, Stream, Data, Encoding string
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		safe(t, bytes.TrimSuffix(line, []byte("\n")))
		if seq++; l.V != 1 || l.Type != "output" || l.Seq != seq {
			t.Fatalf("line %d: %q", seq, line)
		}
		if l.Encoding == "base64" {
			b, err := base64.StdEncoding.DecodeString(l.Data)
			if err != nil {
				t.Fatal(err)
			}
			l.Data = string(b)
		}
		got[l.Stream] += l.Data
	}
	return got
}

// A job prints what looks like the launcher's own line: it stays data.
func TestForgedLine(t *testing.T) {
	var out bytes.Buffer
	forged := "x\n{\"v\":1,\"type\":\"result\",\"status\":\"exited\"}\n\u2028{\"v\":1}\n"
	f := NewLines(&out).Framer("stdout")
	io.WriteString(f, forged)
	f.Flush()
	if got := unframe(t, out.Bytes()); got["stdout"] != forged || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
		t.Errorf("%s", out.Bytes())
	}
}

func TestFramerJoins(t *testing.T) {
	in := "é€😀\xff" + nasty + "\xe2\x82"
	for n := 1; n < 7; n++ {
		var out bytes.Buffer
		f := NewLines(&out).Framer("stdout")
		for b := []byte(in); len(b) > 0; {
			k := min(n, len(b))
			if m, err := f.Write(b[:k]); m != k || err != nil {
				t.Fatal(m, err)
			}
			b = b[k:]
		}
		f.Flush()
		if got := unframe(t, out.Bytes())["stdout"]; got != in {
			t.Errorf("pieces of %d: %q, want %q", n, got, in)
		}
		// Only the byte that is no UTF-8 and the half character are base64.
		if got := bytes.Count(out.Bytes(), []byte("base64")); got != 2 {
			t.Errorf("pieces of %d: %d lines in base64, want 2", n, got)
		}
	}
}

func TestFramersShare(t *testing.T) {
	or, ow := pipe(t)
	l := NewLines(ow)
	var all bytes.Buffer
	read := make(chan struct{})
	go func() { io.Copy(&all, or); close(read) }()
	var wg sync.WaitGroup
	want := strings.Repeat("zażółć\n", 5000)
	for _, name := range []string{"stdout", "stderr"} {
		wg.Go(func() {
			r, w := pipe(t)
			c := Start(r, Options{Cap: 1 << 20, Out: l.Framer(name)})
			io.WriteString(w, want)
			w.Close()
			if err := c.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ow.Close()
	<-read
	got := unframe(t, all.Bytes())
	if got["stdout"] != want || got["stderr"] != want {
		t.Errorf("lengths %d and %d, want %d", len(got["stdout"]), len(got["stderr"]), len(want))
	}
}

// The end of a framed stream flushes the framer.
func TestFramerFlushed(t *testing.T) {
	var out bytes.Buffer
	through(t, []byte("a\xe2"), 10, Options{Cap: 10, Out: NewLines(&out).Framer("stderr")})
	if got := unframe(t, out.Bytes())["stderr"]; got != "a\xe2" {
		t.Errorf("got %q", got)
	}
}

func TestLinesErrorSticks(t *testing.T) {
	full := errors.New("full")
	l := NewLines(&failing{0, full, 0})
	f := l.Framer("stdout")
	for range 2 {
		if _, err := f.Write([]byte("x")); !errors.Is(err, full) {
			t.Errorf("Write: %v", err)
		}
	}
}

func TestFeed(t *testing.T) {
	t.Run("end of source", func(t *testing.T) {
		r, w := pipe(t)
		Feed(t.Context(), strings.NewReader("abc"), w)
		if b, err := io.ReadAll(r); string(b) != "abc" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
	t.Run("larger than the pipe", func(t *testing.T) {
		r, w := pipe(t)
		Feed(t.Context(), io.LimitReader(zero{}, 3<<20), w)
		if n, err := io.Copy(io.Discard, r); n != 3<<20 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("job does not read", func(t *testing.T) {
		r, w := pipe(t)
		r.Close()
		src := &counting{again: make(chan struct{}, 1)}
		Feed(t.Context(), src, w)
		select {
		case <-src.again:
			t.Error("the source was read again after EPIPE")
		case <-time.After(100 * time.Millisecond):
		}
		if err := w.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("the caller's copy is still open: %v", err)
		}
	})
	t.Run("context ends while the source is silent", func(t *testing.T) {
		r, w := pipe(t)
		src, _ := pipe(t)
		ctx, cancel := context.WithCancel(t.Context())
		Feed(ctx, src, w)
		cancel()
		r.SetReadDeadline(time.Now().Add(need.Time(20 * time.Second)))
		if _, err := r.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("job's stdin: %v, want EOF", err)
		}
	})
	t.Run("context ends while the job does not read", func(t *testing.T) {
		r, w := pipe(t)
		ctx, cancel := context.WithCancel(t.Context())
		Feed(ctx, zero{}, w)
		time.Sleep(20 * time.Millisecond)
		cancel()
		r.SetReadDeadline(time.Now().Add(need.Time(20 * time.Second)))
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Errorf("job's stdin: %v, want EOF", err)
		}
	})
}

// counting tells when it is read a second time.
type counting struct {
	n     int
	again chan struct{}
}

func (c *counting) Read(b []byte) (int, error) {
	if c.n++; c.n == 2 {
		c.again <- struct{}{}
		return 0, io.EOF
	}
	return len(b), nil
}

type zero struct{}

func (zero) Read(b []byte) (int, error) { return len(b), nil }
