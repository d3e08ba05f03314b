package session

import (
	"errors"
	"os"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/remotefs"
	"github.com/jailer-project/jailer/internal/wire"
)

// Files opens the workspace of a session, with these capabilities. The caller closes it.
func (c *Client) Files(id string, rights ...string) (*remotefs.Workspace, error) {
	conn, err := c.connect(id)
	if err != nil {
		return nil, err
	}
	m, fds, err := c.open(conn, rights)
	if err != nil {
		conn.Close()
		return nil, err
	}
	w, err := remotefs.New(remotefs.Options{
		Files: fds, Grant: *m.Grant, Conn: conn, Refused: refusal,
	})
	if err != nil {
		return nil, &jailer.Error{Code: jailer.CodeInternal, Op: "session.socket", Err: err}
	}
	return w, nil
}

func (c *Client) open(conn *wire.Conn, rights []string) (*wire.Message, []*os.File, error) {
	if err := conn.ReceiveUntil(time.Now().Add(answerWait)); err != nil {
		return nil, nil, err
	}
	if err := c.send(conn, &wire.Message{Type: wire.Files, Rights: rights}); err != nil {
		return nil, nil, err
	}
	m, fds, err := c.receive(conn, true)
	if err != nil {
		return nil, nil, err
	}
	if m.Type != wire.Done || m.Grant == nil {
		wire.CloseAll(fds)
		return nil, nil, unexpected(m)
	}
	return m, fds, conn.ReceiveUntil(time.Time{})
}

// FileError is the error of a verb as one of ours.
func FileError(err error) error {
	un, ok := errors.AsType[*remotefs.UnnotedError](err)
	if !ok {
		return launch.FileError(err)
	}
	e := *asError(launch.FileError(un.Err))
	e.Message, e.Err = "it was done, and is not in the event log", un.Err
	return &e
}
