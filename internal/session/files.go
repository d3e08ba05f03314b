package session

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/wire"
)

// files hands the workspace out and takes down what is done with it. The supervisor
// itself never touches a file of the jail's: whatever a job has put there can hold up
// the client alone.
func (s *Server) files(c *client, m *wire.Message) error {
	f, err := s.jail.Files()
	if err != nil {
		return err
	}
	plan := s.jail.Plan()
	handed := []*os.File{f.Dir}
	if f.Lock != nil {
		handed = append(handed, f.Lock)
	}
	err = c.send(&wire.Message{Type: wire.Done, Grant: &wire.Grant{
		UID: f.UID, GID: f.GID, MaxFile: plan.Limits.MaxFile,
		Protected: plan.Protected, OnProtected: plan.OnProtected, Straight: f.Straight,
	}}, handed...)
	f.Close() // the message has descriptors of its own
	if err != nil {
		c.lost(err)
		return nil
	}
	notes := make(chan *wire.Message)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		for {
			m, files, err := c.Receive()
			wire.CloseAll(files)
			if err != nil {
				return
			}
			select {
			case notes <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case note := <-notes:
			if err := s.note(c, note, m.Rights); err != nil {
				c.fail(err)
			}
		case <-ctx.Done():
			return nil
		case <-s.ending: // the client sees us go, and ends what it is at
			return nil
		}
	}
}

// changes are what a client may say that it did, by the right that this takes.
var changes = map[string]struct {
	right string
	verbs []string
}{
	wire.FileWritten:      {jailer.CapFSWrite, []string{"put", "mkdir"}},
	wire.FileRemoved:      {jailer.CapFSWrite, []string{"rm"}},
	wire.ArtifactExported: {jailer.CapExport, []string{""}},
	wire.ArtifactImported: {jailer.CapImport, []string{""}},
}

// note writes down what a client did. It is the session's user, who could do anything to
// these files; that it has not the right is a fault of the program's.
func (s *Server) note(c *client, m *wire.Message, rights []string) error {
	bad := func(format string, args ...any) error {
		return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "session.files", Message: fmt.Sprintf(format, args...)}
	}
	if m.Type != wire.Note || m.Change == nil {
		return bad("unexpected message %.40q", m.Type)
	}
	n := m.Change
	as, ok := changes[n.Event]
	switch {
	case !ok || !slices.Contains(as.verbs, n.Verb):
		return bad("no such event: %.40q of %.40q", n.Event, n.Verb)
	case !slices.Contains(rights, as.right):
		return bad("%s is not of what was asked for", n.Event)
	}
	e := audit.Event{Type: audit.Type(n.Event), Data: audit.Moved{Files: n.Files, Bytes: n.Bytes, Partial: n.Partial}}
	if n.Verb != "" {
		d := audit.Changed{Verb: n.Verb, Path: audit.Path(n.Path), Partial: n.Partial}
		if n.Verb == "put" {
			d.Bytes = &n.Bytes
		}
		e.Data = d
	}
	if err := s.jail.Note(e); err != nil {
		return err
	}
	return c.send(&wire.Message{Type: wire.Done})
}
