package pid1

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// ErrNotBuilt: this program was built without the tag seccomp and so without PID 1.
var ErrNotBuilt = errors.New("pid1: not built in (build with `make build`)")

// ErrDamaged: the embedded program isn't the one that was built.
var ErrDamaged = errors.New("pid1: embedded program is damaged (SHA-256 differs)")

// verify fails closed: an empty program or sum is damage too.
func verify(bin []byte, sum string) ([]byte, error) {
	got := sha256.Sum256(bin)
	if len(bin) == 0 || hex.EncodeToString(got[:]) != sum {
		return nil, ErrDamaged
	}
	return bin, nil
}
