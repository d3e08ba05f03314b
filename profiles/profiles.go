// Package profiles holds jailer's data: seccomp profiles in OCI form, AppArmor
// profiles and the built-in policy. It is data and its names only; the packages that read it own its
// meaning.
package profiles

import (
	"embed"
	"path"
	"strings"
)

// FS holds seccomp/NAME.json, apparmor/NAME and policy/builtin.toml.
//
//go:embed seccomp/*.json apparmor/* policy/*.toml
var FS embed.FS

// Seccomp gives the names of the seccomp profiles, sorted.
func Seccomp() []string {
	entries, err := FS.ReadDir("seccomp")
	if err != nil {
		panic(err) // an embedded directory
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
	}
	return names
}
