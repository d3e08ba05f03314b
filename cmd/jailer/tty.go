package main

import (
	"io"
	"os"
	"os/signal"
	"sync"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/terminal"
)

type ttyFlags struct {
	tty     bool
	ttySize string
}

func (f *ttyFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.tty, "tty", false, "give the command a terminal of its own")
	fs.StringVar(&f.ttySize, "tty-size", "", "size of the terminal as `COLSxROWS` (default the caller's, else 80x24)")
}

// terminal is the job's, nil without --tty: of the size that --tty-size says, or
// else the caller's terminal has.
func (f *ttyFlags) terminal(a *app) (*launch.TTY, error) {
	if !f.tty {
		if f.ttySize != "" {
			return nil, usagef("--tty-size: only with --tty")
		}
		return nil, nil
	}
	tty := &launch.TTY{Size: terminal.Default, Type: terminal.Type(a.term)}
	if f.ttySize != "" {
		size, err := terminal.ParseSize(f.ttySize)
		if err != nil {
			return nil, usagef("--tty-size %q: %v", f.ttySize, err)
		}
		tty.Size = size
	} else if size, ok := terminal.SizeOf(a.views()...); ok {
		tty.Size = size
	}
	return tty, nil
}

// views are our streams: the first that is a terminal is the caller's.
func (a *app) views() []*os.File {
	views := []*os.File{a.in}
	for _, w := range []io.Writer{a.out, a.err} {
		if file, ok := w.(*os.File); ok {
			views = append(views, file)
		}
	}
	return views
}

// A ttySession is a command on a terminal of its own, seen from the caller's, if there is
// one.
type ttySession struct {
	a     *app
	keys  *os.File // the caller's terminal, if what is typed on it is the job's
	fixed bool     // the size of the caller's terminal is not followed

	mu  sync.Mutex
	raw *terminal.Raw // nil until the job has started
}

// attend follows the caller's terminal until the returned function is called,
// which puts its modes back.
func (s *ttySession) attend(tty *launch.TTY) (leave func()) {
	resize, done := make(chan terminal.Size, 1), make(chan struct{})
	tty.Resize, tty.Release = resize, s.restore
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, unix.SIGWINCH, unix.SIGCONT)
	if s.keys != nil && !signal.Ignored(unix.SIGTSTP) {
		signal.Notify(ch, unix.SIGTSTP)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			select {
			case <-done:
				return
			case sig := <-ch:
				s.notice(sig, resize)
			}
		}
	})
	return func() {
		signal.Stop(ch)
		close(done)
		ended.Wait()
		s.restore()
	}
}

func (s *ttySession) notice(sig os.Signal, resize chan terminal.Size) {
	raw := s.rawMode()
	switch {
	case sig == unix.SIGTSTP:
		// From outside: ^Z is the job's. The shell gets its terminal as it was.
		if raw != nil {
			_ = raw.Pause()
		}
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP)
		return
	case sig == unix.SIGCONT && raw != nil && terminal.Foreground(s.keys):
		// In the background it would stop us, as reading will, until the shell
		// continues us in the foreground.
		_ = raw.Again()
	}
	size, ok := terminal.SizeOf(s.a.views()...)
	if !ok || s.fixed {
		return
	}
	select { // only the latest counts
	case <-resize:
	default:
	}
	resize <- size
}

// begin makes the caller's terminal the job's keyboard.
func (s *ttySession) begin(st launch.Started) {
	if s.keys == nil || !st.Stdin {
		return
	}
	raw, err := terminal.MakeRaw(s.keys)
	if err != nil {
		s.a.warn("the terminal stays as it is: %v", err)
	}
	s.mu.Lock()
	s.raw = raw
	s.mu.Unlock()
}

func (s *ttySession) rawMode() *terminal.Raw {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw
}

func (s *ttySession) restore() {
	if err := s.rawMode().Restore(); err != nil {
		s.a.warn("the terminal could not be put back: %v", err)
	}
}
