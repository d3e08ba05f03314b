package session

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/internal/remotefs"
	"github.com/jailer-project/jailer/internal/wire"
	"github.com/jailer-project/jailer/test/need"
)

// withFiles is a session with a workspace, and these capabilities.
func withFiles(t *testing.T, capabilities ...string) *bed {
	t.Helper()
	return supervise(t, func(j *fakeJail, _ *Options) {
		j.files, j.plan.Capabilities, j.plan.Limits.MaxFile = t.TempDir(), capabilities, 100
	})
}

func (b *bed) noted() []string {
	b.jail.mu.Lock()
	defer b.jail.mu.Unlock()
	var all []string
	for _, e := range b.jail.notes {
		all = append(all, fmt.Sprintf("%s %+v", e.Type, e.Data))
	}
	return all
}

func (b *bed) opened(t *testing.T, rights ...string) *remotefs.Workspace {
	t.Helper()
	w, err := b.client.Files("one", FilesRequest{Rights: rights})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// A verb ends with its session, also one whose input or output blocks, and leaves
// nothing.
func TestFilesEnd(t *testing.T) {
	for name, do := range map[string]func(w *remotefs.Workspace, blocked *os.File) error{
		"put": func(w *remotefs.Workspace, blocked *os.File) error {
			_, err := w.Put(context.Background(), "new", blocked, files.PutOptions{Mode: 0o644})
			return err
		},
		"import": func(w *remotefs.Workspace, blocked *os.File) error {
			_, err := w.Import(context.Background(), blocked)
			return err
		},
		"cat": func(w *remotefs.Workspace, blocked *os.File) error {
			_, err := w.Cat(context.Background(), blockedWriter{blocked}, "old", 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withFiles(t, jailer.Capabilities()...)
			if err := os.WriteFile(filepath.Join(b.jail.files, "old"), []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			w := b.opened(t, jailer.CapFSWrite, jailer.CapFSRead, jailer.CapImport)
			r, other, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer other.Close()
			ended := make(chan error, 1)
			go func() { ended <- do(w, r) }()
			if err := b.client.Delete(t.Context(), "one"); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-ended:
				refused(t, FileError(err), jailer.CodeInvalidState)
				if !strings.Contains(err.Error(), "the session has ended") {
					t.Error(err)
				}
			case <-time.After(long):
				t.Fatal("it goes on")
			}
			left, err := os.ReadDir(b.jail.files)
			if err != nil || len(left) != 1 {
				t.Errorf("%v %v", left, err)
			}
			_, err = w.Put(t.Context(), "later", strings.NewReader("x"), files.PutOptions{Mode: 0o644})
			refused(t, FileError(err), jailer.CodeInvalidState)
		})
	}
}

// blockedWriter takes nothing, for as long as nobody writes to a pipe.
type blockedWriter struct{ r *os.File }

func (b blockedWriter) Write([]byte) (int, error) { return b.r.Read(make([]byte, 1)) }

// What failed is told of as far as it was done, and what was not done is not.
func TestPartial(t *testing.T) {
	b := withFiles(t, jailer.Capabilities()...)
	w := b.opened(t, jailer.CapFSWrite, jailer.CapExport, jailer.CapImport)
	put := func(path, content string) error {
		_, err := w.Put(t.Context(), path, strings.NewReader(content), files.PutOptions{Mode: 0o644, Parents: true})
		return err
	}
	archive := func(headers ...tar.Header) *bytes.Buffer {
		var out bytes.Buffer
		a := tar.NewWriter(&out)
		for _, h := range headers {
			if err := a.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		return &out
	}
	dir, link := tar.Header{Typeflag: tar.TypeDir, Name: "i/", Mode: 0o755}, tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "x"}
	for _, row := range []struct {
		name  string
		do    func() error
		fails bool
		want  string
	}{
		{"put", func() error { return put("p/q/f", strings.Repeat("x", 101)) }, true, "file.written {Verb:mkdir Path:p/q "},
		{"put again", func() error { return put("p/q/f", strings.Repeat("x", 101)) }, true, ""},
		{"mkdir", func() error { return w.Mkdir("p/q", true, 0o755) }, false, ""},
		{"mkdir more", func() error { return w.Mkdir("p/q/r", true, 0o755) }, false, "file.written {Verb:mkdir Path:p/q/r "},
		{"mkdir there", func() error { return w.Mkdir("p", false, 0o755) }, true, ""},
		{"import", func() error { _, err := w.Import(t.Context(), archive(dir)); return err }, false, "artifact.imported {Files:0 Bytes:0 Partial:false}"},
		{"import of a link", func() error { _, err := w.Import(t.Context(), archive(link)); return err }, true, ""},
		{"import up to a link", func() error { _, err := w.Import(t.Context(), archive(dir, link)); return err }, true, "artifact.imported {Files:0 Bytes:0 Partial:true}"},
		{"export", func() error { _, err := w.Export(t.Context(), failingWriter{}, []string{"p"}); return err }, true, "artifact.exported {Files:0 Bytes:0 Partial:true}"},
		{"export of nothing", func() error { _, err := w.Export(t.Context(), io.Discard, []string{"none"}); return err }, true, ""},
		{"rm", func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return w.Remove(ctx, "p", true)
		}, true, ""},
	} {
		before := len(b.noted())
		err := row.do()
		if (err != nil) != row.fails {
			t.Errorf("%s: %v", row.name, err)
		}
		switch got := b.noted()[before:]; {
		case row.want == "" && len(got) > 0, row.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], row.want)):
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

