// Package profiles holds jailer's data: seccomp profiles in OCI form, AppArmor
// profiles and the built-in policy. It is data and its names only; the packages that read it own its
// meaning.
package profiles

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

// FS holds seccomp/NAME.json, apparmor/NAME, policy/builtin.toml and policies/NAME.toml.
//
//go:embed seccomp/*.json apparmor/* policy/*.toml policies/*.toml
var FS embed.FS

// Seccomp gives the names of the seccomp profiles, sorted.
func Seccomp() []string { return names("seccomp") }

// Presets gives the names of the policies that are there to start from, sorted.
func Presets() []string { return names("policies") }

// Preset is the text of one. An unknown name is fs.ErrNotExist.
func Preset(name string) ([]byte, error) {
	if strings.Contains(name, "/") {
		return nil, fs.ErrNotExist
	}
	return FS.ReadFile("policies/" + name + ".toml")
}

func names(dir string) []string {
	entries, err := FS.ReadDir(dir)
	if err != nil {
		panic(err) // an embedded directory
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
	}
	return names
}
