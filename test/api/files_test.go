package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jailer-project/jailer"
)

// The files of a session are an fs.FS, and can be written.
func TestFS(t *testing.T) {
	s, _ := create(t, jailer.Request{}, jailer.SessionOptions{})
	f := s.FS(t.Context())
	if err := errors.Join(
		f.MkdirAll("a/b", 0o755), f.WriteFile("a/b/c.txt", []byte("hello\n"), 0o640), f.Mkdir("empty", 0o700), f.WriteFile("top", nil, 0o644),
	); err != nil {
		t.Fatal(err)
	}
	res, err := s.Exec(t.Context(), sh("stat -c '%a %u' a/b/c.txt; cat a/b/c.txt"), jailer.IO{})
	if err != nil || *res.Stdout != "640 1000\nhello\n" {
		t.Fatalf("%+v %v", res, err)
	}
	if err := fstest.TestFS(f, "a/b/c.txt", "empty", "top"); err != nil {
		t.Error(err)
	}
	if _, err := s.Exec(t.Context(), sh("ln -s /etc/passwd link; ln -s a/b/c.txt inside; mkfifo fifo; ln -s fifo tofifo; seq 1000 > n"), jailer.IO{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"none": fs.ErrNotExist, "link": fs.ErrInvalid, "../x": fs.ErrInvalid, "/etc": fs.ErrInvalid, "fifo": nil} {
		b, err := f.ReadFile(name)
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %q %v, want %v", name, b, err, want)
		}
	}
	if b, err := f.ReadFile("inside"); err != nil || string(b) != "hello\n" {
		t.Errorf("%q %v", b, err)
	}
	if i, err := f.Stat("tofifo"); err != nil || i.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("%v %v", i, err)
	}
	// An open file has the size that it had, however it grows, and can't be written to.
	grows, err := f.Open("n")
	if err != nil {
		t.Fatal(err)
	}
	defer grows.Close()
	if _, err := s.Exec(t.Context(), sh("seq 1001 2000 >> n"), jailer.IO{}); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(grows); err != nil || !strings.HasSuffix(string(b), "\n1000\n") {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, ok := grows.(io.Writer); ok {
		t.Error("it could be written to")
	}
	if i, err := f.Lstat("link"); err != nil || i.Type != "link" || i.Target != "/etc/passwd" {
		t.Errorf("%+v %v", i, err)
	}
	p, err := f.Page("n", jailer.PageOptions{Line: 500, Lines: 2})
	if err != nil || string(p.Data) != "500\n501\n" || p.Cursor == "" {
		t.Errorf("%+v %v", p, err)
	}
	l, err := f.List(".", "", 2)
	if err != nil || len(l.Entries) != 2 || l.Cursor == "" {
		t.Errorf("%+v %v", l, err)
	}
	if _, err := f.Put("big", strings.NewReader(strings.Repeat("x", 100)), jailer.PutOptions{Mode: 0o644, Max: 99}); !is(err, jailer.CodeFileTooLarge) {
		t.Error(err)
	}
	if err := errors.Join(f.Remove("top"), f.RemoveAll("a")); err != nil {
		t.Error(err)
	}
	if _, err := f.Stat("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A Reader is not read any more when Put has returned, whatever the reason.
func TestPutReader(t *testing.T) {
	s, _ := create(t, jailer.Request{}, jailer.SessionOptions{})
	f := s.FS(t.Context())
	in := &watched{}
	for range 20 {
		in.returned.Store(false)
		if _, err := f.Put("big", in, jailer.PutOptions{Mode: 0o644, Max: 100 << 10}); !is(err, jailer.CodeFileTooLarge) {
			t.Error(err)
		}
		in.returned.Store(true)
	}
	time.Sleep(50 * time.Millisecond) // one that went on would read at once
	if n := in.late.Load(); n > 0 {
		t.Errorf("%d reads too late", n)
	}
}

// watched has no end.
type watched struct {
	returned atomic.Bool
	late     atomic.Int32
}

func (w *watched) Read(b []byte) (int, error) {
	if w.returned.Load() {
		w.late.Add(1)
	}
	return len(b), nil
}

// A tar out of one session and into another.
func TestExportImport(t *testing.T) {
	a, _ := create(t, jailer.Request{}, jailer.SessionOptions{})
	b, _ := create(t, jailer.Request{}, jailer.SessionOptions{})
	if _, err := a.Exec(t.Context(), sh("mkdir d; echo x > d/f; ln -s /etc/passwd d/l"), jailer.IO{}); err != nil {
		t.Fatal(err)
	}
	var tar bytes.Buffer
	m, err := a.Export(t.Context(), &tar, "d")
	if err != nil || len(m.Files) != 1 || len(m.Skipped) != 1 {
		t.Fatalf("%+v %v", m, err)
	}
	if m, err = b.Import(t.Context(), &tar); err != nil || len(m.Files) != 1 {
		t.Fatalf("%+v %v", m, err)
	}
	if got, err := b.FS(t.Context()).ReadFile("d/f"); err != nil || string(got) != "x\n" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := a.Export(t.Context(), &tar, "none"); !is(err, jailer.CodeNotFound) {
		t.Error(err)
	}
	if _, err := b.Import(t.Context(), strings.NewReader("no tar")); !is(err, jailer.CodeInvalidRequest) {
		t.Error(err)
	}
}

// A token, a narrowed session.
func TestToken(t *testing.T) {
	c, _ := client(t)
	mine, other := *c, *c
	mine.Token, other.Token = []byte("0123456789abcdef"), []byte("0123456789abcdeg")
	s, err := mine.Create(t.Context(), jailer.Request{Capabilities: []string{"exec", "fs.read"}}, jailer.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Exec(t.Context(), sh("echo x > f"), jailer.IO{}); err != nil {
		t.Fatal(err)
	}
	if b, err := s.FS(t.Context()).ReadFile("f"); err != nil || string(b) != "x\n" {
		t.Errorf("%q %v", b, err)
	}
	if err := s.FS(t.Context()).WriteFile("f", nil, 0o644); !is(err, jailer.CodePolicyDenied) {
		t.Error(err)
	}
	for _, stranger := range []*jailer.Client{c, &other} {
		if _, err := stranger.Open(t.Context(), s.ID); !is(err, jailer.CodeUnauthorized) {
			t.Error(err)
		}
	}
	if again, err := mine.Open(t.Context(), s.ID); err != nil {
		t.Error(err)
	} else if _, err := again.Exec(t.Context(), sh("true"), jailer.IO{}); err != nil {
		t.Error(err)
	}
	short := *c
	short.Token = []byte("short")
	if _, err := short.Create(t.Context(), jailer.Request{}, jailer.SessionOptions{}); !is(err, jailer.CodeInvalidRequest) {
		t.Error(err)
	}
	res, err := mine.Run(t.Context(), sh("echo ran"), jailer.IO{})
	if err != nil || *res.Stdout != "ran\n" {
		t.Errorf("%+v %v", res, err)
	}
}

// A restricted handle uses what it was given, whatever is derived from it, and doesn't end
// the session.
func TestRestrict(t *testing.T) {
	s, _ := create(t, jailer.Request{}, jailer.SessionOptions{})
	if err := s.FS(t.Context()).WriteFile("f", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	reader := s.Restrict(jailer.CapFSRead, jailer.CapFSList).Restrict(jailer.CapFSRead, jailer.CapExec)
	if b, err := reader.FS(t.Context()).ReadFile("f"); err != nil || string(b) != "x" {
		t.Errorf("%q %v", b, err)
	}
	ctx, f := t.Context(), reader.FS(t.Context())
	for name, do := range map[string]func() error{
		"exec":    func() error { _, err := reader.Exec(ctx, sh("true"), jailer.IO{}); return err },
		"command": func() error { return reader.Command(ctx, "true").Run() },
		"start":   func() error { _, err := reader.Start(ctx, "", sh("true")); return err },
		"ps":      func() error { _, err := reader.Processes(ctx, false); return err },
		"stop":    func() error { _, err := reader.Stop(ctx, "p1", 0); return err },
		"logs":    func() error { _, err := reader.Logs(ctx, "p1", jailer.LogOptions{}, io.Discard); return err },
		"write":   func() error { return f.WriteFile("g", nil, 0o644) },
		"mkdir":   func() error { return f.Mkdir("d", 0o755) },
		"remove":  func() error { return f.RemoveAll("f") },
		"list":    func() error { _, err := f.List(".", "", 0); return err },
		"readdir": func() error { _, err := f.ReadDir("."); return err },
		"export":  func() error { _, err := reader.Export(ctx, io.Discard, "f"); return err },
		"import":  func() error { _, err := reader.Import(ctx, strings.NewReader("")); return err },
		"close":   reader.Close,
	} {
		if err := do(); !is(err, jailer.CodePolicyDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Exec(ctx, sh("test -s f && ! test -e g"), jailer.IO{}); err != nil {
		t.Error(err)
	}
}

// The embedding program decides, and only a clear yes in time is one.
func TestAskers(t *testing.T) {
	c, _ := client(t)
	mine := *c
	var asked []string
	allow := jailer.Decision{Allow: true}
	answer := func(d jailer.Decision, err error) jailer.Asker {
		return func(_ context.Context, op jailer.Operation) (jailer.Decision, error) {
			asked = append(asked, op.Name)
			return d, err
		}
	}
	mine.Authorizer, mine.Approver = answer(allow, nil), answer(allow, nil)
	s, err := mine.Create(t.Context(), jailer.Request{Tenant: "acme"}, jailer.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		mine.Authorizer, mine.Approver = nil, nil
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := s.Exec(t.Context(), sh("true"), jailer.IO{}); err != nil {
		t.Error(err)
	}
	if _, err := s.FS(t.Context()).List(".", "", 0); err != nil {
		t.Error(err)
	}
	if got := strings.Join(asked, " "); got != "create exec exec fs" {
		t.Errorf("asked for %s", got)
	}
	mine.AskTimeout = 100 * time.Millisecond
	never := func(context.Context, jailer.Operation) (jailer.Decision, error) { select {} }
	for name, row := range map[string]struct {
		authorizer, approver jailer.Asker
		code                 jailer.Code
	}{
		"not authorized":    {answer(jailer.Decision{Reason: "no"}, nil), nil, jailer.CodeUnauthorized},
		"authorizer fails":  {answer(allow, errors.New("down")), nil, jailer.CodeUnauthorized},
		"authorizer hangs":  {never, nil, jailer.CodeUnauthorized},
		"not approved":      {answer(allow, nil), answer(jailer.Decision{}, nil), jailer.CodeApprovalDenied},
		"approver fails":    {nil, answer(allow, errors.New("down")), jailer.CodeApprovalDenied},
		"nobody answers it": {nil, never, jailer.CodeApprovalDenied},
	} {
		mine.Authorizer, mine.Approver = row.authorizer, row.approver
		if _, err := mine.Run(t.Context(), sh("true"), jailer.IO{}); !is(err, row.code) {
			t.Errorf("%s: run: %v", name, err)
		}
		if _, err := s.Exec(t.Context(), sh("true"), jailer.IO{}); !is(err, row.code) {
			t.Errorf("%s: exec: %v", name, err)
		}
		if err := s.FS(t.Context()).WriteFile("f", nil, 0o644); !is(err, row.code) {
			t.Errorf("%s: write: %v", name, err)
		}
	}
}
