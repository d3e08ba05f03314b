//go:build !seccomp

package bpf

import (
	"errors"

	"github.com/jailer-project/jailer/seccomp"
)

// Compile refuses: this build has no libseccomp.
func Compile(*seccomp.Profile, string) ([]byte, error) {
	return nil, errors.New("seccomp: built without the tag seccomp, so that no filter can be compiled")
}

// Calls gives nil: this build has no libseccomp.
func Calls(string) map[string]int { return nil }

// Elsewhere says no: this build has no libseccomp.
func Elsewhere(string) bool { return false }
