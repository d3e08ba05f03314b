package files

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// pages reads a file to its end, and checks each page by itself.
func pages(t testing.TB, d *Dir, p string, o PageOptions) []Page {
	t.Helper()
	var all []Page
	for {
		g, err := d.Page(soon(t), p, o)
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Data) > o.Bytes || bytes.Count(g.Data, []byte{'\n'}) > o.Lines || len(g.Data) == 0 && g.Cursor != "" {
			t.Fatalf("%d bytes, cursor %q", len(g.Data), g.Cursor)
		}
		if len(all) > 0 && g.Inside != all[len(all)-1].Open {
			t.Fatalf("inside %v after %v", g.Inside, all[len(all)-1].Open)
		}
		all = append(all, g)
		if g.Cursor == "" {
			return all
		}
		if len(all) > 1<<20 {
			t.Fatal("no end")
		}
		o.Cursor, o.Line = g.Cursor, 0
	}
}

// The pages of any file are the file, whole lines where they fit and whole characters.
func TestPages(t *testing.T) {
	d, root, _ := open(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range need.Times(300) {
		var b strings.Builder
		for range rnd.IntN(60) {
			switch rnd.IntN(6) {
			case 0:
				b.WriteString(strings.Repeat("ä€😀", rnd.IntN(20)))
			case 1:
				b.WriteString(strings.Repeat("x", rnd.IntN(80)))
			case 2:
				if n%3 == 0 {
					b.Write([]byte{0xff, 0x80, 0xe2, 0x82})
				}
			default:
				b.WriteByte('\n')
			}
		}
		text := b.String()
		write(t, filepath.Join(root, "f"), text)
		o := PageOptions{Lines: 1 + rnd.IntN(5), Bytes: 16 + rnd.IntN(40)}
		var got strings.Builder
		line := int64(1)
		all := pages(t, d, "f", o)
		for i, g := range all {
			if g.Line != line || g.Changed {
				t.Fatalf("page %d begins in line %d, want %d", i, g.Line, line)
			}
			line += int64(bytes.Count(g.Data, []byte{'\n'}))
			if utf8.ValidString(text) && !utf8.Valid(g.Data) {
				t.Fatalf("a character is cut: %q", g.Data)
			}
			// It ends in a line only where that is longer than a page.
			if g.Open && bytes.Contains(g.Data, []byte{'\n'}) {
				t.Fatalf("a line is cut that could be whole: %q", g.Data)
			}
			got.Write(g.Data)
		}
		if got.String() != text {
			t.Fatalf("%q, want %q", got.String(), text)
		}
		if lines := strings.SplitAfter(text, "\n"); len(lines) > 2 {
			k := 1 + rnd.IntN(len(lines)-1)
			g, err := d.Page(soon(t), "f", PageOptions{Line: int64(k), Lines: 1, Bytes: MaxPageBytes})
			if err != nil || string(g.Data) != lines[k-1] || g.Line != int64(k) {
				t.Fatalf("line %d: %q, want %q: %v", k, g.Data, lines[k-1], err)
			}
		}
	}
}

func TestPageRefuses(t *testing.T) {
	d, root, _ := open(t)
	write(t, filepath.Join(root, "f"), "a\nb\n")
	c := cursor{line: 1}
	for _, o := range []PageOptions{
		{Line: -1},
		{Lines: -1},
		{Bytes: 15},
		{Bytes: MaxPageBytes + 1},
		{Cursor: "x"},
		{Cursor: "p1."},
		{Cursor: c.String(), Line: 2},
		{Cursor: cursor{line: 0}.String()},
		{Cursor: cursor{line: 1, offset: -1}.String()},
		{Cursor: c.String() + "A"},
	} {
		_, err := d.Page(soon(t), "f", o)
		coded(t, err, InvalidRequest)
	}
	// Beyond the end is the end.
	for _, o := range []PageOptions{{Line: 3}, {Line: 4}, {Line: 1 << 40}, {Cursor: cursor{line: 9, offset: 1 << 50}.String()}} {
		if g, err := d.Page(soon(t), "f", o); err != nil || len(g.Data) != 0 || g.Cursor != "" {
			t.Errorf("%+v: %+v %v", o, g, err)
		}
	}
}

func TestPageChanged(t *testing.T) {
	d, root, _ := open(t)
	p := filepath.Join(root, "f")
	for name, change := range map[string]func(){
		"longer":  func() { write(t, p, strings.Repeat("line\n", 20)) },
		"shorter": func() { write(t, p, "l") },
		"another": func() {
			write(t, p+"2", strings.Repeat("line\n", 10))
			if err := os.Rename(p+"2", p); err != nil {
				t.Fatal(err)
			}
		},
		"touched": func() {
			if err := os.Chtimes(p, time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		},
		"put back": func() {
			st, err := os.Stat(p)
			write(t, p, strings.Repeat("LINE\n", 10))
			if err := errors.Join(err, os.Chtimes(p, st.ModTime(), st.ModTime())); err != nil {
				t.Fatal(err)
			}
		},
	} {
		write(t, p, strings.Repeat("line\n", 10))
		g, err := d.Page(soon(t), "f", PageOptions{Lines: 1})
		if err != nil {
			t.Fatal(err)
		}
		if next, err := d.Page(soon(t), "f", PageOptions{Cursor: g.Cursor}); err != nil || next.Changed {
			t.Errorf("before %s: %+v %v", name, next, err)
		}
		time.Sleep(20 * time.Millisecond) // stamps are those of the last tick
		change()
		if next, err := d.Page(soon(t), "f", PageOptions{Cursor: g.Cursor}); err != nil || !next.Changed {
			t.Errorf("%s: %+v %v", name, next, err)
		}
	}
}

// A hole is passed over, whatever its size.
func TestPageHole(t *testing.T) {
	d, root, _ := open(t)
	const size = 8 << 40 // what ext4 takes
	write(t, filepath.Join(root, "f"), "one\n")
	f, err := os.OpenFile(filepath.Join(root, "f"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("\nthree\n"), size); err != nil {
		t.Fatal(err)
	}
	if g, err := d.Page(soon(t), "f", PageOptions{Line: 3}); err != nil || string(g.Data) != "three\n" {
		t.Errorf("%.100q %v", g.Data, err)
	}
	if g, err := d.Page(soon(t), "f", PageOptions{Line: 5}); err != nil || len(g.Data) != 0 || g.Cursor != "" {
		t.Errorf("%.100q %v", g.Data, err)
	}
	if err := f.Truncate(2 * size); err != nil && !errors.Is(err, unix.EFBIG) {
		t.Fatal(err)
	}
	if g, err := d.Page(soon(t), "f", PageOptions{Line: 5}); err != nil || len(g.Data) != 0 || g.Cursor != "" {
		t.Errorf("%.100q %v", g.Data, err)
	}
}

// A page of the far end of a large file takes the memory of a page.
func TestPageMemory(t *testing.T) {
	d, root, _ := open(t)
	f, err := os.OpenFile(filepath.Join(root, "f"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	block := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16) // 1 MiB
	size := need.Times(256)
	for range size {
		if _, err := f.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	lines := int64(size) << 16
	allocated := testing.AllocsPerRun(1, func() {
		g, err := d.Page(soon(t), "f", PageOptions{Line: lines - 1})
		if err != nil || len(g.Data) != 32 || g.Line != lines-1 {
			t.Errorf("%+v %v", g, err)
		}
	})
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = d.Page(b.Context(), "f", PageOptions{Line: 100})
		}
	})
	if per := r.AllocedBytesPerOp(); per > 1<<20 {
		t.Errorf("%d bytes a page", per)
	}
	if allocated > 1000 {
		t.Errorf("%v allocations to come to line %d", allocated, lines-1)
	}
}

// FuzzPageCursor: whatever comes, a cursor is refused or leads to a place in the same
// file.
func FuzzPageCursor(f *testing.F) {
	d, root, _ := open(f)
	text := strings.Repeat("line ä\n", 50)
	write(f, filepath.Join(root, "f"), text)
	for _, c := range []cursor{{line: 1}, {line: 3, offset: 17, inside: true}, {line: 1, offset: 1 << 62}, {line: 1, offset: 1<<63 - 1}} {
		f.Add(c.String())
	}
	f.Add("")
	f.Add("p1.AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		g, err := d.Page(t.Context(), "f", PageOptions{Cursor: s})
		var e *Error
		if err != nil {
			if !errors.As(err, &e) || e.Code != InvalidRequest {
				t.Error(err)
			}
			return
		}
		if !strings.HasSuffix(text, string(g.Data)) {
			t.Errorf("%q", g.Data)
		}
		if c, err := parsePageCursor(s); err == nil && s != "" && c.String() != s {
			t.Errorf("%q is another spelling of %q", s, c)
		}
	})
}

// FuzzListCursor: a cursor is refused, or what comes after it is listed.
func FuzzListCursor(f *testing.F) {
	d, root, _ := open(f)
	for i := range 20 {
		write(f, filepath.Join(root, fmt.Sprint("n", i)), "")
	}
	f.Add("")
	f.Add(listCursor("n1"))
	f.Add(listCursor("../../etc"))
	f.Add(listCursor("\x00/"))
	f.Fuzz(func(t *testing.T, s string) {
		l, err := d.List(t.Context(), "", s, 5)
		if err != nil {
			coded(t, err, InvalidRequest)
			return
		}
		after, _ := parseListCursor(s)
		for _, i := range l.Entries {
			if i.Name <= after || !strings.HasPrefix(i.Name, "n") {
				t.Errorf("%q after %q", i.Name, after)
			}
		}
	})
}

// FuzzResolve: no path, whatever it is, leads to anything but what is beneath the root.
func FuzzResolve(f *testing.F) {
	d, root, canary := open(f)
	write(f, filepath.Join(root, "f"), "mine\n")
	for _, err := range []error{
		os.Mkdir(filepath.Join(root, "d"), 0o755), os.Symlink(canary, filepath.Join(root, "abs")), os.Symlink("../../canary", filepath.Join(root, "d", "up")),
		os.Symlink("..", filepath.Join(root, "d", "back")), os.Symlink("/proc/self/root", filepath.Join(root, "p")),
	} {
		if err != nil {
			f.Fatal(err)
		}
	}
	for _, p := range []string{"f", "d/back/f", "abs/secret", "d/up/secret", "p/etc/passwd", "../canary/secret", "d//./back/f", "", "\x00", "d/back/d/up/sub"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		for verb, do := range verbs {
			if verb != "stat" && verb != "ls" && verb != "cat" && verb != "page" {
				continue
			}
			got, err := do(d, t.Context(), p)
			if leaks(got) || strings.Contains(got, "root:") {
				t.Fatalf("%s %q: %q", verb, p, got)
			}
			if err == nil && verb == "cat" && got != "mine\n" {
				t.Fatalf("%q: %q", p, got)
			}
			var e *Error
			if err != nil && (!errors.As(err, &e) || e.Code == Internal) {
				t.Errorf("%s %q: %v", verb, p, err)
			}
		}
	})
}
