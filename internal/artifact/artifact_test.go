package artifact

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/test/need"
)

func open(t testing.TB) (d *files.Dir, root, canary string) {
	t.Helper()
	base := t.TempDir()
	root, canary = filepath.Join(base, "root"), filepath.Join(base, "canary")
	for _, err := range []error{os.Mkdir(root, 0o755), os.Mkdir(canary, 0o755), os.WriteFile(filepath.Join(canary, "secret"), []byte("SECRET"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	d = files.New(os.NewFile(uintptr(fd), "root"))
	t.Cleanup(func() { d.Close() })
	return d, root, canary
}

func untouched(t testing.TB, canary string) {
	t.Helper()
	var all []string
	err := filepath.WalkDir(canary, func(p string, _ fs.DirEntry, err error) error {
		all = append(all, filepath.Base(p))
		return err
	})
	b, rerr := os.ReadFile(filepath.Join(canary, "secret"))
	if err != nil || rerr != nil || string(b) != "SECRET" || !slices.Equal(all, []string{"canary", "secret"}) {
		t.Errorf("canary: %v %q %v %v", all, b, err, rerr)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), need.Time(30*time.Second))
	t.Cleanup(cancel)
	return ctx
}

func coded(t testing.TB, err error, code, word string) {
	t.Helper()
	var e *files.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(err.Error(), word) {
		t.Errorf("%v, want %s with %q", err, code, word)
	}
}

// members reads a tar.
func members(t testing.TB, b []byte) (names []string, content map[string]string, headers map[string]*tar.Header) {
	t.Helper()
	content, headers = map[string]string{}, map[string]*tar.Header{}
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, content, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		content[h.Name], headers[h.Name] = string(data), h
	}
}

// An export has what the globs match and nothing else, the same bytes each time, and a
// manifest that is true.
func TestExport(t *testing.T) {
	d, root, canary := open(t)
	write(t, filepath.Join(root, "out/a.txt"), "alpha")
	write(t, filepath.Join(root, "out/sub/b.txt"), "beta")
	write(t, filepath.Join(root, "out/sub/\xff\xfe"), "bytes")
	write(t, filepath.Join(root, "out/.envrc"), "evil")
	write(t, filepath.Join(root, "other/c.txt"), "gamma")
	write(t, filepath.Join(root, ManifestName), "forged")
	l, err := net.Listen("unix", filepath.Join(root, "out/socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, err := range []error{
		os.Symlink(filepath.Join(canary, "secret"), filepath.Join(root, "out/link")), os.Symlink(canary, filepath.Join(root, "out/dir")),
		unix.Mkfifo(filepath.Join(root, "out/fifo"), 0o644), os.Chmod(filepath.Join(root, "out/a.txt"), 0o777|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky),
		os.Link(filepath.Join(root, "out/a.txt"), filepath.Join(root, "out/same")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	o := Limits{Protected: []string{".envrc"}}
	var one, two bytes.Buffer
	m, err := Export(soon(t), d, &one, []string{"out", "**/c.txt", ManifestName, "."}, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Export(soon(t), d, &two, []string{".", "**/c.txt", "out", ManifestName}, o); err != nil || !bytes.Equal(one.Bytes(), two.Bytes()) {
		t.Errorf("two tars of one tree differ: %v", err)
	}
	names, content, headers := members(t, one.Bytes())
	want := []string{"other/", "other/c.txt", "out/", "out/.envrc", "out/a.txt", "out/same", "out/sub/", "out/sub/b.txt", "out/sub/\xff\xfe", ManifestName}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	for n, h := range headers {
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.Mode&^0o755 != 0 || h.Linkname != "" || h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
			t.Errorf("%q: %+v", n, h)
		}
		for k := range h.PAXRecords {
			if k != "path" {
				t.Errorf("%q has a record %s", n, k)
			}
		}
	}
	var told Manifest
	if err := json.Unmarshal([]byte(content[ManifestName]), &told); err != nil {
		t.Fatal(err)
	}
	for _, m := range []Manifest{m, told} {
		if len(m.Files) != 6 || m.Directories != 3 || m.Bytes != int64(len("alphaalphabetabytesevilgamma")) || len(m.Skipped) != 5 {
			t.Errorf("%+v", m)
		}
		for _, f := range m.Files {
			sum := sha256.Sum256([]byte(content[f.Path]))
			if f.SHA256 != hex.EncodeToString(sum[:]) || f.Bytes != int64(len(content[f.Path])) || f.Changed || f.Protected != (f.Path == "out/.envrc") ||
				(f.Links == 2) != (f.Path == "out/a.txt" || f.Path == "out/same") {
				t.Errorf("%+v", f)
			}
		}
	}
	if strings.Contains(one.String(), "SECRET") {
		t.Error("the canary is in the tar")
	}
	// And back, in another place.
	e, back, _ := open(t)
	got, err := Import(soon(t), e, &one, o)
	if err != nil || len(got.Files) != 6 || got.Directories != 3 || !got.Files[1].Protected {
		t.Fatalf("%+v %v", got, err)
	}
	for _, f := range m.Files {
		if b, err := os.ReadFile(filepath.Join(back, f.Path)); err != nil || string(b) != content[f.Path] {
			t.Errorf("%q: %q %v", f.Path, b, err)
		}
	}
	untouched(t, canary)
}

func TestExportRefuses(t *testing.T) {
	d, root, _ := open(t)
	write(t, filepath.Join(root, "d/f"), "12345")
	write(t, filepath.Join(root, "d/.ENVRC"), "x")
	write(t, filepath.Join(root, "big/sparse"), "")
	if err := os.Truncate(filepath.Join(root, "big/sparse"), 1<<40); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		globs      []string
		l          Limits
		code, word string
	}{
		{nil, Limits{}, files.InvalidRequest, "no glob"},
		{[]string{"../x"}, Limits{}, files.InvalidPath, `".."`},
		{[]string{"/etc"}, Limits{}, files.InvalidPath, "absolute"},
		{[]string{"["}, Limits{}, files.InvalidPath, "["},
		{[]string{"d", "none"}, Limits{}, files.NotFound, `"none"`},
		{[]string{"d/f/x"}, Limits{}, files.NotFound, "d/f/x"},
		{[]string{"big"}, Limits{}, files.TooLarge, "big/sparse"},
		{[]string{"d"}, Limits{MaxFileBytes: 4}, files.TooLarge, "d/f"},
		{[]string{"d"}, Limits{MaxBytes: 5}, files.TooLarge, "more than the 5 bytes"},
		{[]string{"d"}, Limits{MaxFiles: 2}, files.TooLarge, "more than 2"},
		{[]string{"d"}, Limits{Protected: []string{".envrc"}, OnProtected: Refuse}, files.PolicyDenied, "protected"},
	} {
		var out bytes.Buffer
		began := time.Now()
		_, err := Export(soon(t), d, &out, c.globs, c.l)
		coded(t, err, c.code, c.word)
		if out.Len() > 0 || time.Since(began) > need.Time(time.Second) {
			t.Errorf("%q: %d bytes written, after %v", c.globs, out.Len(), time.Since(began))
		}
	}
	if _, err := Export(soon(t), d, io.Discard, []string{"d/f"}, Limits{MaxFileBytes: 5, MaxBytes: 5, MaxFiles: 1}); err != nil {
		t.Error(err)
	}
}

// Very many files end an export soon.
func TestExportMany(t *testing.T) {
	d, root, _ := open(t)
	for i := range need.Times(50_000) {
		f, err := os.OpenFile(filepath.Join(root, fmt.Sprint("f", i)), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	began := time.Now()
	_, err := Export(soon(t), d, io.Discard, []string{"f*"}, Limits{MaxFiles: 1000})
	coded(t, err, files.TooLarge, "1000")
	if took := time.Since(began); took > need.Time(2*time.Second) {
		t.Errorf("after %v", took)
	}
	if m, err := Export(soon(t), d, io.Discard, []string{"f7"}, Limits{}); err != nil || len(m.Files) != 1 {
		t.Errorf("%+v %v", m, err)
	}
}

// Files that shrink, grow and go while they are read: a tar that can be read, and a
// manifest that says so.
func TestExportWhileWritten(t *testing.T) {
	d, root, canary := open(t)
	names := []string{"a", "b", "c", "d/e"}
	for _, n := range names {
		write(t, filepath.Join(root, n), strings.Repeat("x", 200_000))
	}
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			p := filepath.Join(root, names[i%4])
			switch i % 7 {
			case 0:
				_ = os.Truncate(p, int64(i%5)*50_000)
			case 1:
				_ = os.Remove(p)
			case 2:
				_ = os.Remove(p)
				_ = os.Symlink(filepath.Join(canary, "secret"), p)
			case 3:
				_ = os.Rename(filepath.Join(root, "d"), filepath.Join(root, "d2"))
				_ = os.Symlink(canary, filepath.Join(root, "d"))
			case 4:
				_ = os.Remove(filepath.Join(root, "d"))
				_ = os.Rename(filepath.Join(root, "d2"), filepath.Join(root, "d"))
			default:
				_ = os.Remove(p)
				_ = os.WriteFile(p, bytes.Repeat([]byte("x"), 200_000), 0o644)
			}
		}
	})
	changed, whole := 0, 0
	for begin := time.Now(); time.Since(begin) < need.RaceTime(); {
		var out bytes.Buffer
		m, err := Export(soon(t), d, &out, []string{"."}, Limits{})
		if err != nil {
			continue // grew beyond a bound, or nothing there
		}
		_, content, _ := members(t, out.Bytes())
		if bytes.Contains(out.Bytes(), []byte("SECRET")) {
			t.Fatal("the canary is in the tar")
		}
		for _, f := range m.Files {
			sum := sha256.Sum256([]byte(content[f.Path]))
			if f.SHA256 != hex.EncodeToString(sum[:]) || int64(len(content[f.Path])) != f.Bytes {
				t.Fatalf("%+v, %d bytes", f, len(content[f.Path]))
			}
			if f.Changed {
				changed++
			} else {
				whole++
			}
		}
	}
	close(stop)
	work.Wait()
	untouched(t, canary)
	if whole == 0 {
		t.Error("no file was ever whole")
	}
	t.Logf("%d changed, %d whole", changed, whole)
}

// entry is a member of a hostile tar.
type entry struct {
	h    tar.Header
	body string
}

func packed(t testing.TB, list ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range list {
		if e.h.Mode == 0 && e.h.Typeflag != tar.TypeXGlobalHeader {
			e.h.Mode = 0o644
		}
		if e.h.Typeflag == 0 {
			e.h.Typeflag = tar.TypeReg
		}
		if e.h.Size == 0 {
			e.h.Size = int64(len(e.body))
		}
		if err := w.WriteHeader(&e.h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, body string) entry { return entry{tar.Header{Name: name}, body} }

// Each hostile tar is refused with a reason of its own, and nothing is anywhere but
// what came before.
func TestImportRefuses(t *testing.T) {
	good := packed(t, file("f", "body"))
	raw := func(name string) []byte { // what no writer would write
		b := packed(t, file("AAAA", "body"))
		copy(b[0:100], append([]byte(name), make([]byte, 100-len(name))...))
		copy(b[148:156], "        ")
		sum := 0
		for _, c := range b[:512] {
			sum += int(c)
		}
		copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
		return b
	}
	for name, c := range map[string]struct {
		tar        []byte
		code, word string
	}{
		"up":            {packed(t, file("../x", "b")), files.InvalidPath, `".."`},
		"up within":     {packed(t, file("a/../../x", "b")), files.InvalidPath, `".."`},
		"absolute":      {packed(t, file("/x", "b")), files.InvalidPath, "absolute"},
		"link":          {packed(t, entry{tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, ""}, file("l/x", "b")), files.InvalidRequest, "symbolic link"},
		"hard link":     {packed(t, entry{tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, ""}), files.InvalidRequest, "hard link"},
		"device":        {packed(t, entry{tar.Header{Name: "d", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, ""}), files.InvalidRequest, "device"},
		"block device":  {packed(t, entry{tar.Header{Name: "d", Typeflag: tar.TypeBlock}, ""}), files.InvalidRequest, "device"},
		"fifo":          {packed(t, entry{tar.Header{Name: "p", Typeflag: tar.TypeFifo}, ""}), files.InvalidRequest, "FIFO"},
		"other":         {packed(t, entry{tar.Header{Name: "p", Typeflag: 'V'}, ""}), files.InvalidRequest, "not taken"},
		"setuid":        {packed(t, entry{tar.Header{Name: "s", Mode: 0o4755}, "b"}), files.InvalidRequest, "setuid"},
		"setgid dir":    {packed(t, entry{tar.Header{Name: "s/", Mode: 0o2755, Typeflag: tar.TypeDir}, ""}), files.InvalidRequest, "setuid"},
		"twice":         {packed(t, file("f", "a"), file("./f", "b")), files.InvalidRequest, "twice"},
		"dir over file": {packed(t, file("f", "a"), file("f/x", "b")), files.NotFound, "no directory"},
		"file over dir": {packed(t, file("d/x", "a"), file("d", "b")), files.IsDirectory, "directory"},
		"xattr":         {packed(t, entry{tar.Header{Name: "x", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}, "b"}), files.InvalidRequest, "extended attributes"},
		"acl":           {packed(t, entry{tar.Header{Name: "x", PAXRecords: map[string]string{"SCHILY.acl.access": "b"}}, "b"}), files.InvalidRequest, "access control"},
		"flags":         {packed(t, entry{tar.Header{Name: "x", PAXRecords: map[string]string{"SCHILY.fflags": "schg"}}, "b"}), files.InvalidRequest, "fflags"},
		"no name":       {raw(""), files.InvalidPath, "no name"},
		"dot":           {packed(t, file(".", "b")), files.InvalidPath, "itself"},
		"dir name":      {raw("x/"), files.InvalidPath, ""},
		"too deep":      {packed(t, file(strings.Repeat("d/", 100)+"f", "b")), files.InvalidPath, "deeper"},
		"long name":     {packed(t, file(strings.Repeat("n", 256), "b")), files.InvalidPath, "256 bytes"},
		"too large":     {packed(t, file("x", strings.Repeat("x", 2001))), files.TooLarge, "2001"},
		"too much":      {packed(t, file("x", strings.Repeat("x", 2000)), file("y", strings.Repeat("x", 2000)), file("z", "x")), files.TooLarge, "4000"},
		"too many":      {packed(t, file("1", ""), file("2", ""), file("3", ""), file("4", ""), file("5", ""), file("6", "")), files.TooLarge, "5 files"},
		"protected":     {packed(t, file("a/.EnvRC", "")), files.PolicyDenied, "protected"},
		"cut":           {good[:700], files.InvalidRequest, "cut off"},
		"without end":   {good[:1024], files.InvalidRequest, "cut off"},
		"empty":         {nil, files.InvalidRequest, "cut off"},
		"garbage":       {bytes.Repeat([]byte("garbage!"), 200), files.InvalidRequest, "damaged"},
		"more":          {append(slices.Clone(good), "more"...), files.InvalidRequest, "after the end"},
		"much padding":  {append(slices.Clone(good), make([]byte, 2<<20)...), files.InvalidRequest, "after the end"},
		"gzip":          {[]byte("\x1f\x8b\x08\x00\x00\x00\x00"), files.InvalidRequest, "gzip"},
		"zstd":          {[]byte("\x28\xb5\x2f\xfd\x00\x00"), files.InvalidRequest, "zstd"},
	} {
		t.Run(name, func(t *testing.T) {
			d, root, canary := open(t)
			_, err := Import(soon(t), d, bytes.NewReader(c.tar), Limits{
				MaxFiles: 5, MaxBytes: 4000, MaxFileBytes: 2000, Protected: []string{".envrc"}, OnProtected: Refuse,
			})
			coded(t, err, c.code, c.word)
			untouched(t, canary)
			if _, err := os.Lstat(filepath.Join(filepath.Dir(root), "x")); err == nil {
				t.Error("written outside")
			}
		})
	}
}

func TestImportTakes(t *testing.T) {
	d, root, _ := open(t)
	b := packed(t,
		entry{tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "c0ffee"}}, ""},
		entry{tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, ""},
		entry{tar.Header{Name: "./d/", Typeflag: tar.TypeDir, Mode: 0o000}, ""},
		entry{tar.Header{Name: "./d/x", Mode: 0o777, ModTime: time.Now(), AccessTime: time.Now(), Format: tar.FormatPAX}, "body"},
		file("w\xff", "bytes"), file(`a\..\b`, "a name"), file(ManifestName, "{}"),
	)
	b = append(b, make([]byte, 10240)...)
	m, err := Import(soon(t), d, bytes.NewReader(b), Limits{})
	if err != nil || len(m.Files) != 3 || m.Directories != 1 {
		t.Fatalf("%+v %v", m, err)
	}
	for p, mode := range map[string]fs.FileMode{"d": fs.ModeDir | 0o744, "d/x": 0o755, "w\xff": 0o644, `a\..\b`: 0o644} {
		if st, err := os.Lstat(filepath.Join(root, p)); err != nil || st.Mode() != mode {
			t.Errorf("%q: %v %v", p, st, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(root, ManifestName)); err == nil {
		t.Error("the manifest was made")
	}
}

// What is in the way is replaced or refused, never followed.
func TestImportInTheWay(t *testing.T) {
	for _, make1 := range map[string]func(p, canary string) error{
		"link":    func(p, canary string) error { return os.Symlink(filepath.Join(canary, "secret"), p) },
		"dangles": func(p, canary string) error { return os.Symlink(filepath.Join(canary, "new"), p) },
		"fifo":    func(p, _ string) error { return unix.Mkfifo(p, 0o666) },
	} {
		d, root, canary := open(t)
		if err := make1(filepath.Join(root, "f"), canary); err != nil {
			t.Fatal(err)
		}
		_, err := Import(soon(t), d, bytes.NewReader(packed(t, file("f", "x"))), Limits{})
		coded(t, err, files.NotRegular, "no regular file")
		untouched(t, canary)
	}
	d, root, canary := open(t)
	if err := os.Symlink(canary, filepath.Join(root, "d")); err != nil {
		t.Fatal(err)
	}
	for _, e := range []entry{file("d/new", "x"), {tar.Header{Name: "d/new/", Typeflag: tar.TypeDir, Mode: 0o755}, ""}} {
		_, err := Import(soon(t), d, bytes.NewReader(packed(t, e)), Limits{})
		coded(t, err, files.InvalidPath, "out")
	}
	untouched(t, canary)
}

// A job changes directories for links that lead out while a tar comes in.
func TestImportRace(t *testing.T) {
	d, root, canary := open(t)
	for _, err := range []error{os.Mkdir(filepath.Join(root, "a"), 0o755), os.Symlink(canary, filepath.Join(root, "b"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var list []entry
	for i := range 20 {
		list = append(list, file(fmt.Sprintf("a/f%d", i), "x"), file(fmt.Sprintf("a/sub%d/f", i), "x"))
	}
	b := packed(t, list...)
	stop := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(root, "a"), unix.AT_FDCWD, filepath.Join(root, "b"), unix.RENAME_EXCHANGE)
			}
		}
	})
	made := 0
	for begin := time.Now(); time.Since(begin) < need.RaceTime(); {
		m, _ := Import(soon(t), d, bytes.NewReader(b), Limits{})
		made += len(m.Files)
	}
	close(stop)
	work.Wait()
	untouched(t, canary)
	if made == 0 {
		t.Error("no file was ever made")
	}
}

// A large file goes through in constant memory, both ways.
func TestMemory(t *testing.T) {
	d, root, _ := open(t)
	size := int64(need.Times(200)) << 20
	write(t, filepath.Join(root, "big"), "")
	if err := os.Truncate(filepath.Join(root, "big"), size); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, w := io.Pipe()
	l := Limits{MaxFileBytes: size, MaxBytes: size}
	go func() {
		_, err := Export(soon(t), d, w, []string{"big"}, l)
		w.CloseWithError(err)
	}()
	e, _, _ := open(t)
	if m, err := Import(soon(t), e, r, l); err != nil || m.Bytes != size {
		t.Fatalf("%+v %v", m, err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("%d bytes allocated for %d", got, size)
	}
}

// FuzzImport: whatever comes, an import ends, makes no more than its limits allow, and
// nothing outside.
func FuzzImport(f *testing.F) {
	f.Add(packed(f, file("a/b", "body"), entry{tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755}, ""}))
	f.Add(packed(f, file(strings.Repeat("d/", 60)+"f", "b"), comment(), itself(), file(ManifestName, "{}")))
	f.Add(packed(f, file("z", strings.Repeat("\x00", 1024)))[:1536])
	f.Add(packed(f, file("../x", "b")))
	f.Add(packed(f, entry{tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../canary"}, ""}, file("l/x", "b")))
	f.Add(packed(f, entry{tar.Header{Name: strings.Repeat("long/", 60), Typeflag: tar.TypeDir, Mode: 0o755, Format: tar.FormatPAX}, ""}))
	f.Add(packed(f, entry{tar.Header{Name: "x", PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}, "b"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, root, canary := open(t)
		began := time.Now()
		defer func() {
			if took := time.Since(began); took > need.Time(5*time.Second) {
				t.Errorf("took %v", took)
			}
		}()
		m, err := Import(t.Context(), d, bytes.NewReader(b), Limits{MaxFiles: 10, MaxBytes: 4096, MaxFileBytes: 2048})
		var e *files.Error
		if err != nil && !errors.As(err, &e) {
			t.Errorf("%T %v", err, err)
		}
		untouched(t, canary)
		n, bytes := 0, int64(0)
		_ = filepath.WalkDir(root, func(_ string, e fs.DirEntry, _ error) error {
			if i, err := e.Info(); err == nil && !e.IsDir() {
				n++
				bytes += i.Size()
				if !i.Mode().IsRegular() || i.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
					t.Errorf("made a %v", i.Mode())
				}
			}
			return nil
		})
		if n := directories(t, root); n > 20 { // named, and above
			t.Errorf("%d directories", n)
		}
		if n > 10 || bytes > 4096 || n != len(m.Files) && err == nil {
			t.Errorf("%d files, %d bytes; %+v", n, bytes, m)
		}
	})
}
