// Package hostdir judges what of the host a jail may be shown: by its path, by who could
// put something else there, and by what is really there.
package hostdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/trust"
)

// A Refusal is why it is not shown.
type Refusal struct {
	Path   string
	Reason string
	Err    error
}

func (r *Refusal) Error() string {
	if r.Err != nil {
		return r.Path + ": " + r.Err.Error()
	}
	return r.Path + " " + r.Reason
}

// Unwrap gives the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// Rules say what is judged by.
type Rules struct {
	Owners []int               // uids that everything on the way may belong to
	Named  func(string) string // why a path may not be shown, by its name; "" where it may
	Never  []string            // directories that it may not be, under whatever name; those that are not there don't matter

	never map[file]string // looked up once
}

// A file is known by these, whatever its name.
type file struct{ dev, ino uint64 }

func (r *Rules) lookUp() {
	if r.never != nil {
		return
	}
	r.never = map[file]string{}
	for _, n := range r.Never {
		var st unix.Stat_t
		if unix.Stat(n, &st) == nil {
			r.never[file{st.Dev, st.Ino}] = n
		}
	}
}

// kernel are the file systems that no disk and no memory of a user's is behind
// (statfs(2), linux/magic.h). A bind of one elsewhere has another path.
var kernel = map[int64]string{
	unix.PROC_SUPER_MAGIC: "procfs", unix.SYSFS_MAGIC: "sysfs", unix.CGROUP_SUPER_MAGIC: "cgroup", unix.CGROUP2_SUPER_MAGIC: "cgroup2",
	unix.DEBUGFS_MAGIC: "debugfs", unix.TRACEFS_MAGIC: "tracefs", unix.SECURITYFS_MAGIC: "securityfs", unix.SELINUX_MAGIC: "selinuxfs",
	unix.BPF_FS_MAGIC: "bpf", unix.DEVPTS_SUPER_MAGIC: "devpts", unix.EFIVARFS_MAGIC: "efivarfs", unix.NSFS_MAGIC: "nsfs",
	unix.BINFMTFS_MAGIC: "binfmt_misc", unix.HUGETLBFS_MAGIC: "hugetlbfs", unix.PSTOREFS_MAGIC: "pstore", 0x19800202: "mqueue", 0x65735543: "fusectl", 0x62656570: "configfs",
}

// Judge gives what is at a path, by a descriptor (O_PATH) that the caller closes, and the
// path that leads there without links, which nobody but the owners can change. The error
// is a *Refusal.
func (r *Rules) Judge(path string) (f *os.File, real string, err error) {
	bad := func(format string, args ...any) (*os.File, string, error) {
		if f != nil {
			f.Close()
		}
		return nil, "", &Refusal{Path: path, Reason: fmt.Sprintf(format, args...)}
	}
	if why := r.Named(path); why != "" {
		return bad("%s", why)
	}
	if err := (trust.Rules{Owners: r.Owners, Links: true, Sticky: true}).Path(path); err != nil {
		return nil, "", &Refusal{Path: path, Err: err}
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", &Refusal{Path: path, Err: os.NewSyscallError("open", err)}
	}
	f = os.NewFile(uintptr(fd), path)
	// What the descriptor is, whatever its name says.
	if real, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err != nil || !filepath.IsAbs(real) {
		return bad("has no path (%v)", err)
	}
	if why := r.Named(real); why != "" {
		return bad("is really %s, which %s", real, why)
	}
	var st unix.Stat_t
	var sys unix.Statfs_t
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &sys)); err != nil {
		return bad("can't be looked at (%v)", err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFREG:
	case unix.S_IFSOCK:
		return bad("is a socket")
	default:
		return bad("is neither a directory nor a regular file")
	}
	if name, ok := kernel[int64(sys.Type)]; ok {
		return bad("is on %s", name)
	}
	r.lookUp()
	if n, ok := r.never[file{st.Dev, st.Ino}]; ok {
		return bad("is really %s", n)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if why := sockets(real); why != "" {
			return bad("%s", why)
		}
	}
	return f, real, nil
}

const (
	maxLooked = 1024 // names
	maxDeep   = 2    // directories below the one that is shown
)

// sockets looks for some near the top, where services have them. One that comes later, or
// lies deeper, is not found.
func sockets(dir string) string {
	looked := 0
	why := ""
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if looked++; looked > maxLooked {
			return io.EOF
		}
		if d.Type()&fs.ModeSocket != 0 {
			why = "has a socket in it: " + strings.TrimPrefix(p, dir+"/")
			return io.EOF
		}
		if d.IsDir() && strings.Count(strings.TrimPrefix(p, dir), "/") > maxDeep {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return "can't be looked into"
	}
	return why
}
