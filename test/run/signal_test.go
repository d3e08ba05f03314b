package run

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// A live run whose output can be waited for.
type live struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	out  bytes.Buffer
	file *os.File // of --result
}

func (l *live) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

func (l *live) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// start runs a script that says "ready" when its traps are set.
func start(t *testing.T, c *jail.Caller, flags []string, script string) *live {
	t.Helper()
	return startWith(t, c, nil, flags, script)
}

// startWith is start with a stdin, for a script that reads it when it may go on.
func startWith(t *testing.T, c *jail.Caller, stdin *os.File, flags []string, script string) *live {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
	t.Cleanup(cancel)
	f, err := os.CreateTemp(c.Home, "result-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	l := &live{file: f}
	args := append([]string{"run", "--result-fd", "3", "--timeout", "200s"}, flags...)
	if stdin != nil {
		args = append(args, "--stdin", "-")
	}
	l.cmd = c.Command(ctx, append(args, "--", "sh", "-c", script)...)
	if stdin != nil {
		l.cmd.Stdin = stdin
	}
	l.cmd.ExtraFiles = []*os.File{f}
	l.cmd.Stdout, l.cmd.Stderr = l, l
	l.cmd.WaitDelay = need.Time(20 * time.Second)
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.await(t, "ready\n")
	return l
}

func (l *live) await(t *testing.T, text string) {
	t.Helper()
	if !jail.Eventually(prompt, func() bool { return strings.Contains(l.text(), text) }) {
		t.Fatalf("never said %q: %q", text, l.text())
	}
}

func (l *live) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := l.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// end waits for the end and reads the result.
func (l *live) end(t *testing.T) (code int, r *jailer.Result) {
	t.Helper()
	began := time.Now()
	l.cmd.Wait()
	if took := time.Since(began); took > prompt {
		t.Errorf("the end took %v", took)
	}
	b, err := os.ReadFile(l.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	if r, err = jailer.ParseResult(b); err != nil {
		t.Fatalf("%v in %q after %q", err, b, l.text())
	}
	return l.cmd.ProcessState.ExitCode(), r
}

// Each of the six reaches a trap in the job; the run goes on and ends as the
// job says.
func TestSignalsForwarded(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for name, s := range map[string]syscall.Signal{
			"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
			"QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := start(t, c, nil, `trap "echo got; exit 9" `+name+`; echo ready; while :; do sleep 0.1; done`)
				l.signal(t, s)
				code, r := l.end(t)
				if code != 9 || r.Status != jailer.StatusExited || !strings.Contains(l.text(), "got\n") {
					t.Errorf("exit status %d, %s: %q", code, r.Status, l.text())
				}
			})
		}
	})
}

// Without a trap the signal ends the job, and jailer says so.
func TestSignalsUntrapped(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for s, want := range map[syscall.Signal]int{
			syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGUSR1: 138,
		} {
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel()
				l := start(t, c, nil, `echo ready; exec sleep 100`)
				l.signal(t, s)
				if code, r := l.end(t); code != want || r.Status != jailer.StatusSignaled {
					t.Errorf("exit status %d, %s, want %d", code, r.Status, want)
				}
			})
		}
	})
}

// A job that does not listen goes at the second INT or TERM, and its children
// with it.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for s, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel()
				mark := marked(int(s))
				l := start(t, c, nil, `trap "echo got" INT TERM; setsid sleep `+mark+` & echo ready; while :; do sleep 0.1; done`)
				l.signal(t, s)
				l.await(t, "got\n")
				l.signal(t, s)
				code, r := l.end(t)
				if code != want || r.Status != jailer.StatusAborted {
					t.Errorf("exit status %d, %s, want %d, aborted", code, r.Status, want)
				}
				jail.Gone(t, 0, jail.Marked(mark))
			})
		}
	})
}

