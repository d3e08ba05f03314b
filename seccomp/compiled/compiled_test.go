package compiled

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
)

// TestVerify damages a filter and its checksum in every way that a bad build or
// a flipped bit could.
func TestVerify(t *testing.T) {
	good := []byte("16 bytes of code")
	hash := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	if code, err := verify(good, hash(good)); err != nil || string(code) != string(good) {
		t.Fatalf("control: %q, %v", code, err)
	}
	flipped := append([]byte(nil), good...)
	flipped[3] ^= 1
	long := make([]byte, 8*4097)
	for _, c := range []struct {
		name string
		code []byte
		sum  string
	}{
		{"flipped bit", flipped, hash(good)},
		{"cut", good[:8], hash(good)},
		{"empty", nil, hash(nil)},
		{"no sum", good, ""},
		{"upper case", good, "ABCDEF" + hash(good)[6:]},
		{"newline", good, hash(good) + "\n"},
		{"half an instruction", good[:12], hash(good[:12])},
		{"too long for the kernel", long, hash(long)},
	} {
		if code, err := verify(c.code, c.sum); !errors.Is(err, ErrDamaged) || code != nil {
			t.Errorf("%s: %d bytes, %v", c.name, len(code), err)
		}
	}
}
