package artifact

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/files"
)

// directories counts those below root.
func directories(t testing.TB, root string) int {
	t.Helper()
	n := -1
	err := filepath.WalkDir(root, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

func comment() entry {
	return entry{tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "c"}}, ""}
}

func itself() entry { return entry{tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, ""} }

// What a tar makes without naming it, and what it names without making it, is bounded
// like the rest.
func TestImportCountsAll(t *testing.T) {
	repeat := func(n int, one func(i int) entry) (l []entry) {
		for i := range n {
			l = append(l, one(i))
		}
		return l
	}
	deep := func(i int) entry { return file(strings.Repeat(fmt.Sprint("d", i, "/"), 99)+"f", "") }
	for name, c := range map[string]struct {
		list       []entry
		code, word string
	}{
		"directories above": {repeat(3, deep), files.TooLarge, "100 directories above"},
		"comments":          {repeat(200, func(int) entry { return comment() }), files.InvalidRequest, "more than 100"},
		"the root":          {repeat(200, func(int) entry { return itself() }), files.InvalidRequest, "more than 100"},
		"manifests":         {repeat(200, func(int) entry { return file(ManifestName, "{}") }), files.InvalidRequest, "more than 100"},
		"large manifest":    {[]entry{file(ManifestName, strings.Repeat("x", 8<<20))}, files.TooLarge, "manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			d, root, _ := open(t)
			_, err := Import(soon(t), d, bytes.NewReader(packed(t, c.list...)), Limits{MaxFiles: 100})
			coded(t, err, c.code, c.word)
			if n := directories(t, root); n > 100 {
				t.Errorf("%d directories made", n)
			}
		})
	}
	// What is there above is counted once, and not when it was named.
	d, _, _ := open(t)
	list := []entry{{tar.Header{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o755}, ""}, file("a/b/1", ""), file("a/b/2", ""), file("a/b/3", ""), comment(), itself(), file(ManifestName, "{}")}
	if _, err := Import(soon(t), d, bytes.NewReader(packed(t, list...)), Limits{MaxFiles: 4}); err != nil {
		t.Error(err)
	}
}

// A tar that is cut off where its content looks like its end.
func TestImportCutInZeros(t *testing.T) {
	for _, size := range []int{512, 1024, 1 << 16, 1<<16 + 1} {
		whole := packed(t, file("z", strings.Repeat("\x00", size)))
		for cut := 512; cut <= 1024; cut += 512 {
			d, _, _ := open(t)
			_, err := Import(soon(t), d, bytes.NewReader(whole[:len(whole)-cut]), Limits{})
			coded(t, err, files.InvalidRequest, "cut off")
		}
		for _, list := range [][]entry{{file("z", strings.Repeat("\x00", size))}, {file(ManifestName, strings.Repeat("\x00", size))}, {comment(), itself()}, {}} {
			d, _, _ := open(t)
			if _, err := Import(soon(t), d, bytes.NewReader(packed(t, list...)), Limits{}); err != nil {
				t.Errorf("%d: %v", size, err)
			}
		}
	}
}

// Headers that promise more than anybody wants are not read into memory, and an end of
// the caller's patience ends what is skipped.
func TestImportLargeHeaders(t *testing.T) {
	header := func(kind byte, name string) []byte {
		h := make([]byte, 512)
		copy(h, name)
		copy(h[100:], "0000644\x00")
		copy(h[124:], "10000000000\x00") // 1 GiB
		copy(h[148:], "        ")
		h[156] = kind
		copy(h[257:], "ustar\x0000")
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
		return h
	}
	for _, kind := range []byte("xgLK") {
		d, _, _ := open(t)
		in := &counter{r: io.MultiReader(bytes.NewReader(header(kind, "h")), io.LimitReader(zeros{}, 1<<30))}
		_, err := Import(soon(t), d, in, Limits{})
		coded(t, err, files.InvalidRequest, "damaged")
		if in.n > 2<<20 {
			t.Errorf("%c: %d bytes read", kind, in.n)
		}
	}
	d, _, _ := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	in := &counter{r: io.MultiReader(bytes.NewReader(header('0', ManifestName)), zeros{}), at: 1 << 20, then: cancel}
	if _, err := Import(ctx, d, in, Limits{MaxFiles: 1 << 20}); !errors.Is(err, context.Canceled) || in.n > 4<<20 {
		t.Errorf("%d bytes read, %v", in.n, err)
	}
}

// A counter counts what is read, and calls then when that is past at.
type counter struct {
	r     io.Reader
	n, at int64
	then  func()
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	if c.then != nil && c.n > c.at {
		c.then()
	}
	return n, err
}

