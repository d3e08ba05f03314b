package session

import (
	"context"
	"errors"
	"io"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/ring"
	"github.com/jailer-project/jailer/internal/wire"
)

// logs sends what is kept of a process's output, and with Follow what comes, until
// its end. A client that doesn't read falls behind and is let go; the process never
// waits for it.
func (s *Server) logs(c *client, m *wire.Message) error {
	p, err := s.process(m.Process)
	if err != nil {
		return err
	}
	var log *ring.Log
	switch m.Stream {
	case "stdout":
		log = p.stdout
	case "stderr":
		log = p.stderr
	default:
		return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "logs", Path: "stream", Message: "must be stdout or stderr"}
	}
	total, _ := log.Count()
	from := int64(0)
	if m.Tail > 0 {
		from = max(0, total-int64(m.Tail))
	}
	ctx, cancel := c.context(func(*wire.Message) {})
	defer cancel(nil)
	if m.Follow {
		c.SendWithin(followWait)
		total = -1
	}
	return c.copyLog(ctx, log, from, total)
}

// copyLog sends the log from an offset to another, or, where that is negative, to the
// end of the stream.
func (c *client) copyLog(ctx context.Context, log *ring.Log, from, to int64) error {
	for to < 0 || from < to {
		data, at, err := log.Next(ctx, from)
		if errors.Is(err, io.EOF) {
			if at > from { // all that was left fell out before we came to it
				err = c.send(&wire.Message{Type: wire.Data, Lost: at - from})
				c.lost(err)
			}
			break
		}
		if err != nil {
			return nil // the client is gone
		}
		if to >= 0 {
			data = data[:max(0, min(int64(len(data)), to-at))]
		}
		if err := c.send(&wire.Message{Type: wire.Data, Lost: at - from, Data: data}); err != nil {
			c.lost(err)
			return nil
		}
		from = at + int64(len(data))
	}
	c.lost(c.send(&wire.Message{Type: wire.End}))
	return nil
}
