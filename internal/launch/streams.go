package launch

import (
	"context"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/stream"
)

// Streams are the job's ends of pipes that somebody else holds the other ends of. Exec
// closes them as soon as the job has its own; who closes them again does no harm.
type Streams struct {
	Stdin, Stdout, Stderr *os.File // Stdin nil: the job reads /dev/null

	// Master takes the launcher's end of the job's terminal, where there is one.
	Master func(*os.File)
	// Exceeded is readable when output is over the cap and the plan says kill.
	Exceeded <-chan struct{}
	// Totals waits, once all processes of the command are gone, until what they wrote
	// has been read, and tells how much that was. It may be nil.
	Totals func(context.Context) (Totals, error)
}

// Totals is what a command wrote.
type Totals struct {
	Stdout, Stderr                   int64 // bytes produced
	StdoutTruncated, StderrTruncated bool
}

type stdio struct{ stdin, stdout, stderr *os.File }

func (s *stdio) close() { closeAll([]*os.File{s.stdin, s.stdout, s.stderr}) }

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// openStreams makes the job's standard streams. They are always pipes of ours,
// or a terminal of the jail's own, which PID 1 makes: a file or terminal of the
// caller's handed on could be opened again through /proc/self/fd with more
// rights than it was given with.
func (c *command) openStreams() (s *stdio, err error) {
	s = &stdio{}
	if c.o.TTY != nil {
		return s, nil
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if e := c.o.Streams; e != nil {
		*s = stdio{e.Stdin, e.Stdout, e.Stderr}
		if c.plan.HasStdin || s.stdin == nil {
			closeAll([]*os.File{s.stdin})
			if s.stdin, err = c.openInput(); err != nil {
				return s, err
			}
		}
		return s, c.j.give(s)
	}
	if s.stdin, err = c.openInput(); err != nil {
		return s, err
	}
	if s.stdout, c.stdout, err = c.capture(c.o.Stdout); err != nil {
		return s, err
	}
	s.stderr, c.stderr, err = c.capture(c.o.Stderr)
	if err != nil {
		return s, err
	}
	return s, c.j.give(s)
}

// openInput is a pipe with what the job reads, or /dev/null.
func (c *command) openInput() (*os.File, error) {
	src := c.input()
	if src == nil {
		return os.Open(os.DevNull)
	}
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stream.Feed(c.ctx, src, wr)
	return rd, nil
}

// input is what the job reads, nil if nothing.
func (c *command) input() io.Reader {
	if c.plan.HasStdin {
		return strings.NewReader(string(c.plan.Stdin))
	}
	return c.o.Stdin
}

// give lets the job open its own end again, as `echo > /dev/stdout` does: a
// pipe belongs to its maker, who has another id than the job of real root or
// of an id range. Nobody but the job can get at it to use the mode.
func (j *Jail) give(s *stdio) error {
	for _, f := range []*os.File{s.stdin, s.stdout, s.stderr} {
		st, err := statOf(f)
		if err != nil || st == nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			if err != nil {
				return err
			}
			continue
		}
		switch {
		case j.ids.owned:
			err = f.Chown(int(j.ids.uid), int(j.ids.gid))
		case j.ids.n > 0:
			err = f.Chmod(0o666)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func statOf(f *os.File) (*unix.Stat_t, error) {
	if f == nil {
		return nil, nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	st := new(unix.Stat_t)
	var serr error
	if err := raw.Control(func(fd uintptr) { serr = unix.Fstat(int(fd), st) }); err != nil {
		return nil, err
	}
	return st, serr
}

// capture makes one output pipe and begins to read it; out nil keeps it in
// memory.
func (c *command) capture(out io.Writer) (*os.File, *stream.Capture, error) {
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return wr, c.read(rd, out), nil
}

// read begins to read the job's output from f.
func (c *command) read(f *os.File, out io.Writer) *stream.Capture {
	o := stream.Options{
		Out:  out,
		Cap:  c.plan.Limits.MaxOutput,
		Keep: stream.Keep(c.plan.OutputKeep),
		OnExceed: func() {
			select {
			case c.exceeded <- struct{}{}:
			default:
			}
		},
	}
	if c.plan.OnOutputLimit == jailer.OnLimitKill {
		o.OnLimit = stream.Kill
	}
	return stream.Start(f, o)
}

func delivered(c *stream.Capture) int64 {
	if c == nil {
		return 0
	}
	return c.Delivered()
}
