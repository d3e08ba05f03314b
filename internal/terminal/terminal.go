// Package terminal is the caller's side of a command on a terminal of its own:
// sizes, raw mode of the caller's terminal, and what is typed.
//
// The caller's terminal itself never goes into a jail. Its modes are the only
// thing of it that a run changes, and they are put back whichever way it ends.
package terminal

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Size is a terminal's, in characters. One that is used has neither 0.
type Size struct {
	Cols, Rows uint16
}

// Default is the size where nothing says another one.
var Default = Size{Cols: 80, Rows: 24}

// String is the form that ParseSize reads.
func (s Size) String() string { return fmt.Sprintf("%dx%d", s.Cols, s.Rows) }

// Valid says whether programs can work with it: many divide by it.
func (s Size) Valid() bool { return s.Cols > 0 && s.Rows > 0 }

// ParseSize reads "COLSxROWS", each from 1 to 65535.
func ParseSize(text string) (Size, error) {
	cols, rows, ok := strings.Cut(text, "x")
	s := Size{number(cols), number(rows)}
	if !ok || !s.Valid() {
		return Size{}, errors.New("must be COLSxROWS, as 80x24")
	}
	return s, nil
}

// number is 0 for everything but a plain decimal number in range.
func number(text string) uint16 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || text != strconv.FormatUint(n, 10) {
		return 0
	}
	return uint16(n)
}

// Is reports whether f is a terminal.
func Is(f *os.File) bool {
	_, err := attributes(f)
	return err == nil
}

// SizeOf gives the size of the first of files that is a terminal and knows it. A
// serial line, and a pair that nobody told its size, say 0x0.
func SizeOf(files ...*os.File) (Size, bool) {
	for _, f := range files {
		var s Size
		_ = control(f, func(fd int) error {
			w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
			if err == nil {
				s = Size{Cols: w.Col, Rows: w.Row}
			}
			return err
		})
		if s.Valid() {
			return s, true
		}
	}
	return Size{}, false
}

// Resize sets the size; the kernel tells the foreground group by SIGWINCH.
func Resize(master *os.File, s Size) error {
	return control(master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: s.Cols, Row: s.Rows})
	})
}

// Type is a value for TERM: want, if it can be the name of an entry of a terminfo
// database and nothing else, else "xterm". Programs make a path of it.
func Type(want string) string {
	const most = 64 // longer than any entry's
	if want == "" || len(want) > most || want[0] == '.' || want[0] == '-' {
		return "xterm"
	}
	for _, c := range []byte(want) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._+", c) >= 0:
		default:
			return "xterm"
		}
	}
	return want
}

// Duplicate gives another descriptor of f, in the mode that it has.
func Duplicate(f *os.File) (*os.File, error) {
	fd := -1
	if err := control(f, func(p int) (err error) {
		fd, err = unix.FcntlInt(uintptr(p), unix.F_DUPFD_CLOEXEC, 3)
		return os.NewSyscallError("fcntl", err)
	}); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// control calls f with the descriptor, which stays in the mode that it has: Fd
// would make it blocking.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := raw.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}

func attributes(f *os.File) (t *unix.Termios, err error) {
	err = control(f, func(fd int) error {
		var err error
		t, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	return t, err
}
