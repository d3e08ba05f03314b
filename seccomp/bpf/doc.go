// Package bpf compiles seccomp profiles through libseccomp. It alone imports
// libseccomp, behind the build tag seccomp: without the tag Compile refuses, and
// with it the filters of the built-in profiles are compiled at build time (see
// gen) and embedded, so that a run compiles none but a profile of the policy's.
package bpf
