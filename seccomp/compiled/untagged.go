//go:build !seccomp

package compiled

// Default answers ErrNotBuilt.
func Default() ([]byte, error) { return nil, ErrNotBuilt }
