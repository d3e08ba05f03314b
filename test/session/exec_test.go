package session

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// A command of a session has a terminal as one of a run has.
func TestTerminal(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "tty")
		o := in(t, c, "tty", jail.Job{Flags: []string{"--tty", "--tty-size", "100x40"}, Sh: "tty; stty size; tty >&2; exit 4"})
		if r := o.Exited(t, 4); !r.Terminal || o.Out() != "/dev/pts/0\r\n40 100\r\n/dev/pts/0\r\n" || r.StderrBytes != 0 {
			t.Error(o)
		}
		o = in(t, c, "tty", jail.Job{Flags: []string{"--tty", "--stdin", "-"}, Sh: "stty -echo; read a; read b; echo $b $a", Input: "one\ntwo\n"})
		if o.Exited(t, 0); !strings.HasSuffix(o.Out(), "two one\r\n") {
			t.Error(o)
		}
		o = in(t, c, "tty", jail.Job{Flags: []string{"--tty", "--request", "-"}, Input: `{"argv":["sh","-c","stty -echo; read a; echo got $a"],"stdin":"inline\n"}`})
		if o.Exited(t, 0); !strings.HasSuffix(o.Out(), "got inline\r\n") {
			t.Error(o)
		}
	})
}

// signalled starts an exec, sends it signals once the command is ready, and gives its
// exit status and output.
func signalled(t *testing.T, c *jail.Caller, id, script string, signals ...syscall.Signal) (int, string) {
	t.Helper()
	cmd := c.Command(t.Context(), "exec", id, "--", "sh", "-c", script)
	var out, errs bytes.Buffer
	r, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hang := time.AfterFunc(prompt, func() { cmd.Process.Kill() })
	defer hang.Stop()
	b := make([]byte, 100)
	for {
		n, err := r.Read(b)
		out.Write(b[:n])
		if err != nil {
			break
		}
		if len(signals) > 0 && strings.Contains(out.String(), "ready\n") {
			for _, s := range signals {
				cmd.Process.Signal(s)
				time.Sleep(need.Time(50 * time.Millisecond)) // two at once are one
			}
			signals = nil
		}
	}
	_ = cmd.Wait() // the status is looked at
	return cmd.ProcessState.ExitCode(), out.String() + errs.String()
}

// Signals of the client's are the command's; the second TERM ends it.
func TestSignals(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "signal")
		loop := "echo ready; while :; do sleep 0.05; done"
		if code, out := signalled(t, c, "signal", "trap 'exit 9' TERM; "+loop, syscall.SIGTERM); code != 9 {
			t.Errorf("%d: %s", code, out)
		}
		if code, out := signalled(t, c, "signal", "trap 'echo usr; exit 8' USR1; "+loop, syscall.SIGUSR1); code != 8 || !strings.Contains(out, "usr\n") {
			t.Errorf("%d: %s", code, out)
		}
		if code, out := signalled(t, c, "signal", "trap '' TERM; "+loop, syscall.SIGTERM, syscall.SIGTERM); code != 143 || !strings.Contains(out, "aborted") {
			t.Errorf("%d: %s", code, out)
		}
		in(t, c, "signal", jail.Job{Argv: []string{"echo", "alive"}}).Said(t, "alive\n")
	})
}

// Collections at every moment: no live session is ever reaped.
func TestCollectors(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "bystander")
		var stop atomic.Bool
		var work sync.WaitGroup
		for range 2 {
			work.Go(func() {
				for !stop.Load() {
					ok(t, do(t, c, "gc"))
				}
			})
		}
		for range need.Times(10) {
			ok(t, do(t, c, "create", "--id", "raced"))
			in(t, c, "raced", jail.Job{Argv: []string{"echo", "here"}}).Said(t, "here\n")
			ok(t, do(t, c, "delete", "raced"))
		}
		stop.Store(true)
		work.Wait()
		in(t, c, "bystander", jail.Job{Argv: []string{"echo", "alive"}}).Said(t, "alive\n")
		ends(t, c, "raced")
		for _, e := range c.Events(t, "--type", "gc.reaped") {
			t.Errorf("reaped: %s", e.Line)
		}
	})
}

