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
	}
}
