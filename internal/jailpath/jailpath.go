// Package jailpath says which paths in a jail its caller may put files at.
package jailpath

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Workspace is where relative paths begin.
const Workspace = "/workspace"

// The most bytes of a path, PATH_MAX without its NUL, and of one element of it,
// NAME_MAX (limits.h(0p)).
const (
	MaxBytes     = 4095
	MaxNameBytes = 255
)

var writable = []string{Workspace, "/tmp", "/home/jail"}

// Writable lists the file systems that files can be put into: each is a tmpfs of
// the jail's own.
func Writable() []string { return slices.Clone(writable) }

// Resolve makes p, absolute or relative to Workspace, the clean absolute path of a
// place in one of Writable, or of one of these themselves. It refuses ".." rather
// than resolving it: what a/../b means depends on what a is. The message never has
// a control character in it, whatever p has.
func Resolve(p string) (string, error) {
	switch {
	case p == "":
		return "", errors.New("is empty")
	case strings.IndexByte(p, 0) >= 0:
		return "", errors.New("contains a NUL byte")
	case len(p) > MaxBytes:
		return "", fmt.Errorf("%d bytes given, at most %d are possible", len(p), MaxBytes)
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == ".." {
			return "", fmt.Errorf("%s contains \"..\"", Quote(p))
		}
		if len(name) > MaxNameBytes {
			return "", fmt.Errorf("%s has %d bytes, a name has at most %d", Quote(name), len(name), MaxNameBytes)
		}
	}
	abs := path.Clean(p)
	if !path.IsAbs(abs) {
		abs = path.Join(Workspace, abs)
	}
	if len(abs) > MaxBytes {
		return "", fmt.Errorf("%d bytes with %s before it, at most %d are possible", len(abs), Workspace, MaxBytes)
	}
	if Mount(abs) == "" {
		return "", fmt.Errorf("%s is not below %s, where a jail has its own files", Quote(p), strings.Join(writable, ", "))
	}
	return abs, nil
}

// Mount is the one of Writable that abs, clean and absolute, is in or is; "" is none.
func Mount(abs string) string {
	for _, w := range writable {
		if abs == w || strings.HasPrefix(abs, w+"/") {
			return w
		}
	}
	return ""
}

// Quote keeps a path in a message short and free of control characters. The middle
// of a long one is left out: its end says which file it is.
func Quote(p string) string {
	const head, tail = 64, 128
	if len(p) > head+tail {
		return fmt.Sprintf("%q…%q", p[:head], p[len(p)-tail:])
	}
	return fmt.Sprintf("%q", p)
}

// Relative makes a path of the jail's one of the workspace's: /workspace and what is
// below it may be named as the command sees it.
func Relative(path string) string {
	if path == Workspace {
		return "."
	}
	if rest, ok := strings.CutPrefix(path, Workspace+"/"); ok {
		return strings.TrimLeft(rest, "/")
	}
	return path
}
