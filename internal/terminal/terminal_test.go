package terminal

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

func TestParseSize(t *testing.T) {
	for _, c := range []struct {
		text string
		want Size
	}{
		{"80x24", Size{80, 24}},
		{"1x1", Size{1, 1}},
		{"65535x65535", Size{65535, 65535}},
		{"", Size{}},
		{"x", Size{}},
		{"80", Size{}},
		{"80x", Size{}},
		{"x24", Size{}},
		{"0x24", Size{}},
		{"80x0", Size{}},
		{"65536x24", Size{}},
		{"-1x24", Size{}},
		{"+80x24", Size{}},
		{"080x24", Size{}},
		{" 80x24", Size{}},
		{"80x24 ", Size{}},
		{"80x24x1", Size{}},
		{"80X24", Size{}},
		{"8_0x24", Size{}},
	} {
		got, err := ParseSize(c.text)
		if got != c.want || (err == nil) != c.want.Valid() {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	f.Add("80x24")
	f.Add("x")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSize(text); err == nil && (s.String() != text || !s.Valid()) {
			t.Errorf("%q is %v", text, s)
		}
	})
}

func TestType(t *testing.T) {
	for in, want := range map[string]string{
		"xterm-256color": "xterm-256color", "vt220": "vt220", "screen.xterm-new": "screen.xterm-new", "ansi+local1": "ansi+local1",
		"": "xterm", "../x": "xterm", "a/b": "xterm", ".x": "xterm", "-x": "xterm", "a b": "xterm", "a\n": "xterm", "é": "xterm",
		strings.Repeat("a", 65): "xterm", "%s": "xterm", "a\x1b[": "xterm",
	} {
		if got := Type(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestTyped(t *testing.T) {
	for _, c := range []struct {
		name string
		src  io.Reader
		want string // what is typed in 2.5 s
	}{
		{"nothing", nil, "\x04\x04\x04"},
		{"empty", strings.NewReader(""), "\x04\x04\x04"},
		{"lines", strings.NewReader("a\n"), "a\n\x04\x04\x04"},
		{"return", strings.NewReader("a\r"), "a\r\x04\x04\x04"},
		{"line begun", strings.NewReader("a"), "a\x04\x04\x04\x04"},
		{"byte and end at once", iotest.DataErrReader(strings.NewReader("a\n")), "a\n\x04\x04\x04"},
		{"error", iotest.ErrReader(io.ErrUnexpectedEOF), "\x04\x04\x04"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
				defer cancel()
				b, err := io.ReadAll(Typed(ctx, c.src))
				if err != nil || !bytes.Equal(b, []byte(c.want)) {
					t.Errorf("%q, %v, want %q", b, err, c.want)
				}
			})
		})
	}
}

// pair is a terminal of the host's, both ends.
func pair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	need.Feature(t, "ptmx", err == nil, "can't open /dev/ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		t.Fatal(errno)
	}
	master, slave = os.NewFile(uintptr(fd), "master"), os.NewFile(peer, "slave")
	t.Cleanup(func() { master.Close(); slave.Close() })
	return master, slave
}

func TestSize(t *testing.T) {
	master, slave := pair(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if Is(null) || !Is(slave) {
		t.Error("what is a terminal?")
	}
	if s, ok := SizeOf(null, slave); ok {
		t.Errorf("a terminal that doesn't know its size has %v", s)
	}
	if err := Resize(master, Size{100, 40}); err != nil {
		t.Fatal(err)
	}
	if s, ok := SizeOf(null, slave); !ok || s != (Size{100, 40}) {
		t.Errorf("%v, %v", s, ok)
	}
	if Resize(null, Default) == nil {
		t.Error("/dev/null was resized")
	}
}

func TestRaw(t *testing.T) {
	_, slave := pair(t)
	modes := func() unix.Termios {
		t.Helper()
		m, err := attributes(slave)
		if err != nil {
			t.Fatal(err)
		}
		return *m
	}
	was := modes()
	raw, err := MakeRaw(slave)
	if err != nil {
		t.Fatal(err)
	}
	in := modes()
	if in.Lflag&(unix.ISIG|unix.ICANON|unix.ECHO|unix.IEXTEN) != 0 || in.Oflag&unix.OPOST != 0 || in.Iflag&(unix.ICRNL|unix.IXON) != 0 {
		t.Errorf("not raw: %+v", in)
	}
	for _, s := range []struct {
		name string
		do   func() error
		want unix.Termios
	}{
		{"pause", raw.Pause, was},
		{"again", raw.Again, in},
		{"restore", raw.Restore, was},
		{"again after the end", raw.Again, was},
		{"pause after the end", raw.Pause, was},
		{"restore again", raw.Restore, was},
		{"restore nothing", (*Raw)(nil).Restore, was},
	} {
		if err := s.do(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if m := modes(); m != s.want {
			t.Errorf("%s: %+v, want %+v", s.name, m, s.want)
		}
	}
	if !Foreground(slave) {
		t.Error("a terminal of no session of ours has a background")
	}
}

// TestRawPanic: what unwinds puts the modes back, as the program's own guard
// against defects does.
func TestRawPanic(t *testing.T) {
	_, slave := pair(t)
	was, err := attributes(slave)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		raw, err := MakeRaw(slave)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Restore()
		panic("a defect")
	}()
	if m, err := attributes(slave); err != nil || *m != *was {
		t.Errorf("%+v, want %+v", m, was)
	}
}