// A removal that can't go on has removed something.
func TestPartialRemoval(t *testing.T) {
	need.Root(t)
	b := withFiles(t, jailer.CapFSWrite)
	top := filepath.Join(b.jail.files, "t")
	for _, name := range []string{"a", "b"} {
		if err := os.MkdirAll(filepath.Join(top, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	names, err := f.Readdirnames(-1) // in the order of the removal
	f.Close()
	if err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
	stuck := filepath.Join(top, names[1])
	if err := unix.Mount("tmpfs", stuck, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(stuck, unix.MNT_DETACH)
	if err := b.opened(t, jailer.CapFSWrite).Remove(t.Context(), "t", true); err == nil {
		t.Error("removed through a mount")
	}
	if got := b.noted(); len(got) != 1 || got[0] != "file.removed {Verb:rm Path:t Bytes:<nil> Partial:true}" {
		t.Errorf("%q", got)
	}
}

// failingWriter takes some, and then fails.
type failingWriter struct{}

func (failingWriter) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return min(len(b), 10), io.ErrShortWrite
}

// A client gets the workspace and no more rights than it asked for and the session has;
// what it says it did is in the event log before it goes on.
func TestFiles(t *testing.T) {
	b := withFiles(t, jailer.CapFSWrite)
	w := b.opened(t, jailer.CapFSWrite)
	if _, err := w.Put(t.Context(), "f", strings.NewReader("text"), files.PutOptions{Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(b.jail.files, "f")); err != nil || string(got) != "text" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := w.Put(t.Context(), "f", strings.NewReader(strings.Repeat("x", 101)), files.PutOptions{Mode: 0o644, Max: 1000}); err == nil {
		t.Error("more than the session's limit")
	}
	if got := b.noted(); len(got) != 1 || !strings.HasPrefix(got[0], "file.written {Verb:put Path:f") {
		t.Errorf("%q", got)
	}
	b.jail.mu.Lock()
	b.jail.noteErr = errors.New("the disk is full")
	b.jail.mu.Unlock()
	err := FileError(w.Remove(t.Context(), "f", false))
	if err == nil || !strings.Contains(err.Error(), "not in the event log") || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("%v", err)
	}
	for _, rights := range [][]string{nil, {jailer.CapFSRead}, {jailer.CapFSWrite, jailer.CapExport}, {"no such"}} {
		code := jailer.CodePolicyDenied
		if rights == nil {
			code = jailer.CodeInvalidRequest
		}
		_, err := b.client.Files("one", FilesRequest{Rights: rights})
		refused(t, err, code)
	}
}

// What is no change is not written; a client that says it, or nothing, costs nobody
// anything.
func TestNotes(t *testing.T) {
	b := withFiles(t, jailer.CapFSWrite)
	conn, err := b.client.connect("one")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.ReceiveUntil(time.Now().Add(long)); err != nil {
		t.Fatal(err)
	}
	_, fds, err := b.client.open(conn, FilesRequest{Rights: []string{jailer.CapFSWrite}})
	if err != nil {
		t.Fatal(err)
	}
	wire.CloseAll(fds)
	for _, m := range []*wire.Message{
		{Type: wire.Exec},
		{Type: wire.Note},
		{Type: wire.Note, Change: &wire.Change{Event: string(audit.SessionDestroyed)}},
		{Type: wire.Note, Change: &wire.Change{Event: "file.written\n", Verb: "put"}},
		{Type: wire.Note, Change: &wire.Change{Event: "file.written", Verb: "rm"}},
		{Type: wire.Note, Change: &wire.Change{Event: "file.written", Verb: strings.Repeat("v", 1000)}},
		{Type: wire.Note, Change: &wire.Change{Event: "file.removed"}},
		{Type: wire.Note, Change: &wire.Change{Event: "artifact.exported"}}, // not asked for
		{Type: wire.Note, Change: &wire.Change{Event: "artifact.imported"}},
	} {
		if err := conn.Send(m); err != nil {
			t.Fatal(err)
		}
		_, _, err := b.client.receive(conn, false)
		refused(t, err, jailer.CodeInvalidRequest)
	}
	if got := b.noted(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	path := strings.Repeat("p", 4000) + "\x1b\xff"
	if err := conn.Send(&wire.Message{Type: wire.Note, Change: &wire.Change{Event: "file.removed", Verb: "rm", Path: []byte(path)}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.client.receive(conn, false); err != nil {
		t.Error(err)
	}
	if got := b.noted(); len(got) != 1 || len(got[0]) > 1200 {
		t.Errorf("%d bytes: %.100q", len(got[0]), got)
	}
	// It stays, and the session ends all the same.
	if err := b.client.Delete(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	b.ended(t, audit.Requested, 0, long)
}

// Whoever has not the token has nothing but a refusal, which is an event.
func TestToken(t *testing.T) {
	right := []byte("0123456789abcdef")
	b := supervise(t, func(j *fakeJail, o *Options) {
		h := sha256.Sum256(right)
		o.Token, j.files, j.plan.Capabilities = h[:], t.TempDir(), []string{jailer.CapExec, jailer.CapFSRead}
	})
	for _, token := range [][]byte{nil, {}, right[:15], []byte("0123456789abcdeg")} {
		b.client.Token = token
		_, err := b.client.State("one")
		refused(t, err, jailer.CodeUnauthorized)
		_, err = b.client.Files("one", FilesRequest{Rights: []string{jailer.CapFSRead}})
		refused(t, err, jailer.CodeUnauthorized)
		_, err = b.run(t.Context(), "true")
		refused(t, err, jailer.CodeUnauthorized)
		refused(t, b.client.Delete(t.Context(), "one"), jailer.CodeUnauthorized)
	}
	if got := b.noted(); len(got) != 16 || !strings.Contains(got[0], "policy.denied {Failure:{Code:unauthorized Op:session.token") {
		t.Errorf("%d: %q", len(got), got)
	}
	b.client.Token = right
	if _, err := b.client.State("one"); err != nil {
		t.Error(err)
	}
	if _, err := b.run(t.Context(), "true"); err != nil {
		t.Error(err)
	}
}

// A workspace over its quota ends the session.
func TestFull(t *testing.T) {
	b := supervise(t, func(j *fakeJail, _ *Options) { j.full = make(chan struct{}) })
	close(b.jail.full)
	b.ended(t, audit.LimitHit, 0, long)
}
