//go:build !seccomp

package pid1

// Binary fails: this build has no PID 1.
func Binary() ([]byte, error) { return nil, ErrNotBuilt }
