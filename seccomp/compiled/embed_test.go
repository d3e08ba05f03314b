//go:build seccomp

package compiled

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/jailer-project/jailer/seccomp"
	"github.com/jailer-project/jailer/seccomp/bpf"
)

// TestEmbeddedIsCurrent wants the embedded filter to be what the profile
// compiles to now: a stale one would enforce yesterday's rules.
func TestEmbeddedIsCurrent(t *testing.T) {
	got, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	p, err := seccomp.Load("default")
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
	if again, err := Default(); err != nil || !bytes.Equal(again, want) {
		t.Errorf("a caller's change reached the embedded copy: %v", err)
	}
}
