package pid1

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// ReportLen is the size of every report, in bytes.
const ReportLen = 128

// Type is what a report says.
type Type uint16

const (
	Started Type = 1 // the job was executed; a seed never is
	Failed  Type = 2 // it never was; Stage, Errno and Detail say why. Job 0: PID 1 has ended
	Exited  Type = 3 // its main process ended; that of a seed with all its files made

	// Terminal comes before Started, or Failed, where the payload asks for a terminal.
	Terminal Type = 4

	Ready Type = 5 // PID 1 takes orders
)

// DetailInterpreter in Detail of StageExec: the file is there, but the interpreter
// of its "#!" line or of its ELF header is not.
const DetailInterpreter = 1

// Bits of the report's space, see SpaceKnown and SpaceFull.
const (
	spaceKnown = 1
	spaceFull  = 2
)

// LeftoverUnknown in Leftover: other jobs live, or PID 1 couldn't read /proc.
const LeftoverUnknown = 0xffffffff

// Usage is part of the kernel's struct rusage.
type Usage struct {
	User, System time.Duration // in steps of 1 µs
	MaxRSS       int64         // KiB, of the largest process
}

// Report is one message of PID 1.
type Report struct {
	Type       Type
	Job        uint32 // 0: PID 1 itself
	Stage      Stage
	Errno      syscall.Errno
	WaitStatus syscall.WaitStatus
	Leftover   uint32 // processes of the jail still alive (no zombies) when the main one ended; after a kill some may just be dying
	PID        uint32 // of the main process, in the jail; 0 before the clone
	Main       Usage  // the main process and the children that it waited for
	All        Usage  // everything that PID 1 reaped in the job's time, other jobs' included; MaxRSS: in its own
	Detail     uint32 // see Stage

	// What the workspace's file system said when the main process ended.
	SpaceKnown bool
	SpaceFull  bool  // no free block, or no free inode
	SpaceUsed  int64 // bytes

	// Master is the launcher's end of the job's terminal, with Terminal alone. The
	// receiver closes it.
	Master *os.File
	// Workspace is the jail's /workspace, with Ready alone: an O_PATH descriptor of a
	// mount that no path outside the jail leads to. nil where the jail has none. The
	// receiver closes it.
	Workspace *os.File
}

// ErrReport is the error of bytes that are no report.
var ErrReport = errors.New("pid1: malformed report")

// DecodeReport reads one report of exactly ReportLen bytes.
func DecodeReport(b []byte) (Report, error) {
	le := binary.LittleEndian
	if len(b) != ReportLen || le.Uint32(b) != magic {
		return Report{}, ErrReport
	}
	r := Report{
		Type:       Type(le.Uint16(b[4:])),
		Job:        le.Uint32(b[88:]),
		Stage:      Stage(le.Uint16(b[6:])),
		Errno:      syscall.Errno(le.Uint32(b[8:])),
		WaitStatus: syscall.WaitStatus(le.Uint32(b[12:])),
		Leftover:   le.Uint32(b[16:]),
		PID:        le.Uint32(b[20:]),
		Detail:     le.Uint32(b[72:]),
	}
	if r.Type < Started || r.Type > Ready || r.Errno > 4095 {
		return Report{}, ErrReport
	}
	if r.Type != Failed && (r.Type == Ready) != (r.Job == 0) {
		return Report{}, ErrReport
	}
	if (r.Type == Failed) != (r.Stage != StageNone) {
		return Report{}, ErrReport
	}
	space, used := le.Uint32(b[76:]), le.Uint64(b[80:])
	if space > spaceKnown|spaceFull || used > 1<<52 {
		return Report{}, ErrReport
	}
	if space&spaceKnown != 0 {
		r.SpaceKnown, r.SpaceFull, r.SpaceUsed = true, space&spaceFull != 0, int64(used)
	}
	for _, c := range b[92:] {
		if c != 0 {
			return Report{}, ErrReport
		}
	}
	var n [6]int64
	for i := range n {
		v := le.Uint64(b[24+8*i:])
		if v > 1<<52 { // 142 years in µs; 4 EiB in KiB
			return Report{}, ErrReport
		}
		n[i] = int64(v)
	}
	r.Main = Usage{time.Duration(n[0]) * time.Microsecond, time.Duration(n[1]) * time.Microsecond, n[2]}
	r.All = Usage{time.Duration(n[3]) * time.Microsecond, time.Duration(n[4]) * time.Microsecond, n[5]}
	return r, nil
}

// Err is nil unless the report is Failed; then it is a *StartError.
func (r Report) Err() error {
	if r.Type != Failed {
		return nil
	}
	return &StartError{Stage: r.Stage, Errno: r.Errno, Detail: r.Detail, WaitStatus: r.WaitStatus}
}

// StartError says why the job was never executed.
type StartError struct {
	Stage      Stage
	Errno      syscall.Errno
	Detail     uint32
	WaitStatus syscall.WaitStatus
}

// Error names the stage and the kernel's reason.
func (e *StartError) Error() string {
	switch {
	case e.Stage == StageExec && e.InterpreterMissing():
		return "exec: the program's interpreter does not exist"
	case e.Stage == StageDied && e.WaitStatus.Signaled():
		return fmt.Sprintf("the job's process was killed by signal %d before it could be executed", int(e.WaitStatus.Signal()))
	case e.Stage == StageDied:
		return "the job's process ended before it could be executed"
	}
	return fmt.Sprintf("%s: %v", e.Stage, e.Errno)
}

// Unwrap gives the errno.
func (e *StartError) Unwrap() error { return e.Errno }

// InterpreterMissing tells the ENOENT of an interpreter from that of the program.
func (e *StartError) InterpreterMissing() bool {
	return e.Stage == StageExec && e.Errno == syscall.ENOENT && e.Detail&DetailInterpreter != 0
}

// NotFound: there is no such program (127).
func (e *StartError) NotFound() bool {
	if e.Stage != StageExec || e.InterpreterMissing() {
		return false
	}
	return e.Errno == syscall.ENOENT || e.Errno == syscall.ENOTDIR || e.Errno == syscall.ENAMETOOLONG
}

// NotExecutable: the program was found and the kernel won't run it (126): a
// directory or no x bit (EACCES), an unknown format or a foreign architecture
// (ENOEXEC), a missing or nested interpreter, an ELF file that is damaged.
func (e *StartError) NotExecutable() bool {
	if e.Stage != StageExec {
		return false
	}
	switch e.Errno {
	case syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.EISDIR, syscall.ELOOP,
		syscall.ELIBBAD, syscall.EINVAL, syscall.ETXTBSY:
		return true
	}
	return e.InterpreterMissing()
}
