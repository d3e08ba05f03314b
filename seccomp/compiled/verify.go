package compiled

import (
	"crypto/sha256"
	"encoding/hex"
)

// sockFilterSize is the size of struct sock_filter (linux/filter.h), and
// maxInsns the kernel's BPF_MAXINSNS.
const (
	sockFilterSize = 8
	maxInsns       = 4096
)

func verify(code []byte, sum string) ([]byte, error) {
	got := sha256.Sum256(code)
	if hex.EncodeToString(got[:]) != sum ||
		len(code) == 0 || len(code)%sockFilterSize != 0 || len(code)/sockFilterSize > maxInsns {
		return nil, ErrDamaged
	}
	return code, nil
}
