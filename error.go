package jailer

import (
	"encoding/json"
	"io/fs"
	"strings"
)

// Code is the machine-readable kind of an Error.
type Code string

// The codes. They decide the exit status of the program: 126 for
// CodePolicyDenied, CodeApprovalDenied, CodeUnauthorized and
// CodeCommandNotExecutable, 127 for CodeCommandNotFound, 125 for the others.
const (
	CodeInvalidRequest       Code = "invalid_request"
	CodeInvalidPolicy        Code = "invalid_policy"
	CodeInvalidPath          Code = "invalid_path"
	CodeNotFound             Code = "not_found"
	CodeIsDirectory          Code = "is_directory"
	CodeNotRegular           Code = "not_regular"
	CodePermissionDenied     Code = "permission_denied"
	CodeFileTooLarge         Code = "file_too_large"
	CodeNoSpace              Code = "no_space"
	CodePolicyDenied         Code = "policy_denied"
	CodeApprovalDenied       Code = "approval_denied"
	CodeCommandNotFound      Code = "command_not_found"
	CodeCommandNotExecutable Code = "command_not_executable"
	CodeSessionNotFound      Code = "session_not_found"
	CodeSessionExists        Code = "session_exists"
	CodeInvalidState         Code = "invalid_state"
	CodeUnauthorized         Code = "unauthorized"
	CodeWorkspaceBusy        Code = "workspace_busy"
	CodeWorkspaceNotFound    Code = "workspace_not_found"
	CodeProcessLimit         Code = "process_limit"
	CodeSessionLimit         Code = "session_limit"
	CodeRootfsMismatch       Code = "rootfs_mismatch"
	CodeIsolationUnavailable Code = "isolation_unavailable"
	CodeInternal             Code = "internal"
)

// Error is how jailer fails: what, where, and what mends it.
type Error struct {
	Code      Code
	Message   string // lower case, no full stop
	Hint      string // the command, sysctl or file that mends it
	Op        string // the step that failed: "cgroup.delegate", "policy.load"
	Path      string // the file or field that it is about, before the message in Error
	Retryable bool   // the same call may succeed later without a change
	Reason    string // id of the doctor's finding, "details.reason" in JSON
	Err       error  // cause, after the message in Error; its text alone survives JSON
}

// Error is the whole message: path, message and cause.
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	if e.Path != "" {
		parts = append(parts, e.Path)
	}
	if e.Message != "" {
		parts = append(parts, e.Message)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	if len(parts) == 0 {
		return string(e.Code)
	}
	return strings.Join(parts, ": ")
}

// Is makes the errors of files those of io/fs: CodeNotFound is fs.ErrNotExist,
// CodePermissionDenied fs.ErrPermission, CodeInvalidPath fs.ErrInvalid.
func (e *Error) Is(target error) bool {
	switch e.Code {
	case CodeNotFound:
		return target == fs.ErrNotExist
	case CodePermissionDenied:
		return target == fs.ErrPermission
	case CodeInvalidPath:
		return target == fs.ErrInvalid
	}
	return false
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

type errorJSON struct {
	Code      Code          `json:"code"`
	Message   string        `json:"message"`
	Hint      string        `json:"hint,omitempty"`
	Op        string        `json:"op,omitempty"`
	Retryable bool          `json:"retryable"`
	Details   *errorDetails `json:"details,omitempty"`
}

type errorDetails struct {
	Reason string `json:"reason,omitempty"`
}

// MarshalJSON writes the member "error" of a document; path and cause become
// part of the message.
func (e *Error) MarshalJSON() ([]byte, error) {
	j := errorJSON{Code: e.Code, Message: e.Error(), Hint: e.Hint, Op: e.Op, Retryable: e.Retryable}
	if e.Reason != "" {
		j.Details = &errorDetails{Reason: e.Reason}
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote, and ignores members that it does
// not know.
func (e *Error) UnmarshalJSON(data []byte) error {
	var j errorJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*e = Error{Code: j.Code, Message: j.Message, Hint: j.Hint, Op: j.Op, Retryable: j.Retryable}
	if j.Details != nil {
		e.Reason = j.Details.Reason
	}
	return nil
}

// Document is e as a document of its own: {"v":1,"error":{…}}.
func (e *Error) Document() ([]byte, error) {
	return json.Marshal(struct {
		V     int    `json:"v"`
		Error *Error `json:"error"`
	}{ProtocolVersion, e})
}
