package session

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/internal/wire"
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

// A client gets the workspace and no more rights than it asked for and the session has;
// what it says it did is in the event log before it goes on.
func TestFiles(t *testing.T) {
	b := withFiles(t, jailer.CapFSWrite)
	w, done, err := b.client.Files("one", jailer.CapFSWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
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
	err = w.Remove(t.Context(), "f", false)
	if err == nil || !strings.Contains(err.Error(), "not in the event log") || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("%v", err)
	}
	for _, rights := range [][]string{nil, {jailer.CapFSRead}, {jailer.CapFSWrite, jailer.CapExport}, {"no such"}} {
		code := jailer.CodePolicyDenied
		if rights == nil {
			code = jailer.CodeInvalidRequest
		}
		_, _, err := b.client.Files("one", rights...)
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
	_, fds, err := b.client.open(conn, []string{jailer.CapFSWrite})
	if err != nil {
		t.Fatal(err)
	}
	wire.CloseAll(fds)
	for _, m := range []*wire.Message{
		{Type: wire.Exec},
		{Type: wire.Note},
		{Type: wire.Note, Change: &wire.Change{Event: string(audit.SessionDestroyed)}},
		{Type: wire.Note, Change: &wire.Change{Event: "file.written\n"}},
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
	if err := conn.Send(&wire.Message{Type: wire.Note, Change: &wire.Change{Event: "file.removed", Verb: strings.Repeat("v", 1000), Path: []byte(path)}}); err != nil {
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
		o.Token, j.files, j.plan.Capabilities = h[:], t.TempDir(), []string{jailer.CapFSRead}
	})
	for _, token := range [][]byte{nil, {}, right[:15], []byte("0123456789abcdeg")} {
		b.client.Token = token
		_, err := b.client.State("one")
		refused(t, err, jailer.CodeUnauthorized)
		_, _, err = b.client.Files("one", jailer.CapFSRead)
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
