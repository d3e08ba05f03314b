package launch

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
)

// Files is the jail's workspace, seen from the host.
type Files struct {
	Dir      *os.File // O_PATH
	Lock     *os.File // of a persistent workspace, which is held as long as this is open; else nil
	UID, GID uint32   // whose the files are
	Straight bool     // writing must follow no link at all: the policy has rules on paths
}

// Close closes the descriptors.
func (f Files) Close() {
	f.Dir.Close()
	f.Lock.Close() // nil is an error that says nothing
}

// Files gives the workspace of a live jail. The receiver closes it.
func (j *Jail) Files() (Files, error) {
	if j.ids.n > 0 {
		// The job's id is one of the range, and the caller can't act as that.
		return Files{}, &jailer.Error{
			Code: jailer.CodeInvalidState, Op: "files",
			Message: `the files of a jail with ids = "range" are another user's on the host`,
			Hint:    `read and write them by a command, or set ids = "single" in the profile`,
		}
	}
	// A descriptor of its own: the jail's may be closed, and its number another file's,
	// before this one is used.
	raw, err := j.workspace.SyscallConn()
	if err != nil {
		return Files{}, err
	}
	fd, derr := -1, error(nil)
	err = raw.Control(func(own uintptr) { fd, derr = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 3) })
	if err != nil { // closed
		return Files{}, errGone
	}
	if derr != nil {
		return Files{}, os.NewSyscallError("fcntl", derr)
	}
	f := Files{Dir: os.NewFile(uintptr(fd), "workspace"), UID: j.ids.uid, GID: j.ids.gid, Straight: j.o.Policy.PathRules()}
	if j.persistent != nil {
		if f.Lock, err = j.persistent.Hold(); err != nil {
			f.Dir.Close()
			return Files{}, err
		}
	}
	return f, nil
}

// Note writes an event of the session.
func (j *Jail) Note(e audit.Event) error {
	return j.record(sessionPatience, func() {}, e)
}

// Denied writes that somebody was refused who asked the session for something. What
// becomes of the refusal doesn't hang on the log.
func (j *Jail) Denied(e *jailer.Error) {
	err := j.Note(audit.Event{Type: audit.PolicyDenied, Data: audit.Denied{Failure: *audit.FailureOf(e), Field: e.Path}})
	if err != nil {
		j.log.Error("a refusal is not in the event log", "err", err)
	}
}
