//go:build seccomp

package compiled

import _ "embed"

//go:embed default.bpf
var defaultFilter string

//go:embed default.sum
var defaultSum string

//go:embed strict.bpf
var strictFilter string

//go:embed strict.sum
var strictSum string

// Filter gives the filter of a built-in profile by its name: the raw sock_filter
// array in the machine's byte order, a fresh copy. Each call compares it with its
// checksum and answers ErrDamaged on a mismatch.
func Filter(name string) ([]byte, error) {
	switch name {
	case "default":
		return verify([]byte(defaultFilter), defaultSum)
	case "strict":
		return verify([]byte(strictFilter), strictSum)
	}
	return nil, ErrUnknown
}
