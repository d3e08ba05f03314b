package launch

import (
	"errors"

	"github.com/jailer-project/jailer"
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
