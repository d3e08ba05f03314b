package seed

import (
	"fmt"
	"syscall"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/jailpath"
	"github.com/jailer-project/jailer/limits"
)

// Explain is the error for the frame that PID 1 refused with errno, counted from 0.
func (s *Set) Explain(index int, errno syscall.Errno) *jailer.Error {
	list := s.list()
	e := &jailer.Error{Code: jailer.CodeInternal, Op: op, Message: "files could not be put into the jail", Err: errno}
	if index < 0 || index >= len(list) {
		return e
	}
	abs := list[index].path
	e.Path, e.Message = jailpath.Quote(abs), "could not be made in the jail"
	switch errno {
	case syscall.ENOSPC, syscall.EDQUOT:
		return noSpace(abs, "has no room left for this file: its bytes or its number of files are used up")
	case syscall.ENOMEM:
		e.Code, e.Hint = jailer.CodeNoSpace, "files in a jail count as memory: raise --memory"
	case syscall.EEXIST:
		e.Code, e.Message = jailer.CodeInvalidPath, "is there already: given twice, or made by a command"
	case syscall.ELOOP, syscall.EXDEV:
		e.Code, e.Message = jailer.CodeInvalidPath, "leads through a symbolic link"
	case syscall.ENOTDIR:
		e.Code, e.Message = jailer.CodeInvalidPath, "is below something that is no directory"
	case syscall.EISDIR:
		e.Code, e.Message = jailer.CodeIsDirectory, "is a directory in the jail"
	case syscall.ENAMETOOLONG:
		e.Code, e.Message = jailer.CodeInvalidPath, "is too long"
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		e.Code, e.Message = jailer.CodePermissionDenied, "can't be written by the command's user"
	case syscall.ENOSYS:
		e.Message = "could not be made in the jail: the system-call filter refuses openat2"
	case syscall.EFBIG:
		e.Code = jailer.CodeFileTooLarge
	}
	return e
}

// noSpace says that the file system of abs is too small, and what makes it larger.
func noSpace(abs, msg string) *jailer.Error {
	e := &jailer.Error{Code: jailer.CodeNoSpace, Op: op, Path: jailpath.Quote(abs), Message: jailpath.Mount(abs) + " " + msg}
	if jailpath.Mount(abs) == jailpath.Workspace {
		e.Hint = "the policy's limits workspace and workspace_inodes, or a request's workspaceBytes and workspaceInodes; both within half of --memory"
	} else {
		e.Hint = "--tmp-size, within half of --memory, or the policy's limit tmp_inodes"
	}
	return e
}

// overflows reports that fits will refuse s, without looking closer.
func (s *Set) overflows(l limits.Limits) bool {
	return int64(len(s.at)) > l.WorkspaceInodes+2*l.TmpInodes
}

// fits refuses what can't have room, before anything is made. What passes may still
// be refused by the kernel, which counts whole pages.
func (s *Set) fits(l limits.Limits) error {
	type use struct{ bytes, inodes int64 }
	used := map[string]*use{}
	for _, e := range s.list() {
		m := jailpath.Mount(e.path)
		u := used[m]
		if u == nil {
			u = &use{inodes: 1} // its root (tmpfs(5))
			used[m] = u
		}
		u.inodes++
		size, inodes := l.TmpSize, l.TmpInodes
		if m == jailpath.Workspace {
			size, inodes = l.Workspace, l.WorkspaceInodes
		}
		if u.inodes > inodes {
			return noSpace(e.path, fmt.Sprintf("has room for %d files and directories, and this is one more", inodes-1))
		}
		if e.size > size-u.bytes {
			return noSpace(e.path, fmt.Sprintf("has %s, and the files up to this one have more", limits.FormatSize(size)))
		}
		u.bytes += e.size
	}
	return nil
}
