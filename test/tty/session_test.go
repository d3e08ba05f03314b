package tty

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

// 32: size and resize; and what else makes a terminal one.
func TestTerminal(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for _, tc := range []struct{ name, script, want string }{
			{"32 size", "stty size", "40 100\r\n"},
			{"all three", "for i in 0 1 2; do test -t $i && echo $i; done", "0\r\n1\r\n2\r\n"},
			{"name", "tty", "/dev/pts/0\r\n"},
			{"controlling", "echo hello >/dev/tty", "hello\r\n"},
			{"standard error", "echo hello >&2", "hello\r\n"},
			{"opened again", "echo hello >/dev/stderr; echo hello >/dev/pts/0", "hello\r\nhello\r\n"},
			{"kind", "echo $TERM", "screen-256color\r\n"},
			{"terminals inside", `script -qec 'tty; stty size' /dev/null`, "/dev/pts/1\r\n40 100\r\n"},
			{"python", `python3 -c 'import pty; print(pty.spawn(["tty"]))'`, "/dev/pts/1\r\n0\r\n"},
			{"raw bytes", `stty -opost; printf 'a\nb\033[31mc\377'`, "a\nb\x1b[31mc\xff"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				d := sit(t)
				cmd := d.command(c, tc.script)
				cmd.Env = append(cmd.Env, "TERM=screen-256color")
				d.run(cmd)
				if got := d.wait(); got != 0 || !jail.Eventually(prompt, func() bool { return strings.HasPrefix(d.text(), tc.want) }) {
					t.Errorf("exit status %d, %q, want %q", got, d.text(), tc.want)
				}
			})
		}
	})
}

func TestResize(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		d := sit(t)
		d.jailer(c, `trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done`)
		d.await("40 100\r\n")
		d.resize(77, 33)
		d.await("33 77\r\n")
		d.resize(78, 34)
		d.await("34 78\r\n")
		d.press("\x03")
		d.ends(130, "^C")

		d = sit(t)
		d.jailer(c, `stty size; read x; stty size`, "--tty-size", "132x50")
		d.await("50 132\r\n")
		d.resize(77, 33)
		time.Sleep(100 * time.Millisecond)
		d.press("\r")
		d.ends(0, "50 132\r\n")
	})
}

// 32: ^C, ^Z and ^D are the job's, where a shell can do with them what it does.
func TestKeys(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		d := sit(t)
		d.run(d.command(c, "exec bash --norc --noprofile -i"))
		d.await("$ ")
		if m := d.modes(); m.Lflag&(unix.ISIG|unix.ICANON|unix.ECHO) != 0 || m.Oflag&unix.OPOST != 0 {
			t.Errorf("the caller's terminal isn't raw: %+v", m)
		}
		// A shell's child takes the terminal before it becomes another program.
		foreground := func(n int) {
			t.Helper()
			command := fmt.Sprintf("sleep %d.%d%07d", n, c.UID%2, os.Getpid())
			d.press(command + "\r")
			if !jail.Eventually(prompt, func() bool {
				return len(jail.Living(t, func(p jail.Process) bool { return p.Cmdline == command })) == 1
			}) {
				t.Fatalf("no %s: %q", command, d.text())
			}
		}
		foreground(1000)
		d.press("\x03")
		d.await("$ ")
		d.press("echo rc=$?\r")
		d.await("rc=130")
		foreground(2000)
		d.press("\x1a")
		d.await("Stopped")
		if stat := state(d.cmd.Process.Pid); stat == 'T' {
			t.Error("^Z stopped jailer")
		}
		d.press("bg; jobs -r | wc -l; kill %1; wait; sleep 0.1 & wait; echo over\r")
		d.await("\r\n1\r\n")
		d.await("\r\nover")
		d.await("$ ")
		d.press("\x04")
		if got := d.wait(); got != 0 {
			t.Errorf("exit status %d: %q", got, d.text())
		}
	})
}

// A terminal leaves nothing running, and waits for nobody.
func TestEnds(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for _, tc := range []struct {
			name, script string
			flags        []string
			status       int
			screen       string
		}{
			{"exit", "stty raw -echo; exit 7", nil, 7, ""},
			{"signal", "kill -KILL $$", nil, 137, ""},
			{"timeout", "trap '' HUP INT; stty raw; sleep 1000", []string{"--timeout", "2500ms"}, 124, "s\r\n"},
			{"left behind", "sleep 1000 & trap '' HUP; (trap '' HUP; sleep 1000) & echo left", nil, 0, "left\r\n"},
			{"another session", "setsid -f sleep 1000; echo left", nil, 0, "left\r\n"},
			{"everything closed", "exec </dev/null >/dev/null 2>&1; sleep 0.3; echo back >/dev/tty; exit 3", nil, 3, "back\r\n"},
			{"output to the end", "seq 20000", nil, 0, "\r\n19999\r\n20000\r\n"},
			{"not found", "exec /nothing", nil, 127, "not found\r\n"},
			{"output limit", "seq 100000", []string{"--max-output", "6", "--on-output-limit", "kill"}, 137, "limit\r\n"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				d := sit(t)
				began := time.Now()
				d.jailer(c, tc.script, tc.flags...)
				d.ends(tc.status, tc.screen)
				if took := time.Since(began); took > prompt {
					t.Errorf("took %v", took)
				}
			})
		}
	})
}

