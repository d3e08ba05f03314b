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
	Resized func(terminal.Size)  // called when the job's terminal has a new size; may be nil
	// Release is called when the job is over and its output is not taken. The
	// caller's ^C must then be the caller's again. It may be nil.
	Release func()
}

// takeTerminal receives our end from PID 1.
func (r *run) takeTerminal(master *os.File) {
	r.master = master
	r.later(func() error { master.Close(); return nil }) // closed already after a whole run
}

// openTerminal begins to read the job's terminal, and to type on it. It comes
// after OnStart, in which the caller's own terminal was made ready for both. The
// command runs already: what goes wrong here ends it, and is told in its result.
func (r *run) openTerminal() {
	if r.o.TTY == nil {
		return
	}
	in, err := duplicate(r.master)
	out, err2 := duplicate(r.master)
	if out == nil {
		out = r.master
	}
	r.stdout = r.read(out, r.o.Stdout)
	ctx, cancel := context.WithCancel(r.ctx)
	if err := errors.Join(err, err2); err == nil {
		stream.Feed(ctx, terminal.Typed(ctx, r.input()), in)
	} else {
		closeAll([]*os.File{in}) // else the job would keep its terminal when we let go
		r.fail(&jailer.Error{Code: jailer.CodeInternal, Op: "stream", Reason: "host.resources", Err: err})
		r.stop(causeAborted)
	}
	go func() {
		// Nobody reads it any more. Where the job still lives (the reader of our
		// own output has gone), the end of our side hangs it up, as SIGPIPE would
		// end it in a pipeline.
		<-r.stdout.Done()
		cancel()
		r.master.Close()
	}()
}

func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var derr error
	if err := raw.Control(func(p uintptr) { fd, derr = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 3) }); err != nil {
		return nil, err
	}
	if derr != nil {
		return nil, os.NewSyscallError("fcntl", derr)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// resizes is the channel of new sizes, nil where there are none.
func (r *run) resizes() <-chan terminal.Size {
	if r.o.TTY == nil {
		return nil
	}
	return r.o.TTY.Resize
}

func (r *run) resize(s terminal.Size) {
	if err := terminal.Resize(r.master, s); err != nil {
		r.log.Debug("terminal not resized", "size", s.String(), "err", err)
		return
	}
	if r.o.TTY.Resized != nil {
		r.o.TTY.Resized(s)
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
