//go:build !seccomp

package compiled

// Filter answers ErrNotBuilt.
func Filter(string) ([]byte, error) { return nil, ErrNotBuilt }
