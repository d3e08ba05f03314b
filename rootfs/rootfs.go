// Package rootfs says where the jail's files come from, and makes the
// launcher-owned skeleton that libcontainer pivots into.
//
// The workload never owns a path that is used while a jail starts: the
// skeleton is made afresh for each run by the launcher, every mount point in it
// exists before libcontainer looks, and the tenant-writable file systems are
// fresh tmpfs. Fourteen of runc's path bugs since 2017 (CVE-2019-19921,
// CVE-2021-30465, CVE-2023-27561, CVE-2025-31133, CVE-2026-41579, …) needed a
// root that somebody else could shape at that moment.
package rootfs

import "fmt"

// The fixed places inside every jail.
const (
	Workspace = "/workspace"
	Tmp       = "/tmp"
	Home      = "/home/jail"
	Shm       = "/dev/shm"
	Pts       = "/dev/pts"

	// UserName, UID and GID are who the job is inside.
	UserName = "jail"
	Hostname = "jail"
	UID      = 1000
	GID      = 1000
)

// A Bind is one read-only bind mount from the host into the jail.
type Bind struct {
	Source string // absolute path on the host
	Target string // absolute path in the jail; exists in the skeleton
	Device bool   // a device node: mounted without nodev
	// NoExec binds have nothing that may be executed, nor mapped to be.
	NoExec bool
	// Writable binds are that directory or file alone, without what is mounted below it.
	Writable bool
}

// A Mount is of the operator's, beside the root.
type Mount struct {
	Source, Target string // absolute
	Dir, Writable  bool
	Dev, Ino       uint64 // of the source, when it was judged
}

// A Layout is an assembled root as plain data.
type Layout struct {
	Path  string // the skeleton on the host, absolute
	Binds []Bind // in mount order
}

// A Source names the files that a jail sees.
type Source struct {
	Name string // "host", or the name of a [rootfs.NAME] table of the policy
	Path string // the directory; empty for "host"

	// Terminal adds to /dev what programs look for with a terminal: the mount
	// point Pts and the link ptmx into it.
	Terminal bool

	// Mounts are shown under names that the root has not.
	Mounts []Mount

	// Executables are the only files that can be executed, absolute in the jail; nil: any.
	// Their mounts, and those of Libraries, are all that is not noexec.
	Executables []Mount
}

// Libraries are directories from which a program may map code, where the root has them.
var Libraries = []string{"/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libx32", "/usr/local/lib", "/lib", "/lib64", "/lib32", "/libx32"}

// Host reports whether the source is the built-in view of the host's /usr.
func (s Source) Host() bool { return s.Path == "" }

// An Error says which file of which root could not be used.
type Error struct {
	Root string // name of the root
	Path string
	Err  error
	Hint string
}

func (e *Error) Error() string {
	return fmt.Sprintf("rootfs %q: %s: %v", e.Root, e.Path, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
