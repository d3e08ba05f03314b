//go:build seccomp

package compiled

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/jailer-project/jailer/seccomp"
	"github.com/jailer-project/jailer/seccomp/bpf"
)

// TestEmbeddedIsCurrent wants the embedded filter of every built-in profile to
// be what the profile compiles to now: a stale one would enforce yesterday's
// rules, and a missing one would be compiled by each run.
func TestEmbeddedIsCurrent(t *testing.T) {
	for _, name := range seccomp.Builtin() {
		t.Run(name, func(t *testing.T) {
			got, err := Filter(name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := seccomp.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			want, err := bpf.Compile(p, runtime.GOARCH)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("the embedded filter (%d bytes) is not what the profile compiles to (%d bytes): run make build", len(got), len(want))
			}
			got[0] ^= 0xff
			if again, err := Filter(name); err != nil || !bytes.Equal(again, want) {
				t.Errorf("a caller's change reached the embedded copy: %v", err)
			}
		})
	}
	if code, err := Filter("nosuch"); !errors.Is(err, ErrUnknown) || code != nil {
		t.Errorf("nosuch: %d bytes, %v", len(code), err)
	}
}
