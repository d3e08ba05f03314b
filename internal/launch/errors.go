package launch

import (
	"errors"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/files"
)

// asError gives every error of a step a code; one that has none yet is a
// failure of jailer's or the host's.
func asError(err error) *jailer.Error {
	var e *jailer.Error
	if errors.As(err, &e) {
		return e
	}
	return &jailer.Error{Code: jailer.CodeInternal, Err: err}
}

// FileError is an error of a file verb as one of ours.
func FileError(err error) error {
	f, ok := errors.AsType[*files.Error](err)
	if !ok {
		return err
	}
	return &jailer.Error{
		Code: jailer.Code(f.Code), Op: f.Op, Path: f.Path, Message: f.Message, Retryable: f.Retryable, Err: f.Err,
		Hint: fileHints[[2]string{f.Op, f.Code}],
	}
}

// fileHints are what mends a refusal, by verb and code.
var fileHints = map[[2]string]string{
	{"fs.cat", files.TooLarge}:     "read it in parts, with jailer fs page, or raise the policy's limits.file",
	{"fs.cat", files.IsDirectory}:  "list it: jailer fs ls",
	{"fs.put", files.TooLarge}:     "raise the policy's limits.file",
	{"fs.put", files.NotFound}:     "--parents makes the directories above it",
	{"fs.mkdir", files.NotFound}:   "--parents makes the directories above it",
	{"fs.rm", files.InvalidState}:  "--recursive removes what is in it too",
	{"export", files.TooLarge}:     "name less, or raise the policy's limits.file for a large file",
	{"export", files.PolicyDenied}: "name less; the policy's export.protected has the names",
	{"import", files.TooLarge}:     "raise the policy's limits.file for a large file",
	{"import", files.PolicyDenied}: "leave it out; the policy's export.protected has the names",
}
