package session

import (
	"context"
	"slices"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/access"
	"github.com/jailer-project/jailer/internal/wire"
)

// allowed refuses what the policy doesn't let the session's user do. A command is looked
// at when its plan is known, by the jail; whether there is a session is no secret from
// its user.
func (s *Server) allowed(c *client, m *wire.Message) error {
	op := access.Operation{Name: string(m.Type)}
	switch m.Type {
	case wire.Exec, wire.Start, wire.State:
		return nil
	case wire.Files:
		op.Name, op.Capabilities = "fs", m.Rights
		if len(m.Rights) == 1 && (m.Rights[0] == jailer.CapExport || m.Rights[0] == jailer.CapImport) {
			op.Name = m.Rights[0]
		}
		for _, p := range m.Paths {
			op.Paths = append(op.Paths, string(p))
		}
		// Who doesn't say what he will write may write anything.
		op.AnyPath = slices.Contains(m.Rights, jailer.CapImport) || slices.Contains(m.Rights, jailer.CapFSWrite) && len(m.Paths) == 0
	case wire.List, wire.Logs, wire.Stop, wire.Kill:
		op.Capabilities = []string{jailer.CapProcess}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-s.ending:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.jail.Allowed(ctx, op, c.asking)
}

// asking tells the client that the answer may take long.
func (c *client) asking(d time.Duration) {
	_ = c.send(&wire.Message{Type: wire.Asking, Grace: d}) // one that is gone needs no answer
}