// The modes come back on every way out that a process can see.
func TestModesComeBack(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		signals := func(list ...syscall.Signal) func(*desk) {
			return func(d *desk) {
				for _, s := range list {
					time.Sleep(100 * time.Millisecond)
					if err := d.cmd.Process.Signal(s); err != nil {
						d.t.Error(err)
					}
				}
			}
		}
		for _, tc := range []struct {
			name, script string
			end          func(*desk)
			status       int
		}{
			{"TERM", "", signals(syscall.SIGTERM), 143},
			{"INT", "", signals(syscall.SIGINT), 130},
			{"twice", "trap '' INT TERM; ", signals(syscall.SIGINT, syscall.SIGTERM), 130},
			{"HUP", "", signals(syscall.SIGHUP), 129},
			{"stop and continue", "", func(d *desk) {
				signals(syscall.SIGTSTP)(d)
				if !jail.Eventually(prompt, func() bool { return state(d.cmd.Process.Pid) == 'T' }) {
					d.t.Fatal("TSTP doesn't stop jailer")
				}
				if m := d.modes(); m != d.before {
					d.t.Errorf("stopped, with the modes %+v", m)
				}
				signals(syscall.SIGCONT)(d)
				if !jail.Eventually(prompt, func() bool { return d.modes().Lflag&unix.ISIG == 0 }) {
					d.t.Error("continued, and not raw again")
				}
				d.press("\x03")
			}, 130},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				d := sit(t)
				d.jailer(c, tc.script+"echo ready; sleep 1000; sleep 1000")
				d.await("ready\r\n")
				if !jail.Eventually(prompt, func() bool { return d.modes().Lflag&unix.ISIG == 0 }) {
					t.Fatal("not raw")
				}
				tc.end(d)
				if got := d.wait(); got != tc.status {
					t.Errorf("exit status %d, want %d: %q", got, tc.status, d.text())
				}
			})
		}
	})
}

// What is typed and not read goes to nobody: it may be the terminal's own answer to
// what the job printed last, and the shell that comes next would run it.
func TestAnswersAreNotTyped(t *testing.T) {
	t.Parallel()
	c := jail.User(t)
	d := sit(t)
	d.jailer(c, `stty raw -echo; echo ready; python3 -c 'import select; select.select([0], [], [])'`)
	d.await("ready")
	d.press("\x1b[0n; touch /tmp/x\r")
	d.ends(0, "")
	if n := queued(t, d.tty); n != 0 {
		t.Errorf("%d bytes for the next reader", n)
	}
}

// The caller's terminal goes, as when a window is closed.
func TestHangup(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		d := sit(t)
		cmd := d.command(c, "echo ready; sleep 1000", "--json")
		var out, messages bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &messages
		d.run(cmd)
		if !jail.Eventually(prompt, func() bool { return d.modes().Lflag&unix.ISIG == 0 }) {
			t.Fatal("not raw")
		}
		d.keys.Close()
		_ = d.cmd.Wait()
		if got := d.cmd.ProcessState.ExitCode(); got != 129 || messages.Len() > 0 {
			t.Errorf("exit status %d: %s", got, messages.String())
		}
		if r, err := jailer.ParseResult(out.Bytes()); err != nil || r.Signal == nil || *r.Signal != "SIGHUP" {
			t.Errorf("%v: %s", err, out.String())
		}
	})
}

// The reader of jailer's output goes: the job is hung up, as a pipeline would end it.
func TestReaderGone(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		d := sit(t)
		r, w := pipe(t)
		cmd := d.command(c, "yes")
		cmd.Stdout = w
		d.run(cmd)
		w.Close()
		r.Read(make([]byte, 10))
		r.Close()
		if got := d.wait(); got != 129 {
			t.Errorf("exit status %d: %q", got, d.text())
		}
	})
}

// fill leaves no room in a pipe.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	fd := int(w.Fd())
	err := unix.SetNonblock(fd, true)
	for _, n := range []int{1 << 16, 1} { // its pages, and then the last one
		for err == nil {
			_, err = unix.Write(fd, make([]byte, n))
		}
		if err != unix.EAGAIN {
			t.Fatal(err)
		}
		err = nil
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
}

// A reader of jailer's output that doesn't read holds the answer up; ^C is the
// caller's again then.
func TestReaderStuck(t *testing.T) {
	t.Parallel()
	c := jail.User(t)
	d := sit(t)
	r, w := pipe(t)
	defer r.Close()
	defer w.Close()
	fill(t, w)
	cmd := d.command(c, "stty -echo; echo stuck; read x")
	cmd.Stdout = w
	d.run(cmd)
	if !jail.Eventually(prompt, func() bool { return d.modes().Lflag&unix.ISIG == 0 }) {
		t.Fatal("not raw")
	}
	d.press("\r")
	if !jail.Eventually(prompt, func() bool { return d.modes() == d.before }) {
		t.Fatal("the job is over, and the terminal still raw")
	}
	d.press("\x03")
	if got := d.wait(); got != 125 {
		t.Errorf("exit status %d: %q", got, d.text())
	}
}
