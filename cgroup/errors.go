package cgroup

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Unavailable says why a limit can't be enforced here and what mends it.
type Unavailable struct {
	Controller string // the controllers concerned, comma-separated; "" = all
	File       string // what was looked at
	Reason     string
	Hint       string
	ID         string // stable id, as `jailer doctor` prints it
	Err        error  // the kernel's answer, if there was one
}

func (u *Unavailable) Error() string {
	s := u.Reason
	if u.Controller != "" {
		s = u.Controller + ": " + s
	}
	if u.File != "" {
		s += " (" + u.File + ")"
	}
	if u.Err != nil {
		s += ": " + u.Err.Error()
	}
	return s
}

// With is u under another id and hint, and with more to its reason.
func (u *Unavailable) With(id, more, hint string) *Unavailable {
	v := *u
	v.ID, v.Hint = id, hint
	v.Reason += more
	return &v
}

func (u *Unavailable) Unwrap() error { return u.Err }

// Error is a file operation on a cgroup that failed.
type Error struct {
	Op    string // mkdir, write, read back, …
	File  string
	Value string // what was to be written, if anything
	Hint  string
	Err   error
}

func (e *Error) Error() string {
	s := "cgroup: " + e.Op + " " + e.File
	if e.Value != "" {
		s += fmt.Sprintf(" %q", e.Value)
	}
	return s + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

func fail(op, file, value string, err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err // the file is named already
	}
	return &Error{Op: op, File: file, Value: value, Hint: errnoHint(err), Err: err}
}

// errnoHint tells what an errno of a cgroup file usually means.
func errnoHint(err error) string {
	switch {
	case errors.Is(err, unix.EBUSY):
		return "a process still lives in this cgroup; controllers can only be enabled, and cgroups removed, where none does"
	case errors.Is(err, unix.EROFS):
		return "the cgroup file system is mounted read-only; remount it read-write or, in a container, start that with a writable cgroup namespace"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "this cgroup is not delegated to you; " + hintScope
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EAGAIN):
		return "the kernel's limit of cgroups is reached (cgroup.max.descendants, or ids); `jailer gc` removes left-over ones"
	case errors.Is(err, unix.EOPNOTSUPP):
		return "the cgroup is threaded; start jailer in a cgroup of its own: " + hintScope
	}
	return ""
}

// hintDelegate is for a subtree that is the caller's, but for a controller.
func (o Options) hintDelegate() string {
	uid := o.Getuid()
	if uid == 0 {
		return "the cgroups above must hand it on (cgroup.subtree_control); in a container, start that with the controller"
	}
	return "as root, write `[Service]` and `Delegate=cpu cpuset io memory pids` to /etc/systemd/system/user@.service.d/delegate.conf, " +
		fmt.Sprintf("run `systemctl daemon-reload` and `systemctl restart user@%d.service`, which ends what the user runs there", uid)
}

const (
	hintScope    = "start it as `systemd-run --user --scope -p Delegate=yes -- jailer run …`, or run jailer as root"
	hintBoot     = "boot with systemd.unified_cgroup_hierarchy=1 to get cgroup v2"
	hintV1       = "run jailer as root, or " + hintBoot
	hintSwap     = "boot with swapaccount=1, or, for jobs without swap, `swapoff -a`"
	hintReadOnly = "remount it read-write, or start the container around jailer with a private, writable cgroup namespace"
)

// mountCommand names systemd's options: they are the whole host's, and a mount
// without them takes them away (cgroup_get_tree in kernel/cgroup/cgroup.c).
const mountCommand = "mount -t cgroup2 -o nsdelegate,memory_recursiveprot none "