// A word that is none of OnProtected's is not taken for the weaker one.
func TestOnProtectedUnknown(t *testing.T) {
	d, root, _ := open(t)
	write(t, filepath.Join(root, ".envrc"), "x")
	l := Limits{Protected: []string{".envrc"}, OnProtected: "refues"}
	var out bytes.Buffer
	_, err := Export(soon(t), d, &out, []string{"."}, l)
	coded(t, err, files.InvalidRequest, "refues")
	if out.Len() > 0 {
		t.Error("a tar was begun")
	}
	_, err = Import(soon(t), d, bytes.NewReader(packed(t, file("b", "x"))), l)
	coded(t, err, files.InvalidRequest, "refues")
}

// A job that puts the time of a file back after it wrote to it is seen all the same.
func TestExportTimePutBack(t *testing.T) {
	d, root, _ := open(t)
	p := filepath.Join(root, "f")
	write(t, p, strings.Repeat("a", 1<<20))
	var st unix.Stat_t
	if err := unix.Stat(p, &st); err != nil {
		t.Fatal(err)
	}
	done := false
	m, err := Export(soon(t), d, writer(func() {
		if done {
			return
		}
		done = true
		for { // until the clock of the file system, which ticks with the kernel's, has gone on
			write(t, p, strings.Repeat("b", 1<<20))
			if err := unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{st.Atim, st.Mtim}, 0); err != nil {
				t.Error(err)
				return
			}
			var now unix.Stat_t
			if err := unix.Stat(p, &now); err != nil || now.Ctim != st.Ctim {
				return
			}
		}
	}), []string{"f"}, Limits{})
	if err != nil || len(m.Files) != 1 || !m.Files[0].Changed {
		t.Errorf("%+v %v", m, err)
	}
}

type writer func()

func (w writer) Write(b []byte) (int, error) {
	w()
	return len(b), nil
}

// A walk looks at what can match and at nothing beside it, up to its bounds.
func TestWalkBounds(t *testing.T) {
	d, root, canary := open(t)
	write(t, filepath.Join(root, "out/r/x"), "x")
	write(t, filepath.Join(root, "out/s"), "x")
	for i := range 300 {
		if err := os.Symlink(canary, filepath.Join(root, fmt.Sprint("l", i))); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Limits{}.filled(exportOp)
	if err != nil {
		t.Fatal(err)
	}
	find := func(visited int, names ...string) (*walk, error) {
		w := &walk{dir: d, limits: l, names: names, matched: make([]bool, len(names)), manifest: &Manifest{}, visited: visited}
		for _, s := range names {
			g, err := parseGlob(s)
			if err != nil {
				t.Fatal(err)
			}
			w.globs = append(w.globs, g)
		}
		return w, w.find(t.Context())
	}
	for _, c := range []struct {
		names   []string
		found   int
		visited int
	}{
		{[]string{"out/r"}, 2, 3}, // out, out/r and what is in that
		{[]string{"out/r", "out/s", "out/r/x"}, 3, 4},
		{[]string{"out/*"}, 3, 4},
		{[]string{"./out//r"}, 2, 3},
		{[]string{"**/r"}, 2, 304},
	} {
		w, err := find(0, c.names...)
		if err != nil || len(w.out) != c.found || w.visited != c.visited {
			t.Errorf("%q: %d found, %d looked at, %v", c.names, len(w.out), w.visited, err)
		}
	}
	_, err = find(0, "out/r", "out/none")
	coded(t, err, files.NotFound, "out/none")
	_, err = find(0, "out/s/x")
	coded(t, err, files.NotFound, "out/s/x")
	_, err = find(maxVisited-100, "l*")
	coded(t, err, files.TooLarge, "narrower")

	if w, err := find(0, "l*"); err != nil || len(w.manifest.Skipped) != maxSkipped || w.manifest.SkippedMore != 300-maxSkipped {
		t.Errorf("%d and %d skipped, %v", len(w.manifest.Skipped), w.manifest.SkippedMore, err)
	}
	write(t, filepath.Join(root, "deep", strings.Repeat("d/", maxDepth+5), "f"), "x")
	m, err := Export(soon(t), d, io.Discard, []string{"deep"}, Limits{})
	if err != nil || len(m.Files) != 0 || m.Directories != maxDepth || len(m.Skipped) != 1 || !strings.Contains(m.Skipped[0].Reason, "deeper") {
		t.Errorf("%d directories, %+v %v", m.Directories, m.Skipped, err)
	}
}
