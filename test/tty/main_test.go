// Package tty holds `jailer run --tty` to what it promises, on real terminals: the
// tests hold the other end of the caller's.
package tty

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

func TestMain(m *testing.M) { jail.Main(m) }

// prompt is more than anything here takes, and less than the sleeps that nothing
// may wait for.
var prompt = need.Time(60 * time.Second)

// desk is a caller's terminal with what runs at it.
type desk struct {
	t      *testing.T
	keys   *os.File // the test's end
	tty    *os.File // the caller's end, not of this process's session
	cmd    *exec.Cmd
	before unix.Termios

	mu     sync.Mutex
	screen []byte
}

// sit opens a terminal of 100 columns and 40 rows.
func sit(t *testing.T) *desk {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	need.Feature(t, "ptmx", err == nil, fmt.Sprintf("/dev/ptmx: %v", err))
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		t.Fatal(errno)
	}
	d := &desk{t: t, keys: os.NewFile(uintptr(fd), "keys"), tty: os.NewFile(peer, "tty")}
	t.Cleanup(func() { d.keys.Close(); d.tty.Close() })
	d.resize(100, 40)
	d.before = d.modes()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := d.keys.Read(buf)
			d.mu.Lock()
			d.screen = append(d.screen, buf[:n]...)
			d.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return d
}

func (d *desk) resize(cols, rows uint16) {
	d.t.Helper()
	if err := unix.IoctlSetWinsize(int(d.tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) modes() unix.Termios {
	d.t.Helper()
	m, err := unix.IoctlGetTermios(int(d.tty.Fd()), unix.TCGETS)
	if err != nil {
		d.t.Fatal(err)
	}
	return *m
}

// run starts a command whose controlling terminal, and standard streams unless
// they are set already, are the desk's.
func (d *desk) run(cmd *exec.Cmd) {
	d.t.Helper()
	if cmd.Stdin == nil {
		cmd.Stdin = d.tty
	}
	if cmd.Stdout == nil {
		cmd.Stdout = d.tty
	}
	if cmd.Stderr == nil {
		cmd.Stderr = d.tty
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.ExtraFiles = []*os.File{d.tty}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, true, 3
	cmd.WaitDelay = need.Time(20 * time.Second)
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.cmd = cmd
}

// jailer starts `jailer run --tty` with more flags, and a script.
func (d *desk) jailer(c *jail.Caller, script string, flags ...string) {
	d.t.Helper()
	d.run(d.command(c, script, flags...))
}

func (d *desk) command(c *jail.Caller, script string, flags ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(d.t.Context(), jail.Deadline)
	d.t.Cleanup(cancel)
	args := append([]string{"run", "--tty"}, flags...)
	return c.Command(ctx, append(args, "--", "sh", "-c", script)...)
}

func (d *desk) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return string(d.screen)
}

// await waits until the screen has shown text, and forgets the screen up to its end.
func (d *desk) await(text string) string {
	d.t.Helper()
	var got string
	if !jail.Eventually(prompt, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		before, after, ok := bytes.Cut(d.screen, []byte(text))
		if ok {
			got, d.screen = string(before), bytes.Clone(after)
		}
		return ok
	}) {
		d.t.Fatalf("no %q on the screen: %q", text, d.text())
	}
	return got
}

func (d *desk) press(keys string) {
	d.t.Helper()
	if _, err := io.WriteString(d.keys, keys); err != nil {
		d.t.Fatal(err)
	}
}

// wait gives the exit status, and holds jailer to leaving the terminal as it was.
func (d *desk) wait() int {
	d.t.Helper()
	_ = d.cmd.Wait()
	if m := d.modes(); m != d.before {
		d.t.Errorf("the terminal's modes are %+v, were %+v", m, d.before)
	}
	return d.cmd.ProcessState.ExitCode()
}

// ends waits for exit status and last words.
func (d *desk) ends(status int, screen string) {
	d.t.Helper()
	if got := d.wait(); got != status {
		d.t.Errorf("exit status %d, want %d; screen %q", got, status, d.text())
	}
	if !jail.Eventually(prompt, func() bool { return strings.HasSuffix(d.text(), screen) }) {
		d.t.Errorf("the screen ends with %q, want %q", d.text(), screen)
	}
}
