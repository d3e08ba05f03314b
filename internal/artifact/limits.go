package artifact

// Default bounds of one export or import.
const (
	DefaultMaxFiles     = 10_000 // files and directories
	DefaultMaxBytes     = 1 << 30
	DefaultMaxFileBytes = 10 << 20

	maxDepth   = 100       // elements of a path
	maxVisited = 1_000_000 // names that a walk looks at
)

// Values of OnProtected.
const (
	Mark   = "mark"
	Refuse = "refuse"
)

// Limits bound what is moved. 0 is the default.
type Limits struct {
	MaxFiles     int   // files and directories
	MaxBytes     int64 // content of all files
	MaxFileBytes int64 // of one

	Protected   []string // names, as elements of a path, at any depth and in any case
	OnProtected string   // Mark, as "", or Refuse
}

func (l Limits) filled() Limits {
	if l.MaxFiles == 0 {
		l.MaxFiles = DefaultMaxFiles
	}
	if l.MaxBytes == 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	if l.MaxFileBytes == 0 {
		l.MaxFileBytes = DefaultMaxFileBytes
	}
	return l
}
