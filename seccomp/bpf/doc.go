// Package bpf compiles seccomp profiles through libseccomp. It alone imports
// libseccomp, behind the build tag seccomp: without the tag Compile refuses, and
// with it the program that a run needs is compiled at build time (see gen) and
// embedded, so that a run never compiles the default filter.
package bpf
