package files

import (
	"fmt"
	"path"
	"strings"

	"github.com/jailer-project/jailer/internal/jailpath"
)

// Clean makes a path, which may be of any bytes, a clean relative one, "." for the root
// itself. It refuses what is absolute, has a ".." (what a/../b means depends on what a
// is) or a NUL, or is too long for the kernel.
func Clean(op, p string) (string, error) {
	bad := func(format string, args ...any) (string, error) {
		return "", &Error{Code: InvalidPath, Op: op, Path: jailpath.Quote(p), Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case strings.IndexByte(p, 0) >= 0:
		return bad("contains a NUL byte")
	case len(p) > jailpath.MaxBytes:
		return bad("%d bytes given, at most %d are possible", len(p), jailpath.MaxBytes)
	case strings.HasPrefix(p, "/"):
		return bad("is absolute; paths are relative to the workspace")
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == ".." {
			return bad(`contains ".."`)
		}
		if len(name) > jailpath.MaxNameBytes {
			return bad("has a name of %d bytes, at most %d are possible", len(name), jailpath.MaxNameBytes)
		}
	}
	return path.Clean(p), nil
}

// cleanBelow is Clean for what can't be the root.
func cleanBelow(op, p string) (string, error) {
	c, err := Clean(op, p)
	if err == nil && c == "." {
		return "", &Error{Code: InvalidPath, Op: op, Path: jailpath.Quote(p), Message: "is the workspace itself"}
	}
	return c, err
}
