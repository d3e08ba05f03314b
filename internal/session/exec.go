package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/terminal"
	"github.com/jailer-project/jailer/internal/wire"
)

// errEnding is what a command is told that comes too late.
var errEnding = &jailer.Error{
	Code: jailer.CodeInvalidState, Op: "session", Reason: "session.ended",
	Message: "the session is at its end", Hint: "create another one",
}

// exec runs a command whose output the client reads himself, from the other ends of
// the pipes that he sent.
func (s *Server) exec(c *client, m *wire.Message, files []*os.File) error {
	cmd, err := command(m.Command)
	if err != nil {
		return err
	}
	e := &execution{
		c: c, signals: make(chan os.Signal, 16), exceeded: make(chan struct{}), totals: make(chan wire.Output, 1),
	}
	if cmd.Streams, err = streamsOf(m.Command, files); err != nil {
		return err
	}
	leave, ok := s.life.enter(true)
	if !ok {
		return errEnding
	}
	defer leave()
	ctx, cancel := c.context(e.hear)
	defer cancel(nil)
	cmd.Signals, cmd.OnStart, cmd.Asking = e.signals, e.started, c.asking
	cmd.Streams.Exceeded, cmd.Streams.Master = e.exceeded, e.terminal
	cmd.Streams.Totals = func(ctx context.Context) (launch.Totals, error) {
		leave() // the command is over: a client that doesn't read keeps nothing alive
		return e.count(ctx)
	}
	e.gone, e.ending = ctx.Done(), s.ending
	out, err := s.jail.Exec(ctx, cmd)
	if err != nil {
		return err
	}
	number := 0
	if sig, ok := out.Interrupt.(syscall.Signal); ok {
		number = int(sig)
	}
	return c.document(wire.Result, number, out.Result)
}

// An execution is a command and its client.
type execution struct {
	c        *client
	signals  chan os.Signal
	exceeded chan struct{}
	over     sync.Once
	totals   chan wire.Output
	gone     <-chan struct{}
	ending   <-chan struct{}
}

// hear takes what the client says while the command runs.
func (e *execution) hear(m *wire.Message) {
	switch m.Type {
	case wire.Signal:
		if m.Signal <= 0 || m.Signal > maxSignal {
			return
		}
		select {
		case e.signals <- syscall.Signal(m.Signal):
		default: // as the kernel, which keeps one of a kind
		}
	case wire.Exceeded:
		e.over.Do(func() { close(e.exceeded) })
	case wire.Totals:
		if m.Output == nil {
			return
		}
		select {
		case e.totals <- *m.Output:
		default:
		}
	}
}

// maxSignal is the kernel's SIGRTMAX (signal(7)).
const maxSignal = 64

func (e *execution) started(st launch.Started) {
	b := &wire.Begun{SessionID: st.SessionID, ExecID: st.ExecID, At: st.At, SetupMs: st.SetupMs}
	if st.Plan != nil {
		b.MaxOutput, b.OutputKeep, b.OnOutputLimit = st.Plan.Limits.MaxOutput, st.Plan.OutputKeep, st.Plan.OnOutputLimit
	}
	e.c.lost(e.c.send(&wire.Message{Type: wire.Started, Begun: b}))
}

// terminal hands on the other end of the command's terminal, and keeps none: that the
// client lets go of it hangs the job up.
func (e *execution) terminal(master *os.File) {
	e.c.lost(e.c.send(&wire.Message{Type: wire.Terminal}, master))
	master.Close()
}

// count waits for the client's count of what the command wrote. A client who doesn't
// read what is in his own pipes waits for himself alone; at the end of the session he
// is not waited for any more.
func (e *execution) count(ctx context.Context) (launch.Totals, error) {
	if err := e.c.send(&wire.Message{Type: wire.Ended}); err != nil {
		return launch.Totals{}, err
	}
	var late <-chan time.Time
	for ending := e.ending; ; {
		select {
		case t := <-e.totals:
			if t.Stdout < 0 || t.Stderr < 0 {
				return launch.Totals{}, fmt.Errorf("%w: a negative count", wire.ErrProtocol)
			}
			return launch.Totals(t), nil
		case <-e.gone:
			return launch.Totals{}, errClientGone
		case <-ctx.Done():
			return launch.Totals{}, context.Cause(ctx)
		case <-ending:
			ending = nil
			late = time.After(totalsWait)
		case <-late:
			return launch.Totals{}, errors.New("the client did not take the output before the session's end")
		}
	}
}

// streamsOf takes the job's ends of the client's pipes.
func streamsOf(c *wire.Command, files []*os.File) (*launch.Streams, error) {
	want := 2
	switch {
	case c.TTY != nil:
		want = 0
	case c.Stdin:
		want = 3
	}
	if len(files) != want {
		return nil, badFiles(fmt.Errorf("%d descriptors given, %d wanted", len(files), want))
	}
	st := &launch.Streams{}
	if want == 0 {
		return st, nil
	}
	for i, f := range files {
		mode := unix.O_WRONLY
		if c.Stdin && i == 0 {
			mode = unix.O_RDONLY
		}
		if err := checkPipe(f.Fd(), mode); err != nil { // blocking already, as everything that was received
			return nil, badFiles(fmt.Errorf("descriptor %d: %w", i, err))
		}
	}
	if c.Stdin {
		st.Stdin, files = files[0], files[1:]
	}
	st.Stdout, st.Stderr = files[0], files[1]
	return st, nil
}

// checkPipe refuses what is no end of an anonymous pipe. A file, a terminal or a named
// FIFO of the host's could be opened again in the jail through /proc/self/fd, with more
// rights than it was given with.
func checkPipe(fd uintptr, mode int) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(fd), &fs); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO || int64(fs.Type) != unix.PIPEFS_MAGIC {
		return errors.New("is no pipe")
	}
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags&unix.O_PATH != 0 || flags&unix.O_ACCMODE != mode {
		return errors.New("is the wrong end of a pipe")
	}
	return nil
}

func badFiles(err error) error {
	return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "exec", Path: "streams", Err: err}
}

// command is the wire's command as launch knows it.
func command(c *wire.Command) (cmd launch.Command, err error) {
	if c == nil {
		return cmd, &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "exec", Message: "no command given"}
	}
	cmd.Request = c.Request
	if cmd.Overrides, err = overridesOf(c.Flags); err != nil {
		return cmd, err
	}
	if c.TTY != nil {
		size := terminal.Size{Cols: c.TTY.Cols, Rows: c.TTY.Rows}
		if !size.Valid() {
			return cmd, &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "exec", Path: "tty", Message: "a terminal without a size"}
		}
		cmd.TTY = &launch.TTY{Size: size, Type: terminal.Type(c.TTY.Type)}
	}
	return cmd, nil
}
