package tty

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// state is the letter of a process in /proc/PID/stat, 0 if it is gone.
func state(pid int) byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	i := strings.LastIndexByte(string(b), ')')
	if err != nil || i+2 >= len(b) {
		return 0
	}
	return b[i+2]
}

// queued is how much somebody who reads the terminal next would get.
func queued(t *testing.T, tty *os.File) int {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	m.Lflag &^= unix.ICANON // else only whole lines count
	if err := unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, m); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCINQ)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// typing tries to type on a terminal that is its own, on each descriptor and by each
// name, with and without rubbish above the 32 bits that the kernel looks at
// (CVE-2019-10063). It prints what is not denied.
const typing = `
import ctypes, errno, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
nr = {"x86_64": 16, "aarch64": 29}[platform.machine()]
files = [0, 1, 2]
for name in "/dev/tty", "/dev/pts/0", "/proc/self/fd/0":
    try: files.append(os.open(name, os.O_RDWR | os.O_NOCTTY))
    except OSError as e: print(name, e.strerror)
x = ctypes.create_string_buffer(b"x\3\0\0")
n = 0
for f in files:
    for name, cmd in ("STI", 0x5412), ("LINUX", 0x541c), ("CONS", 0x541d), ("SETD", 0x5423), ("VHANGUP", 0x5437):
        for high in 0, 1 << 32, 0xffffffff << 32, 1 << 63:
            r = libc.syscall(ctypes.c_long(nr), ctypes.c_long(f), ctypes.c_ulong(high | cmd), x)
            e = errno.errorcode.get(ctypes.get_errno())
            n += 1
            if r != -1 or e != "EPERM": print(f, name, hex(high), r, e)
print(n, "denied")
`

// CVE-2017-5226: nothing that a job does types into the caller's terminal.
func TestTyping(t *testing.T) {
	t.Parallel()
	t.Run("control", func(t *testing.T) {
		// Outside a jail, by root, who may whatever dev.tty.legacy_tiocsti says.
		if os.Geteuid() != 0 {
			t.Log("not shown: without root the kernel may deny it by itself")
			return
		}
		d := sit(t)
		d.run(exec.Command("python3", "-c", `import fcntl; fcntl.ioctl(0, 0x5412, b"x")`))
		d.wait()
		if n := queued(t, d.tty); n != 1 {
			t.Errorf("%d bytes typed, %q", n, d.text())
		}
	})
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		script := c.File(t, "typing.py", typing)
		b, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			name string
			keys bool // the caller's terminal is the job's keyboard
		}{{"typed on", true}, {"shown on", false}} {
			t.Run(tc.name, func(t *testing.T) {
				d := sit(t)
				cmd := d.command(c, `stty -echo; python3 -c "$0"; dd bs=10 count=1 iflag=nonblock 2>/dev/null`)
				cmd.Args = append(cmd.Args, string(b))
				if !tc.keys {
					null, err := os.Open(os.DevNull)
					if err != nil {
						t.Fatal(err)
					}
					defer null.Close()
					cmd.Stdin = null
				}
				d.run(cmd)
				d.wait()
				jail.Eventually(prompt, func() bool {
					return strings.HasSuffix(d.text(), "denied\r\n") || strings.HasSuffix(d.text(), "denied\r\r\n")
				})
				// Shown on a terminal that isn't raw, a line end gets one more \r.
				if got := strings.ReplaceAll(d.text(), "\r", ""); got != "120 denied\n" {
					t.Errorf("%q", got)
				}
				if n := queued(t, d.tty); n != 0 {
					t.Errorf("%d bytes typed", n)
				}
			})
		}
	})
}

