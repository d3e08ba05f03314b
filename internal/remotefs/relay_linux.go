package remotefs

import (
	"context"
	"errors"
	"io"
	"time"
)

// grace is how long the end of a verb waits for a Read or Write that is going on.
const grace = 250 * time.Millisecond

// A relay reads from the caller's Reader or writes to his Writer, in goroutines that are
// not the files' user (asuser.Do): what those do may be work of their own. Nothing is
// read before it is asked for, so that nothing goes on when the verb has returned, but
// for a Read or Write that blocks at the end of ctx: that nobody can end.
type relay struct {
	ctx context.Context
	b   []byte // not the verb's: the other side may have it for longer
	n   int64  // bytes that were moved
}

func (r *relay) do(f func(b []byte) (int, error)) (int, error) {
	if cause := context.Cause(r.ctx); cause != nil {
		return 0, cause
	}
	type result struct {
		n   int
		err error
	}
	b := r.b
	got := make(chan result, 1)
	go func() {
		n, err := f(b)
		got <- result{n, err}
	}()
	take := func(g result) (int, error) {
		r.n += int64(g.n)
		return g.n, g.err
	}
	select {
	case g := <-got:
		return take(g)
	case <-r.ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case g := <-got:
		return take(g)
	case <-late.C:
		r.b = nil
		return 0, context.Cause(r.ctx)
	}
}

type reader struct {
	relay
	in io.Reader
	// end is asked at the end of the input: what is then done with it is no session's any
	// more if its supervisor has died meanwhile, and nobody has seen that yet.
	end func() error
}

func (r *reader) Read(b []byte) (int, error) {
	if len(r.b) < len(b) {
		r.b = make([]byte, len(b))
	}
	n, err := r.do(func(own []byte) (int, error) { return r.in.Read(own[:len(b)]) })
	if errors.Is(err, io.EOF) {
		if gone := r.end(); gone != nil {
			err = gone
		}
	}
	return copy(b, r.b[:n]), err
}

type writer struct {
	relay
	out io.Writer
}

func (w *writer) Write(b []byte) (int, error) {
	w.b = append(w.b[:0], b...)
	return w.do(w.out.Write)
}
