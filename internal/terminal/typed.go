package terminal

import (
	"context"
	"io"
	"time"
)

// again is the time between two ^D.
const again = time.Second

// Typed is what a terminal gets from src: the bytes of src, and at its end ^D, the
// end of input of a terminal in its usual mode. The end of a file stays, that of a
// terminal holds for one read; so ^D is typed again and again until ctx ends, or a
// job that reads a second time would wait for ever. A src of nil is empty.
func Typed(ctx context.Context, src io.Reader) io.Reader { return &typed{ctx: ctx, src: src} }

type typed struct {
	ctx  context.Context
	src  io.Reader
	open bool // a line is begun
	wait bool
}

const eof = 4 // VEOF, unless the job has changed it

func (t *typed) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if t.src != nil {
		n, err := t.src.Read(p)
		if n > 0 {
			t.open = p[n-1] != '\n' && p[n-1] != '\r'
		}
		if err != nil {
			t.src = nil
		}
		if n > 0 {
			return n, nil
		}
		if t.src != nil {
			return 0, nil
		}
	}
	if t.wait {
		select {
		case <-t.ctx.Done():
			return 0, io.EOF
		case <-time.After(again):
		}
	}
	// Within a line the first one only ends the line.
	p[0], t.wait, t.open = eof, !t.open, false
	return 1, nil
}
