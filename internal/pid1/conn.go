package pid1

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	controlLen         = 8
	controlSignal      = 1
	controlSignalGroup = 2
	controlKill        = 3
)

// Conn is the launcher's end of the control socket. Closing it ends the jail: PID 1
// takes it as the launcher's death. Reading and writing may go on at the same time
// in two goroutines; two writers must take turns.
type Conn struct {
	f *os.File
}

// Pair makes the control socket. child goes to PID 1 as descriptor 3 and is closed
// here after the start, or Next never sees the end.
func Pair() (c *Conn, child *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	// Only our end: O_NONBLOCK belongs to the open file, and PID 1 reads its end
	// blocking.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return &Conn{os.NewFile(uintptr(fds[0]), "pid1-control")}, os.NewFile(uintptr(fds[1]), "pid1-control-child"), nil
}

// Send writes the payload. It may block until PID 1 reads, and fails with EPIPE if
// PID 1 is gone; Next then has the reason.
func (c *Conn) Send(p *Payload) error {
	b, err := p.Encode()
	if err != nil {
		return err
	}
	_, err = c.f.Write(b)
	return err
}

// Next waits for a report. io.EOF: PID 1 is gone without one.
func (c *Conn) Next() (Report, error) {
	var b [ReportLen]byte
	master, err := c.receive(b[:])
	if err != nil {
		return Report{}, err
	}
	r, err := DecodeReport(b[:])
	if err == nil && (r.Type == Terminal) != (master != nil) {
		err = ErrReport
	}
	if err != nil {
		if master != nil {
			master.Close()
		}
		return Report{}, err
	}
	r.Master = master
	return r, nil
}

// SetReadDeadline bounds Next.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.f.SetReadDeadline(t) }

// Signal sends s to the job's main process.
func (c *Conn) Signal(s syscall.Signal) error { return c.message(controlSignal, s) }

// SignalGroup sends s to the main process's group, as a terminal does.
func (c *Conn) SignalGroup(s syscall.Signal) error { return c.message(controlSignalGroup, s) }

// Kill sends SIGKILL to every process of the jail but PID 1, which still reports.
func (c *Conn) Kill() error { return c.message(controlKill, 0) }

func (c *Conn) message(kind uint32, s syscall.Signal) error {
	if kind != controlKill && (s < 1 || s > 64) {
		return fmt.Errorf("pid1: no such signal: %d", int(s))
	}
	var b [controlLen]byte
	binary.LittleEndian.PutUint32(b[0:], kind)
	binary.LittleEndian.PutUint32(b[4:], uint32(s))
	_, err := c.f.Write(b[:])
	return err
}

// Close ends the jail.
func (c *Conn) Close() error { return c.f.Close() }
