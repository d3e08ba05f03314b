package files

import "strings"

// The codes of Error: those of the documents of the whole program.
const (
	InvalidRequest   = "invalid_request"
	InvalidPath      = "invalid_path"
	InvalidState     = "invalid_state"
	NotFound         = "not_found"
	IsDirectory      = "is_directory"
	NotRegular       = "not_regular"
	PermissionDenied = "permission_denied"
	TooLarge         = "file_too_large"
	NoSpace          = "no_space"
	PolicyDenied     = "policy_denied"
	Internal         = "internal"
)

// An Error is what a verb refuses or what kept it from its work.
type Error struct {
	Code      string
	Op        string // "fs.put"
	Path      string // quoted
	Message   string
	Retryable bool
	Err       error
}

// Error is path, message and cause.
func (e *Error) Error() string {
	var parts []string
	for _, s := range []string{e.Path, e.Message} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	if len(parts) == 0 {
		return e.Code
	}
	return strings.Join(parts, ": ")
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
