//go:build !seccomp

package compiled

import (
	"errors"
	"testing"
)

func TestUntagged(t *testing.T) {
	if code, err := Filter("default"); !errors.Is(err, ErrNotBuilt) || code != nil {
		t.Fatalf("%d bytes, %v", len(code), err)
	}
}
