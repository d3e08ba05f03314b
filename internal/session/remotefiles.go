package session

import (
	"errors"
	"os"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/jailpath"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/remotefs"
	"github.com/jailer-project/jailer/internal/wire"
)

// A FilesRequest says what a verb needs of a workspace.
type FilesRequest struct {
	Rights []string // capabilities
	Paths  []string // that it will write; none: any
}

func (r FilesRequest) paths() (out [][]byte) {
	for _, p := range r.Paths {
		out = append(out, []byte(jailpath.Relative(p)))
	}
	return out
}

// Files opens the workspace of a session. The caller closes it.
func (c *Client) Files(id string, r FilesRequest) (*remotefs.Workspace, error) {
	conn, err := c.connect(id)
	if err != nil {
		return nil, err
	}
	m, fds, err := c.open(conn, r)
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

func (c *Client) open(conn *wire.Conn, r FilesRequest) (*wire.Message, []*os.File, error) {
	if err := conn.ReceiveUntil(time.Now().Add(answerWait)); err != nil {
		return nil, nil, err
	}
	if err := c.send(conn, &wire.Message{Type: wire.Files, Rights: r.Rights, Paths: r.paths()}); err != nil {
		return nil, nil, err
	}
	m, fds, err := c.answer(conn)
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
