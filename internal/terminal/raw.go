package terminal

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Raw is the caller's terminal while what is typed on it belongs to the job: no
// echo, no lines, ^C and ^Z are bytes like any other.
type Raw struct {
	f *os.File

	mu    sync.Mutex
	was   *unix.Termios
	ended bool
}

// MakeRaw puts f into raw mode. A process in the background is stopped by it until
// it is in the foreground (SIGTTOU), as by every program that does this.
func MakeRaw(f *os.File) (*Raw, error) {
	was, err := attributes(f)
	if err != nil {
		return nil, err
	}
	r := &Raw{f: f, was: was}
	return r, r.Again()
}

// Foreground reports whether f may be used without being stopped: it is not the
// terminal of this process's session, or its foreground is this process's group.
func Foreground(f *os.File) bool {
	group := unix.Getpgrp()
	_ = control(f, func(fd int) error {
		g, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		if err == nil {
			group = g
		}
		return err
	})
	return group == unix.Getpgrp()
}

// Again puts it into raw mode once more: the shell has set its own modes meanwhile.
func (r *Raw) Again() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	raw := *r.was
	// cfmakeraw(3), but for a time-out that an earlier program may have left.
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	return r.set(&raw)
}

// Pause puts the modes back until Again.
func (r *Raw) Pause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	return r.back()
}

// Restore puts the modes back for good. It may be called at any time, from any
// goroutine, and again.
//
// What was typed and not read is thrown away: it was meant for the job. Part of
// it may be the terminal's own answer to a sequence that the job printed last,
// which the caller's shell would take for a command.
func (r *Raw) Restore() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	r.ended = true
	return r.back()
}

func (r *Raw) back() error {
	err := r.set(r.was)
	if errors.Is(err, unix.EIO) {
		return nil // hung up: there is nobody to put it back for
	}
	_ = control(r.f, func(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) })
	return err
}

// set never waits for output to drain, as tcsetattr(3) with TCSAFLUSH does: a line
// that stands still (^S) would hold up the clock of the run.
func (r *Raw) set(t *unix.Termios) error {
	return control(r.f, func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, t) })
}