// What a job can reach of terminals: its own, and as many as the jail may have.
func TestReach(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for _, tc := range []struct{ name, script, want string }{
			{"names", `ls /dev/pts | tr '\n' ' '; readlink /dev/ptmx`, "0 ptmx pts/ptmx\r\n"},
			{"descriptors", `ls -l /proc/$$/fd | grep -c '/dev/'`, "3\r\n"},
			{"own", `stat -c '%U %G %a' /dev/pts/0`, "jail jail 620\r\n"},
			{"modes stay", `chmod 666 /dev/pts/0 2>/dev/null || chown 1000 /dev/pts/0 2>/dev/null || touch /dev/pts/0 /dev/pts/x 2>/dev/null; stat -c %a /dev/pts/0; ls /dev/pts | wc -l`, "620\r\n2\r\n"},
			{"read-only", `awk '$2 ~ "^/dev" {split($4, o, ","); print $2, o[1]}' /proc/mounts | grep -v 'ro$'`, "/dev/shm rw\r\n"},
			{"as many", `python3 -c '
import os
fds = []
try:
    while True: fds += os.openpty()
except OSError as e: print(len(fds) // 2, e.strerror)'`, "31 No space left on device\r\n"},
			{"no other's", `python3 -c '
import fcntl, os
for n in range(1, 4): 
    try: os.open("/dev/pts/%d" % n, os.O_RDWR); print("opened")
    except OSError as e: print(e.strerror)'`, strings.Repeat("No such file or directory\r\n", 3)},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				d := sit(t)
				d.jailer(c, tc.script)
				d.wait()
				if !jail.Eventually(prompt, func() bool { return d.text() == tc.want }) {
					t.Errorf("%q, want %q", d.text(), tc.want)
				}
			})
		}
	})
}

// Without --tty there is no terminal to be had, though jailer itself has one.
func TestWithout(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		d := sit(t)
		d.run(c.Command(t.Context(), "run", "--stdin", "-", "--", "python3", "-c", `
import errno, os
for name in "/dev/tty", "/dev/ptmx", "/dev/pts/0":
    try: os.open(name, os.O_RDWR); print("opened")
    except OSError as e: print(errno.errorcode[e.errno])
print([os.isatty(f) for f in range(3)])`))
		d.ends(0, "ENXIO\r\nENOENT\r\nENOENT\r\n[False, False, False]\r\n")
	})
}

// No process of the launcher's gets the jail's terminal, and none of the jail's
// the caller's.
func TestControlling(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		ctx := t.Context()
		cmd := c.Command(ctx, "run", "--tty", "--stdin", "-", "--", "sh", "-c", "echo ready; cat")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Setsid = true // a leader without a terminal gets the first that it opens
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 20)
		if n, _ := out.Read(buf); string(buf[:n]) != "ready\r\n" {
			t.Errorf("%q", buf[:n])
		}
		if got := controlling(t, cmd.Process.Pid); got != "0" {
			t.Errorf("jailer's controlling terminal is %s", got)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// controlling is field 7 of /proc/PID/stat.
func controlling(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')'):]))[5]
}

// CVE-2025-52565 and its like: a root whose /dev is a trap. It is never looked at.
func TestHostileRoot(t *testing.T) {
	t.Parallel()
	busybox, err := os.ReadFile(need.Program(t, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		root := jail.TempDir(t, c.UID)
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(os.Chmod(root, 0o755))
		trap := c.File(t, "trap", "untouched")
		check(os.Mkdir(root+"/bin", 0o755))
		check(os.WriteFile(root+"/bin/sh", busybox, 0o755))
		check(os.MkdirAll(root+"/dev/pts", 0o777))
		for _, name := range []string{"console", "tty", "ptmx", "pts/0", "pts/ptmx", "null"} {
			check(os.Symlink(trap, root+"/dev/"+name))
		}
		policy := jail.BestEffort + fmt.Sprintf("[rootfs.evil]\npath = %q\n", root)
		c = c.WithPolicy(t, "evil.toml", policy)
		o := c.Run(t, jail.Job{
			Flags: []string{"--tty", "--rootfs", "evil"},
			Argv:  []string{"/bin/sh", "-c", "test -t 0 && echo yes; echo a >/dev/pts/0; echo b >/dev/tty; test -e /dev/console || echo none"},
		})
		if o.Exited(t, 0); o.Out() != "yes\r\na\r\nb\r\nnone\r\n" {
			t.Errorf("%q", o.Out())
		}
		if b, err := os.ReadFile(trap); err != nil || string(b) != "untouched" {
			t.Errorf("%q, %v", b, err)
		}
	})
}
