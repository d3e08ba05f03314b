//go:build seccomp

package pid1

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// onTerminal runs a script on a terminal of its own and gives the launcher's end.
func onTerminal(t *testing.T, script string) (*jail, *os.File) {
	t.Helper()
	p := sh(script)
	p.Cols, p.Rows = 101, 43
	j := start(t, p, options{devpts: "0666", noStd: true})
	r := j.next(t, Terminal)
	if r.Master == nil {
		t.Fatal("no descriptor came with the report")
	}
	t.Cleanup(func() { r.Master.Close() })
	r.Master.SetReadDeadline(time.Now().Add(need.Time(20 * time.Second)))
	j.next(t, Started)
	return j, r.Master
}

// readAll reads to the end that a terminal has once nobody holds its other side.
func readAll(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := io.ReadAll(f)
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("the terminal ended with %v after %q, want EIO", err, b)
	}
	return string(b)
}

func TestTerminal(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"is one", "test -t 0 -a -t 1 -a -t 2 && echo yes", "yes\r\n"},
		{"size", "stty size", "43 101\r\n"},
		{"name", "tty", "/dev/pts/0\r\n"},
		{"controlling", "echo hello >/dev/tty", "hello\r\n"},
		{"foreground", "ps -o stat= -p $$ | grep -c +", "1\r\n"},
		{"utf-8", "stty -a | grep -o -e '-*iutf8'", "iutf8\r\n"},
		{"owner", "stat -c '%u %a' /dev/pts/0", "1000 620\r\n"},
		{"mode can't be changed", "chmod 666 /dev/pts/0 2>/dev/null || echo no", "no\r\n"},
		{"opened again", "echo hello >/proc/self/fd/0", "hello\r\n"},
		{"nothing else", "ls /proc/self/fd | tr -d '\\n'", "0123"},
		{"closed and opened again", "exec </dev/null >/dev/null 2>&1; sleep 0.1; echo back >/dev/tty", "back\r\n"},
		{"left behind", "sleep 1000 & echo left", "left\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, m := onTerminal(t, c.script)
			if got := readAll(t, m); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			j.next(t, Exited)
		})
	}
}

// The launcher's process must not get the jail's terminal as its own.
func TestTerminalNotOurs(t *testing.T) {
	before, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, m := onTerminal(t, "cat")
	after, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	field := func(b []byte) string { return strings.Fields(string(b[strings.LastIndexByte(string(b), ')'):]))[5] }
	if field(before) != field(after) {
		t.Errorf("controlling terminal %s, was %s", field(after), field(before))
	}
	if flags, err := unix.FcntlInt(m.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
}

// A ^C that is typed goes to the foreground group alone.
func TestTerminalInterrupt(t *testing.T) {
	j, m := onTerminal(t, "stty -echo; trap 'echo trapped' INT; sh -c 'echo ready; exec cat'; echo $?")
	buf := make([]byte, 100)
	n, err := m.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), "ready") {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	if _, err := m.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, m); got != "trapped\r\n130\r\n" {
		t.Errorf("%q", got)
	}
	j.next(t, Exited)
}

// The closing of the launcher's end hangs the terminal up.
func TestTerminalHangup(t *testing.T) {
	j, m := onTerminal(t, "sleep 1000")
	m.Close()
	if r := j.next(t, Exited); r.WaitStatus.Signal() != unix.SIGHUP {
		t.Errorf("wait status %#x", r.WaitStatus)
	}
}

// No terminal, no job.
func TestTerminalRefused(t *testing.T) {
	p := sh("true")
	p.Cols, p.Rows = 80, 24
	if r := runFails(t, p, options{devpts: "0000", noStd: true}); r.Stage != StageTerminal || r.Errno != syscall.EACCES {
		t.Errorf("%v", r.Err())
	}
}
