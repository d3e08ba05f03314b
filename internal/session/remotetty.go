package session

import (
	"bytes"
	"context"
	"io"
	"os"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/stream"
	"github.com/jailer-project/jailer/internal/terminal"
)

// openTerminal reads the command's terminal and types on it, as launch does in a run.
func (r *remote) openTerminal(ctx context.Context, master *os.File) error {
	in, err := terminal.Duplicate(master)
	if err != nil {
		master.Close()
		return &jailer.Error{Code: jailer.CodeInternal, Op: "stream", Reason: "host.resources", Err: err}
	}
	out, err := terminal.Duplicate(master)
	if err != nil {
		master.Close()
		in.Close()
		return &jailer.Error{Code: jailer.CodeInternal, Op: "stream", Reason: "host.resources", Err: err}
	}
	r.master = master
	r.stdout = r.capture(out, launch.Options{Stdout: r.o.Stdout})
	ctx, cancel := context.WithCancel(ctx)
	stream.Feed(ctx, terminal.Typed(ctx, r.input()), in)
	go func() {
		<-r.stdout.Done() // nobody reads it any more: that our side ends hangs the job up
		cancel()
		master.Close()
	}()
	return nil
}

// input is what is typed: the request's own, else the caller's.
func (r *remote) input() io.Reader {
	if q := r.request(); q != nil && q.Stdin != nil {
		data, _ := q.StdinData() // ParseRequest has checked it
		return bytes.NewReader(data)
	}
	return r.o.Stdin
}

// inline says that the request has a standard input of its own.
func (r *remote) inline() bool {
	q := r.request()
	return q != nil && q.Stdin != nil
}

// request is the document, nil if there is none that the supervisor would take.
func (r *remote) request() *jailer.Request {
	if r.o.Request == nil {
		return nil
	}
	q, err := jailer.ParseRequest(r.o.Request)
	if err != nil {
		return nil
	}
	return q
}

func (r *remote) resize(size terminal.Size) {
	if r.master == nil {
		return
	}
	if r.o.TTY.Resized != nil {
		r.o.TTY.Resized(size)
	}
	_ = terminal.Resize(r.master, size) // of a job that has just ended
}
