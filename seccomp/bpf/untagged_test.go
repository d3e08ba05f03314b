//go:build !seccomp

package bpf

import (
	"testing"

	"github.com/jailer-project/jailer/seccomp"
	"github.com/jailer-project/jailer/test/need"
)

func TestUntaggedRefuses(t *testing.T) {
	p, err := seccomp.Load("default")
	if err != nil {
		t.Fatal(err)
	}
	if code, err := Compile(p, "amd64"); err == nil || code != nil {
		t.Fatalf("compiled %d bytes without libseccomp", len(code))
	}
}

// TestCompiledFilter says that the tests of the compiled filter did not run.
func TestCompiledFilter(t *testing.T) {
	need.Feature(t, "seccomp-tag", false, "built without -tags seccomp, so that the compiled filter was not tested")
}
