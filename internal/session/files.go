package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/wire"
)

// files hands the workspace out and takes down what is done with it. The supervisor
// itself never touches a file of the jail's: whatever a job has put there can hold up
// the client alone.
func (s *Server) files(c *client, m *wire.Message) error {
	if err := s.grants(m.Rights); err != nil {
		s.jail.Denied(asError(err))
		return err
	}
	f, err := s.jail.Files()
	if err != nil {
		return err
	}
	plan := s.jail.Plan()
	defer f.Dir.Close() // the message has one of its own
	err = c.send(&wire.Message{Type: wire.Done, Grant: &wire.Grant{
		UID: f.UID, GID: f.GID, MaxFile: plan.Limits.MaxFile,
		Protected: plan.Protected, OnProtected: plan.OnProtected,
	}}, f.Dir)
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
		case m := <-notes:
			if err := s.note(c, m); err != nil {
				c.fail(err)
			}
		case <-ctx.Done():
			return nil
		case <-s.ending: // the descriptor goes on, and so does nothing else
			return nil
		}
	}
}

// grants refuses rights that the session has not.
func (s *Server) grants(rights []string) error {
	if len(rights) == 0 {
		return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "session.files", Path: "rights", Message: "none asked for"}
	}
	for _, r := range rights {
		if !slices.Contains(s.jail.Plan().Capabilities, r) {
			return &jailer.Error{
				Code: jailer.CodePolicyDenied, Op: "session", Path: "capabilities", Message: fmt.Sprintf("the session has no %.40q", r),
				Hint: "create the session with it, if its profile grants it",
			}
		}
	}
	return nil
}

// note writes down what a client did.
func (s *Server) note(c *client, m *wire.Message) error {
	if m.Type != wire.Note || m.Change == nil {
		return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "session.files", Message: fmt.Sprintf("unexpected message %.40q", m.Type)}
	}
	e := audit.Event{Type: audit.Type(m.Change.Event)}
	switch e.Type {
	case audit.FileWritten, audit.FileRemoved:
		d := audit.Changed{Verb: fmt.Sprintf("%.20s", m.Change.Verb), Path: audit.Path(m.Change.Path)}
		if e.Type == audit.FileWritten && m.Change.Verb == "put" {
			d.Bytes = &m.Change.Bytes
		}
		e.Data = d
	case audit.ArtifactExported, audit.ArtifactImported:
		e.Data = audit.Moved{Files: m.Change.Files, Bytes: m.Change.Bytes}
	default:
		return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "session.files", Message: fmt.Sprintf("no such event: %.40q", m.Change.Event)}
	}
	if err := s.jail.Note(e); err != nil {
		return err
	}
	return c.send(&wire.Message{Type: wire.Done})
}
