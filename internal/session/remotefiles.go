package session

import (
	"errors"
	"os"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/remotefs"
	"github.com/jailer-project/jailer/internal/wire"
)

// Files opens the workspace of a session, with these capabilities. The caller closes it
// with close; the files are then done with, whatever the session does.
func (c *Client) Files(id string, rights ...string) (w *remotefs.Workspace, closeAll func(), err error) {
	conn, err := c.connect(id)
	if err != nil {
		return nil, nil, err
	}
	if err := conn.ReceiveUntil(time.Now().Add(answerWait)); err != nil {
		conn.Close()
		return nil, nil, err
	}
	m, fds, err := c.open(conn, rights)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	w = remotefs.New(fds[0], *m.Grant, func(change *wire.Change) error {
		if err := conn.ReceiveUntil(time.Now().Add(noteWait)); err != nil {
			return err
		}
		if err := conn.Send(&wire.Message{Type: wire.Note, Change: change}); err != nil {
			return unnoted(err)
		}
		m, fds, err := c.receive(conn, false)
		wire.CloseAll(fds)
		if err != nil {
			return unnoted(err)
		}
		if m.Type != wire.Done {
			return unexpected(m)
		}
		return nil
	})
	return w, func() { w.Close(); conn.Close() }, nil
}

// noteWait is more than the supervisor waits for other writers of the event log.
const noteWait = 15 * time.Second

func (c *Client) open(conn *wire.Conn, rights []string) (*wire.Message, []*os.File, error) {
	if err := c.send(conn, &wire.Message{Type: wire.Files, Rights: rights}); err != nil {
		return nil, nil, err
	}
	m, fds, err := c.receive(conn, true)
	if err != nil {
		return nil, nil, err
	}
	if m.Type != wire.Done || m.Grant == nil || len(fds) != 1 {
		wire.CloseAll(fds)
		return nil, nil, unexpected(m)
	}
	return m, fds, nil
}

// unnoted is the error of a change that was made, and is not in the event log.
func unnoted(err error) error {
	e := *asError(err)
	e.Message, e.Err = "it was done, and is not in the event log", err
	if je, ok := errors.AsType[*jailer.Error](err); ok {
		e.Hint = je.Hint
	}
	return &e
}
