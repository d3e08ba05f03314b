package terminal

import (
	"context"
	"io"
	"time"
)

const (
	// settle is the time from the end of input to the first ^D. One that lies in
	// the terminal's buffer when a program (a shell, script(1)) takes its lines
	// apart itself becomes a NUL byte, so it comes when programs have started.
	settle = 200 * time.Millisecond
	// again is the time from one ^D to the next.
	again = time.Second

	eof = 4 // VEOF, unless the job has changed it
)

// Typed is what a terminal gets from src: the bytes of src, and at its end ^D, the
// end of input of a terminal in its usual mode. The end of a file stays, that of a
// terminal holds for one read; so ^D is typed again and again until ctx ends, or a
// job that reads a second time would wait for ever. A src of nil is empty.
func Typed(ctx context.Context, src io.Reader) io.Reader {
	return &typed{ctx: ctx, src: src, pause: settle}
}

type typed struct {
	ctx   context.Context
	src   io.Reader // nil: at its end
	line  bool      // one is begun
	pause time.Duration
}

func (t *typed) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for t.src != nil {
		n, err := t.src.Read(p)
		if err != nil {
			t.src = nil
		}
		if n > 0 {
			t.line = p[n-1] != '\n' && p[n-1] != '\r'
			return n, nil
		}
	}
	select {
	case <-t.ctx.Done():
		return 0, io.EOF
	case <-time.After(t.pause):
	}
	p[0], t.pause = eof, again
	if t.line { // this one ends the line only
		t.line, t.pause = false, 0
	}
	return 1, nil
}
