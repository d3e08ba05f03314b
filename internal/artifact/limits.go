package artifact

import "github.com/jailer-project/jailer/internal/files"

// Default bounds of one export or import.
const (
	DefaultMaxFiles     = 10_000 // files and directories
	DefaultMaxBytes     = 1 << 30
	DefaultMaxFileBytes = 10 << 20

	maxDepth   = 100       // elements of a path
	maxVisited = 1_000_000 // names that a walk looks at
	maxIdle    = 100       // members of a tar that make nothing
)

// Values of OnProtected.
const (
	Mark   = "mark"
	Refuse = "refuse"
)

// Limits bound what is moved. 0 is the default.
type Limits struct {
	MaxFiles     int   // files and directories; of an import, also the directories above that it doesn't name
	MaxBytes     int64 // content of all files
	MaxFileBytes int64 // of one

	Protected   []string // names, as elements of a path, at any depth and in any case
	OnProtected string   // Mark, as "", or Refuse
}

func (l Limits) filled(op string) (Limits, error) {
	if l.OnProtected != "" && l.OnProtected != Mark && l.OnProtected != Refuse {
		return l, refuse(op, files.InvalidRequest, "", "on protected names, %q is neither %q nor %q", l.OnProtected, Mark, Refuse)
	}
	if l.MaxFiles == 0 {
		l.MaxFiles = DefaultMaxFiles
	}
	if l.MaxBytes == 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	if l.MaxFileBytes == 0 {
		l.MaxFileBytes = DefaultMaxFileBytes
	}
	return l, nil
}
