//go:build seccomp

package compiled

import _ "embed"

//go:embed default.bpf
var filter string

//go:embed default.sum
var sum string

// Default gives the default profile's filter: the raw sock_filter array in the
// machine's byte order, a fresh copy. Each call compares it with its checksum
// and answers ErrDamaged on a mismatch.
func Default() ([]byte, error) { return verify([]byte(filter), sum) }
