package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/wire"
)

// Delete ends a session, and returns when nothing of it is left: nothing at all is
// that too. What a dead supervisor has left is removed as gc would.
func (c *Client) Delete(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, endWait)
	defer cancel()
	for {
		again, err := c.tryDelete(ctx, id)
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = context.Cause(ctx)
			}
			return &jailer.Error{
				Code: jailer.CodeInvalidState, Op: "session.delete", Retryable: true,
				Message: "session " + id + " is not gone yet", Err: err,
				Hint: "look what is left: jailer gc --dry-run",
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tryDelete says whether to try again, and for which reason.
func (c *Client) tryDelete(ctx context.Context, id string) (again bool, err error) {
	e, err := c.find(id)
	if je, ok := errors.AsType[*jailer.Error](err); ok && je.Code == jailer.CodeSessionNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !e.Alive {
		return c.reap(ctx, id)
	}
	if err := alive(e); err != nil {
		return false, err
	}
	conn, err := c.dial(e)
	if err != nil {
		je, ok := errors.AsType[*jailer.Error](err)
		return ok && je.Retryable, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	var doc struct{}
	err = c.ask(conn, time.Until(deadline), &wire.Message{Type: wire.Delete}, &doc)
	if je, ok := errors.AsType[*jailer.Error](err); ok && je.Reason == "session.ended" {
		return true, err // it went before it answered: what is left is looked at anew
	}
	if err != nil {
		return false, err
	}
	_, _, _ = conn.Receive() // the end of the supervisor itself, at most until the deadline
	return true, nil
}

// reap removes what a dead supervisor has left.
func (c *Client) reap(ctx context.Context, id string) (again bool, err error) {
	l, found := c.Dir.ReapOne(ctx, id)
	switch {
	case !found: // gone, or another is at it
		return true, nil
	case l.Err != "":
		return false, &jailer.Error{
			Code: jailer.CodeInternal, Op: "session.delete", Retryable: true,
			Message: fmt.Sprintf("session %s can't be removed", id), Err: errors.New(l.Err),
			Hint: "jailer gc tries again",
		}
	}
	return false, nil
}