// 19: the run ends with the process that it is done for.
func TestOwner(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		owner := exec.CommandContext(t.Context(), "/bin/sleep", "100")
		if err := owner.Start(); err != nil {
			t.Fatal(err)
		}
		mark := marked(40 + c.UID%2)
		l := start(t, c, []string{"--owner-pid", fmt.Sprint(owner.Process.Pid)}, `trap "" TERM INT; echo ready; sleep `+mark)
		time.Sleep(300 * time.Millisecond)
		if len(jail.Living(t, jail.Marked(mark))) == 0 {
			t.Fatalf("ended before its owner: %q", l.text())
		}
		owner.Process.Kill()
		owner.Wait()
		code, r := l.end(t)
		if r.Status != jailer.StatusAborted || code != 143 {
			t.Errorf("exit status %d, %s, want 143, aborted", code, r.Status)
		}
		jail.Gone(t, 0, jail.Marked(mark))

		t.Run("gone while nobody reads the output", func(t *testing.T) {
			owner := exec.CommandContext(t.Context(), "/bin/sleep", "100")
			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), need.Time(30*time.Second))
			defer cancel()
			cmd := c.Command(ctx, "run", "--owner-pid", fmt.Sprint(owner.Process.Pid), "--", "head", "-c", "300000", "/dev/zero")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			cmd.Stdout = w
			began := time.Now()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			const full = 1 << 16 // pipe(7)
			if !jail.Eventually(prompt, func() bool { n, _ := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ); return n == full }) {
				t.Error("the pipe doesn't fill")
			}
			owner.Process.Kill()
			owner.Wait()
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 125 || ctx.Err() != nil {
				t.Errorf("%v after %v, want exit status 125", err, time.Since(began))
			}
		})
		t.Run("gone before the start", func(t *testing.T) {
			o := c.Run(t, jail.Job{Flags: []string{"--owner-pid", fmt.Sprint(owner.Process.Pid)}, Argv: []string{"sleep", "100"}})
			o.Refused(t, 125, jailer.CodeInvalidRequest, "no such process")
			o.Within(t, prompt)
		})
	})
}

// A signal in the middle of the start must neither be lost nor leave anything. The
// moments are spread over what a start takes here.
func TestSignalWhileStarting(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		setup := time.Duration(*c.Run(t, jail.Job{Argv: []string{"true"}}).Exited(t, 0).SetupMs) * time.Millisecond
		const moments = 8
		amid := 0
		// The machine may be quicker or slower than it was then.
		for i := 0; i < moments || amid == 0 && i < 8*moments; i++ {
			ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
			mark := marked(60 + i%moments)
			id := fmt.Sprintf("early-%d-%d", os.Getpid(), i)
			cmd := c.Command(ctx, "run", "--id", id, "--", "sleep", mark)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			after := setup * time.Duration(i%moments) / moments
			time.Sleep(after)
			began := time.Now()
			cmd.Process.Signal(syscall.SIGINT)
			sent := time.Now()
			cmd.Wait()
			if took := time.Since(began); took > prompt {
				t.Errorf("signal after %v of %v: the end took %v", after, setup, took)
			}
			cancel()
			jail.Gone(t, prompt, jail.Marked(mark))
			if left := jail.Cgroups(t, id); cmd.ProcessState.ExitCode() == 130 && len(left) > 0 {
				t.Errorf("left cgroups: %v", left)
			}
			at := map[string]time.Time{} // to the millisecond
			for _, e := range c.Events(t, "--session", id) {
				when, err := time.Parse(time.RFC3339, e.Time)
				if err != nil {
					t.Fatal(err)
				}
				at[e.Type] = when
			}
			if begun := at["session.created"]; !begun.IsZero() && begun.Before(began) && !at["exec.started"].Before(sent) {
				amid++
			}
		}
		if t.Logf("%d signals came between the first step and the command", amid); amid == 0 {
			t.Error("no signal hit a start")
		}
	})
}

// 32, without a terminal: what ^C sends goes to jailer's whole process group,
// and the job must see it once.
func TestInterruptOfTheGroup(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
		defer cancel()
		l := &live{}
		l.cmd = c.Command(ctx, "run", "--", "sh", "-c", `
i=0; trap "echo got; i=1" INT; echo ready; while [ $i -eq 0 ]; do sleep 0.1; done; while [ $i -lt 10 ]; do sleep 0.1; i=$((i+1)); done; exit 4`)
		l.cmd.Stdout, l.cmd.Stderr = l, l
		if l.cmd.SysProcAttr == nil {
			l.cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		l.cmd.SysProcAttr.Setpgid = true
		if err := l.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		l.await(t, "ready\n")
		if err := syscall.Kill(-l.cmd.Process.Pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		l.cmd.Wait()
		if n := strings.Count(l.text(), "got\n"); n != 1 || l.cmd.ProcessState.ExitCode() != 4 {
			t.Errorf("exit status %d, %d signals: %q", l.cmd.ProcessState.ExitCode(), n, l.text())
		}
	})
}
