// Package profiles holds jailer's data: seccomp profiles in OCI form and the
// built-in policy. It is data only; the packages that read it own its meaning.
package profiles

import "embed"

// FS holds seccomp/NAME.json and policy/builtin.toml.
//
//go:embed seccomp/*.json policy/*.toml
var FS embed.FS
