package remotefs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/internal/wire"
)

// errEnded: a file verb is the session's, and ends with it.
var errEnded = &files.Error{Code: files.InvalidState, Op: "session.files", Message: "the session has ended"}

// noteWait is more than the supervisor waits for other writers of the event log.
const noteWait = 15 * time.Second

// A link is the connection to the supervisor, once it has handed the workspace out.
type link struct {
	conn    *wire.Conn
	refused func(*wire.Message) error // the error that a message of type wire.Error is
	alive   context.Context           // ends with the session or with close; its cause says why
	end     context.CancelCauseFunc
	answers chan *wire.Message
	mu      sync.Mutex // one change at a time
}

func newLink(conn *wire.Conn, refused func(*wire.Message) error) *link {
	l := &link{conn: conn, refused: refused, answers: make(chan *wire.Message)}
	l.alive, l.end = context.WithCancelCause(context.Background())
	go l.listen()
	return l
}

// listen sees the supervisor go: nothing else tells of the session's end.
func (l *link) listen() {
	for {
		m, fds, err := l.conn.Receive()
		wire.CloseAll(fds)
		if err != nil {
			l.end(errEnded)
			return
		}
		select {
		case l.answers <- m:
		case <-l.alive.Done():
			return
		}
	}
}

// gone looks whether the session has ended, and ends ctx then.
func (l *link) gone(end context.CancelCauseFunc) error {
	if l.conn.Gone() {
		l.end(errEnded)
	}
	cause := context.Cause(l.alive)
	if cause != nil {
		end(cause)
	}
	return cause
}

func (l *link) close() {
	l.end(errEnded)
	l.conn.Close()
}

// within is ctx, until the session ends.
func (l *link) within(ctx context.Context) (context.Context, func()) {
	ctx, _, done := l.withinEnd(ctx)
	return ctx, done
}

// withinEnd also gives what ends it.
func (l *link) withinEnd(ctx context.Context) (context.Context, context.CancelCauseFunc, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if cause := context.Cause(l.alive); cause != nil {
		cancel(cause) // AfterFunc would do it later
	}
	stop := context.AfterFunc(l.alive, func() { cancel(context.Cause(l.alive)) })
	return ctx, cancel, func() { stop(); cancel(nil) }
}

// note tells the supervisor of a change, and returns when it is in the event log.
func (l *link) note(c *wire.Change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.conn.Send(&wire.Message{Type: wire.Note, Change: c}); err != nil {
		return err
	}
	late := time.NewTimer(noteWait)
	defer late.Stop()
	select {
	case m := <-l.answers:
		switch m.Type {
		case wire.Done:
			return nil
		case wire.Error:
			return l.refused(m)
		}
		return fmt.Errorf("unexpected message %.40q", m.Type)
	case <-l.alive.Done():
		return context.Cause(l.alive)
	case <-late.C:
		l.end(&files.Error{Code: files.InvalidState, Op: "session.files", Message: "the session's supervisor doesn't answer"}) // a later answer would be taken for another's
		return context.Cause(l.alive)
	}
}
