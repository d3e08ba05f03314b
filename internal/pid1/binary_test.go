package pid1

import (
	"errors"
	"testing"
)

func TestVerify(t *testing.T) {
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"
	if b, err := verify([]byte("abc"), sum); err != nil || string(b) != "abc" {
		t.Errorf("%q, %v", b, err)
	}
	for _, c := range []struct{ bin, sum string }{{"abd", sum}, {"", sum}, {"abc", ""}, {"", ""}, {"abc", sum + "\n"}} {
		if b, err := verify([]byte(c.bin), c.sum); !errors.Is(err, ErrDamaged) || b != nil {
			t.Errorf("%q with %q: %v", c.bin, c.sum, err)
		}
	}
}
