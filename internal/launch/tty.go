package launch

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/internal/stream"
	"github.com/jailer-project/jailer/internal/terminal"
)

// A TTY is a terminal of the job's own. It is made by PID 1 in a devpts instance
// of the jail's; the launcher holds the other end of it alone. What the job
// writes comes out as one stream, Stdout; Stdin is typed on it.
type TTY struct {
	Size    terminal.Size        // at the start
	Type    string               // the job's TERM, unless the plan has one
	Resize  <-chan terminal.Size // nil: the size stays
	Resized func(terminal.Size)  // called right before the job's terminal has a new size, so before any answer to it; may be nil
	// Release is called when the job is over and its output is not taken. The
	// caller's ^C must then be the caller's again. It may be nil.
	Release func()
}

// openTerminal begins to read the job's terminal, and to type on it. It comes
// after OnStart, in which the caller's own terminal was made ready for both. The
// command runs already: what goes wrong here ends it, and is told in its result.
func (c *command) openTerminal() {
	if c.o.TTY == nil {
		return
	}
	if e := c.o.Streams; e != nil {
		e.Master(c.master) // the other's from here on
		c.master = nil
		return
	}
	in, err := terminal.Duplicate(c.master)
	out, err2 := terminal.Duplicate(c.master)
	if out == nil {
		out = c.master
	}
	c.stdout = c.read(out, c.o.Stdout)
	ctx, cancel := context.WithCancel(c.ctx)
	if err := errors.Join(err, err2); err == nil {
		stream.Feed(ctx, terminal.Typed(ctx, c.input()), in)
	} else {
		closeAll([]*os.File{in}) // else the job would keep its terminal when we let go
		c.fail(&jailer.Error{Code: jailer.CodeInternal, Op: "stream", Reason: "host.resources", Err: err})
		c.stop(causeAborted)
	}
	master := c.master
	go func() {
		// Nobody reads it any more. Where the job still lives (the reader of our
		// own output has gone), the end of our side hangs it up, as SIGPIPE would
		// end it in a pipeline.
		<-c.stdout.Done()
		cancel()
		master.Close()
	}()
}

// resizes is the channel of new sizes, nil where there are none.
func (c *command) resizes() <-chan terminal.Size {
	if c.o.TTY == nil || c.o.Streams != nil {
		return nil
	}
	return c.o.TTY.Resize
}

func (c *command) resize(s terminal.Size) {
	if c.o.TTY.Resized != nil {
		c.o.TTY.Resized(s)
	}
	if err := terminal.Resize(c.master, s); err != nil {
		c.j.log.Debug("terminal not resized", "size", s.String(), "err", err)
	}
}

// terminalError is the error of a start that could not have its terminal.
func terminalError(se *pid1.StartError) *jailer.Error {
	if se.Errno != unix.ENOSPC {
		return nil
	}
	return &jailer.Error{
		Code: jailer.CodeInternal, Reason: "host.resources", Retryable: true,
		Message: "the host has no terminal left", Err: se.Errno,
		Hint: "raise kernel.pty.max (`sysctl kernel.pty`), or wait until another has ended",
	}
}
