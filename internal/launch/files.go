package launch

import (
	"os"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
)

// Files is the jail's workspace, seen from the host.
type Files struct {
	Dir      *os.File // O_PATH; the jail's: it is closed with it
	UID, GID uint32   // whose the files are
}

// Files gives the workspace of a live jail.
func (j *Jail) Files() (Files, error) {
	if j.ids.n > 0 {
		// The job's id is one of the range, and the caller can't act as that.
		return Files{}, &jailer.Error{
			Code: jailer.CodeInvalidState, Op: "files",
			Message: `the files of a jail with ids = "range" are another user's on the host`,
			Hint:    `read and write them by a command, or set ids = "single" in the profile`,
		}
	}
	return Files{Dir: j.workspace, UID: j.ids.uid, GID: j.ids.gid}, nil
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
