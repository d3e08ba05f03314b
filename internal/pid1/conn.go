package pid1

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	controlLen         = 12
	controlSignal      = 1
	controlSignalGroup = 2
	controlKill        = 3
	controlExec        = 4
)

// MaxJobs is how many jobs, seeds included, live at one time. One more fails with
// StageJobs and EAGAIN.
const MaxJobs = 64

// Conn is the launcher's end of the control socket. Closing it ends the jail: PID 1
// takes it as the launcher's death. Any number of goroutines may write. One reads,
// and goes on reading: PID 1 waits, with all its jobs, for a launcher that doesn't
// take its reports.
type Conn struct {
	f     *os.File
	order sync.Mutex // one whole order after the other
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
	return &Conn{f: os.NewFile(uintptr(fds[0]), "pid1-control")}, os.NewFile(uintptr(fds[1]), "pid1-control-child"), nil
}

// Setup tells PID 1 how to be; it is the first order. Ready answers it, or a Failed of
// job 0, which is PID 1's end.
func (c *Conn) Setup(s *Setup) error {
	b, err := s.encode()
	if err != nil {
		return err
	}
	return c.write(b, nil)
}

// Files are what a job is given; PID 1 keeps none of it, and the caller closes its own.
type Files struct {
	// All three or none: a job without them needs a terminal. They are set to
	// blocking, as programs expect.
	Stdin, Stdout, Stderr *os.File
	// With IntoCgroup the job's cgroup directory is first; v1's cgroup.procs files
	// follow, opened for writing by somebody whose rights suffice.
	Cgroup []*os.File
}

// Exec starts a job. Its number, which is not 0 and not that of a job that lives, is
// in each of its reports: Terminal, if it has one, then Started and Exited, or Failed.
// A seed has Exited or Failed alone. The error is for what was never sent, and EPIPE
// if PID 1 is gone, for which Next may have the reason.
func (c *Conn) Exec(job uint32, p *Payload, f Files) error {
	q := *p
	q.Flags &^= stdio
	files, err := f.list()
	if err != nil {
		return err
	}
	if len(files) > len(f.Cgroup) {
		q.Flags |= stdio
	}
	b, err := q.encode(len(f.Cgroup))
	if err != nil {
		return err
	}
	return c.exec(job, b, files)
}

func (f *Files) list() ([]*os.File, error) {
	std := []*os.File{f.Stdin, f.Stdout, f.Stderr}
	given := 0
	for _, s := range std {
		if s != nil {
			given++
		}
	}
	switch given {
	case 0:
		return f.Cgroup, nil
	case 3:
		for _, s := range std {
			if err := unix.SetNonblock(int(s.Fd()), false); err != nil {
				return nil, os.NewSyscallError("fcntl", err)
			}
		}
		return append(std, f.Cgroup...), nil
	}
	return nil, errors.New("pid1: a job gets all of stdin, stdout and stderr, or none")
}

func (c *Conn) exec(job uint32, body []byte, files []*os.File) error {
	return c.write(append(order(controlExec, job, uint32(len(body))), body...), files)
}

// Next waits for a report. io.EOF: PID 1 is gone without one.
func (c *Conn) Next() (Report, error) {
	var b [ReportLen]byte
	f, err := c.receive(b[:])
	if err != nil {
		return Report{}, err
	}
	r, err := DecodeReport(b[:])
	switch {
	case err != nil:
	case r.Type == Terminal && f != nil:
		r.Master = f
	case r.Type == Ready:
		r.Workspace = f
	case r.Type == Terminal || f != nil:
		err = ErrReport
	}
	if err != nil {
		if f != nil {
			f.Close()
		}
		return Report{}, err
	}
	return r, nil
}

// SetReadDeadline bounds Next.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.f.SetReadDeadline(t) }

// Signal sends s to the main process of a job. One that has ended meanwhile gets none.
func (c *Conn) Signal(job uint32, s syscall.Signal) error { return c.signal(controlSignal, job, s) }

// SignalGroup sends s to the main process's group, as a terminal does.
func (c *Conn) SignalGroup(job uint32, s syscall.Signal) error {
	return c.signal(controlSignalGroup, job, s)
}

// Kill sends SIGKILL to every process of the jail but PID 1, which still reports.
func (c *Conn) Kill() error { return c.write(order(controlKill, 0, 0), nil) }

func (c *Conn) signal(kind, job uint32, s syscall.Signal) error {
	if s < 1 || s > 64 {
		return fmt.Errorf("pid1: no such signal: %d", int(s))
	}
	return c.write(order(kind, job, uint32(s)), nil)
}

func order(kind, job, arg uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint32(b, job)
	return binary.LittleEndian.AppendUint32(b, arg)
}

// Close ends the jail.
func (c *Conn) Close() error { return c.f.Close() }