// A slow reader of a command's output is waited for, after its end too.
func TestSlowReader(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "slow", "--idle", "1m")
		o := c.Exec(t.Context(), "/bin/sh", "-c",
			`{ "$0" exec --state-dir "$1" slow --json -- seq 20000; echo $? >&2; } | { sleep 3; wc -c; }`, jail.Program(), c.StateDir())
		out, err := o.CombinedOutput()
		if err != nil || !bytes.HasPrefix(out, []byte("0\n")) {
			t.Errorf("%v: %s", err, out)
		}
		r := in(t, c, "slow", jail.Job{Argv: []string{"true"}}).Exited(t, 0)
		if r.Status != jailer.StatusExited {
			t.Errorf("%+v", r)
		}
	})
}

// Commands that have ended hold no place of those that may run, though nobody reads
// their output.
func TestSlowReaders(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "readers")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 16 {
			cmd := c.Command(ctx, "exec", "readers", "--", "head", "-c", "100000", "/dev/zero")
			out, err := cmd.StdoutPipe() // holds 64 KiB
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { cancel(); _ = cmd.Wait() }()
		}
		started := func() (n int) {
			for _, e := range c.Events(t, "--session", "readers") {
				if e.Type == "exec.started" {
					n++
				}
			}
			return n
		}
		if !jail.Eventually(jail.Deadline, func() bool { return started() == 16 }) {
			t.Fatalf("%d of 16 were started", started())
		}
		running(t, c, "readers", 0)
		in(t, c, "readers", jail.Job{Argv: []string{"true"}}).Exited(t, 0)
	})
}

// A supervisor that is stopped is told from one that is gone, and holds nobody up for
// ever.
func TestStopped(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "still")
		pid := supervisor(t, c, "still")
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(pid, syscall.SIGCONT)
		// A thread that runs on another CPU stops when it comes to the kernel.
		if !jail.Eventually(need.Time(5*time.Second), func() bool { return stopped(pid) }) {
			t.Fatal("the supervisor doesn't stop")
		}
		var list []state
		o := do(t, c, "list", "--json")
		document(t, ok(t, o), &list)
		if len(list) != 1 || list[0].Status != "running" || list[0].Commands != nil {
			t.Errorf("%+v", list)
		}
		o.Within(t, prompt)
		o = do(t, c, "state", "still")
		fails(t, o, 1, "doesn't answer")
		o.Within(t, 15*time.Second+prompt)
		cmd := background(t, c, "exec", "still", "--", "true")
		connected(t, cmd)
		for range 2 {
			cmd.Process.Signal(syscall.SIGTERM)
			time.Sleep(need.Time(200 * time.Millisecond)) // two at once are one
		}
		began := time.Now()
		if cmd.Wait() == nil || cmd.ProcessState.ExitCode() != 125 || time.Since(began) > 15*time.Second+prompt {
			t.Errorf("%v after %v", cmd.ProcessState, time.Since(began))
		}
		syscall.Kill(pid, syscall.SIGCONT)
		in(t, c, "still", jail.Job{Argv: []string{"echo", "alive"}}).Said(t, "alive\n")
	})
}

// connected waits until a client has come to its session: by then it listens to signals.
func connected(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if !jail.Eventually(min(need.Time(10*time.Second), time.Minute), func() bool {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid))
		return slices.ContainsFunc(fds, func(fd string) bool {
			to, _ := os.Readlink(fd)
			return strings.HasPrefix(to, "socket:")
		})
	}) {
		t.Fatal("the client never came to its session")
	}
}

// System V shared memory outlives who made it. What one command after another leaves
// is bounded by the session.
func TestMemoryLeftBehind(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "left", "--memory", "16M")
		const script = `$i = shmget(0, 8 << 20, 01600) // die; for (0..7) { shmwrite($i, "x" x (1 << 20), $_ << 20, 1 << 20) || die }`
		for n := 1; ; n++ {
			o := in(t, c, "left", jail.Job{Argv: []string{"perl", "-e", script}})
			if o.Result != nil && o.Result.Status == jailer.StatusOOMKilled {
				return
			}
			o.Exited(t, 0)
			if n > 16*2 { // commands that may run at once, and of each half its memory
				t.Fatalf("%d MiB are left in a session of commands with 16 MiB", 8*n)
			}
		}
	})
}

// stopped says that every thread of a process is (proc(5), field 3 of stat).
func stopped(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return len(stats) > 0 && !slices.ContainsFunc(stats, func(file string) bool {
		b, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(b), ") ")
		return !strings.HasPrefix(rest, "T")
	})
}
