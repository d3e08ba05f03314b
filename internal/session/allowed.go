package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/access"
	"github.com/jailer-project/jailer/internal/wire"
)

// uses are the capabilities that the verbs need of the session; Files says its own.
var uses = map[wire.Type][]string{
	wire.Exec:  {jailer.CapExec},
	wire.Start: {jailer.CapExec, jailer.CapProcess},
	wire.List:  {jailer.CapProcess},
	wire.Logs:  {jailer.CapProcess},
	wire.Stop:  {jailer.CapProcess},
	wire.Kill:  {jailer.CapProcess},
}

// allowed is the one place where a verb is checked: it refuses what the session has not
// the capabilities for, and what the policy doesn't let its user do. A command's words are
// looked at when its plan is known, by the jail; whether there is a session is no secret
// from its user.
func (s *Server) allowed(c *client, m *wire.Message) error {
	op := access.Operation{Name: string(m.Type), Capabilities: uses[m.Type]}
	if m.Type == wire.Files {
		op.Capabilities = m.Rights
		if len(m.Rights) == 0 {
			return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "session.files", Path: "rights", Message: "none asked for"}
		}
	}
	for _, u := range op.Capabilities {
		if !slices.Contains(s.jail.Plan().Capabilities, u) {
			return &jailer.Error{
				Code: jailer.CodePolicyDenied, Op: "session", Path: "capabilities", Message: fmt.Sprintf("the session has no %.40q", u),
				Hint: "create the session with it, if its profile grants it",
			}
		}
	}
	switch m.Type {
	case wire.Exec, wire.Start, wire.State:
		return nil
	case wire.Files:
		op.Name = "fs"
		if len(m.Rights) == 1 && (m.Rights[0] == jailer.CapExport || m.Rights[0] == jailer.CapImport) {
			op.Name = m.Rights[0]
		}
		for _, p := range m.Paths {
			op.Paths = append(op.Paths, string(p))
		}
		// Who doesn't say what he will write may write anything.
		op.AnyPath = slices.Contains(m.Rights, jailer.CapImport) || slices.Contains(m.Rights, jailer.CapFSWrite) && len(m.Paths) == 0
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
