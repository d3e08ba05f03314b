package launch

import (
	"io"
	"os"
	"strings"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/stream"
)

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
func (r *run) openStreams() (s *stdio, err error) {
	s = &stdio{}
	if r.o.TTY != nil {
		return s, nil
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if src := r.input(); src != nil {
		rd, wr, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s.stdin = rd
		stream.Feed(r.ctx, src, wr)
	}
	if s.stdout, r.stdout, err = r.capture(r.o.Stdout); err != nil {
		return s, err
	}
	s.stderr, r.stderr, err = r.capture(r.o.Stderr)
	if err != nil {
		return s, err
	}
	for _, f := range []*os.File{s.stdin, s.stdout, s.stderr} {
		if err := r.give(f); err != nil {
			return s, err
		}
	}
	return s, nil
}

// input is what the job reads, nil if nothing.
func (r *run) input() io.Reader {
	if r.plan.HasStdin {
		return strings.NewReader(string(r.plan.Stdin))
	}
	return r.o.Stdin
}

// give lets the job open its own end again, as `echo > /dev/stdout` does: a
// pipe belongs to its maker, who has another id than the job of real root or
// of an id range. Nobody but the job can get at it to use the mode.
func (r *run) give(f *os.File) error {
	switch {
	case f == nil:
		return nil
	case r.ids.owned:
		return f.Chown(int(r.ids.uid), int(r.ids.gid))
	case r.ids.n > 0:
		return f.Chmod(0o666)
	}
	return nil
}

// capture makes one output pipe and begins to read it; out nil keeps it in
// memory.
func (r *run) capture(out io.Writer) (*os.File, *stream.Capture, error) {
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return wr, r.read(rd, out), nil
}

// read begins to read the job's output from f.
func (r *run) read(f *os.File, out io.Writer) *stream.Capture {
	o := stream.Options{
		Out:  out,
		Cap:  r.plan.Limits.MaxOutput,
		Keep: stream.Keep(r.plan.OutputKeep),
		OnExceed: func() {
			select {
			case r.exceeded <- struct{}{}:
			default:
			}
		},
	}
	if r.plan.OnOutputLimit == jailer.OnLimitKill {
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
