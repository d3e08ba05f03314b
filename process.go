package jailer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is one start of the program with its pipes. Descriptor 3 carries the
// request in, 4 the result out, 5 the token in, if there is one.
type process struct {
	cmd  *exec.Cmd
	said tail // the program's messages, when nobody else takes them

	requestR, requestW *os.File
	resultR, resultW   *os.File
	stdinR, stdinW     *os.File // nil unless stdin has to be copied
	stdin              io.Reader
}

func newProcess(path string, args []string, s IO, more *os.File) (*process, error) {
	p := &process{cmd: exec.Command(path, args...)}
	// exec.Command leaves an absolute path as it is: no search.
	p.cmd.Env = environment()
	p.cmd.Dir = "/"
	p.cmd.WaitDelay = drainTime
	p.cmd.Stdout = s.Stdout
	p.cmd.Stderr = s.Stderr
	if s.Stdout == nil && s.Stderr == nil {
		p.cmd.Stderr = &p.said
	}
	if err := p.openPipes(s.Stdin); err != nil {
		p.closeAll()
		return nil, startError(path, err)
	}
	p.cmd.ExtraFiles = []*os.File{p.requestR, p.resultW}
	if more != nil {
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, more)
	}
	if err := p.cmd.Start(); err != nil {
		p.closeAll()
		return nil, startError(path, err)
	}
	closeFiles(p.requestR, p.resultW, p.stdinR) // the program's ends
	return p, nil
}

func (p *process) openPipes(stdin io.Reader) (err error) {
	if p.requestR, p.requestW, err = os.Pipe(); err != nil {
		return err
	}
	if p.resultR, p.resultW, err = os.Pipe(); err != nil {
		return err
	}
	if f, ok := stdin.(*os.File); ok || stdin == nil {
		if ok {
			p.cmd.Stdin = f
		}
		return nil
	}
	// exec.Cmd would wait for its copying goroutine, and so for a Reader that
	// may never end; the run must not.
	p.stdin = stdin
	if p.stdinR, p.stdinW, err = os.Pipe(); err != nil {
		return err
	}
	p.cmd.Stdin = p.stdinR
	return nil
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

func (p *process) closeAll() {
	closeFiles(p.requestR, p.requestW, p.resultR, p.resultW, p.stdinR, p.stdinW)
}

// run feeds the program, waits for its end and returns its result document.
// stopped says that it was ended on behalf of ctx.
func (p *process) run(ctx context.Context, request []byte, grace time.Duration, log *slog.Logger) (out []byte, stopped bool, err error) {
	defer p.closeAll()
	if p.stdin != nil {
		go func() {
			// Whatever fails here, the command sees the end of its input; a
			// command that doesn't read all of it is no error.
			_, _ = io.Copy(p.stdinW, p.stdin)
			p.stdinW.Close()
		}()
	}

	var work sync.WaitGroup
	work.Go(func() {
		// A program that ends early leaves a broken pipe: its result says why.
		_, _ = p.requestW.Write(request)
		p.requestW.Close()
	})
	var readErr error
	work.Go(func() { out, readErr = io.ReadAll(io.LimitReader(p.resultR, maxResult+1)) })
	gone := make(chan struct{})
	work.Go(func() { stopped = p.stopOn(ctx, gone, grace, log) })

	err = p.cmd.Wait()
	close(gone)
	// All of the result is in the pipe or read by now. A deadline on both
	// pipes ends the goroutines even if another process holds the other ends.
	_ = p.resultR.SetReadDeadline(time.Now().Add(drainTime))
	_ = p.requestW.SetWriteDeadline(time.Now())
	work.Wait()
	switch {
	case len(out) > maxResult:
		return nil, stopped, errors.New("the result is larger than 1 GiB")
	case readErr != nil && !errors.Is(readErr, os.ErrDeadlineExceeded) && err == nil:
		err = readErr
	}
	return out, stopped, err
}

// stopOn ends the program when ctx does, and says whether it did: SIGTERM lets it end the job in order,
// a second SIGINT is its "now", SIGKILL takes the jail with it through the
// kernel and leaves the directories to gc.
func (p *process) stopOn(ctx context.Context, gone <-chan struct{}, grace time.Duration, log *slog.Logger) bool {
	select {
	case <-gone:
		return false
	case <-ctx.Done():
	}
	for _, step := range [][]os.Signal{{syscall.SIGTERM}, {syscall.SIGINT, syscall.SIGINT}, {os.Kill}} {
		for i, sig := range step {
			if i > 0 {
				// Two equal signals at once are one to the receiver.
				time.Sleep(100 * time.Millisecond)
			}
			log.Debug("stopping jailer", "signal", sig.String(), "pid", p.cmd.Process.Pid)
			_ = p.cmd.Process.Signal(sig) // fails only when it is gone
		}
		t := time.NewTimer(grace)
		select {
		case <-gone:
			t.Stop()
			return true
		case <-t.C:
		}
	}
	<-gone
	return true
}
