// Package host finds out what this host can and can't enforce for one caller,
// and what mends it. Each finding has a stable id: the one that a refused run
// gives as its reason, and the title of a section of docs/host-setup.md.
//
// Every probe has three answers: yes, no, could not tell. Where something is
// needed, the last counts as no. Probes read and try; they change nothing that
// outlives them.
package host

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/internal/audit"
)

// State is the answer of a probe: yes means that it can be enforced, or that
// nothing stands in the way.
type State = cgroup.State

// The three answers.
const (
	Yes     = cgroup.Yes
	No      = cgroup.No
	Unknown = cgroup.Unknown
)

// A Finding is the answer of one probe.
type Finding struct {
	ID     string `json:"id"`
	State  State  `json:"state"`
	Needed bool   `json:"needed"`          // by the profile, for this caller
	Where  string `json:"where,omitempty"` // what was looked at
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`  // the command or file that mends it
	Cause  string `json:"cause,omitempty"` // the id that a refused run gives, where it isn't ID
}

// Failed says that a run would be refused for it.
func (f Finding) Failed() bool { return f.Needed && f.State != Yes }

// Host is what the probes look at. Here gives the real one; tests fake it
// piece by piece.
type Host struct {
	FS       fs.FS // the root directory
	UID, GID int   // effective ids of the caller
	Exe      string
	Arch     string // GOARCH
	Release  string // of the kernel, as uname(2) gives it
	Version  string // likewise: who built it, and when

	Cgroups  func(cgroup.Options) (*cgroup.Layout, []cgroup.Finding)
	Try      func(hostUID, hostGID int) Trial
	Landlock func() (int, error) // ABI version
	AppArmor apparmor.Ask
	Seccomp  func() error                   // does the kernel take filters?
	Writable func(dir string) error         // may the caller make a file in it?
	FileCaps func(file string) bool         // has it file capabilities?
	Owner    func(i fs.FileInfo) (int, int) // uid and gid; -1 if it can't be told
	Now      func() time.Time
	Slept    func() (time.Duration, error)  // how long was the host suspended?
	Synced   func() (bool, error)           // is the wall clock held by NTP or PTP?
	NoExec   func(dir string) (bool, error) // is dir on a noexec mount?
	Events   func(log string) error         // would an event log there be written?
	Volume   func(dir string) (Volume, error)
	Way      func(dir string) error // what lets others replace dir
}

// Here is the host that this program runs on.
func Here() *Host {
	var u unix.Utsname
	release, version := "", ""
	if unix.Uname(&u) == nil {
		release, version = unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:])
	}
	exe, _ := os.Readlink("/proc/self/exe")
	return &Host{
		FS: os.DirFS("/"), UID: os.Geteuid(), GID: os.Getegid(),
		Exe: exe, Arch: runtime.GOARCH, Release: release, Version: version,
		Cgroups:  cgroup.Check,
		Try:      try,
		Landlock: landlockABI,
		AppArmor: apparmor.Allowed,
		Seccomp:  seccompFilter,
		Writable: func(dir string) error {
			return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		},
		FileCaps: func(file string) bool {
			n, err := unix.Getxattr(file, "security.capability", nil)
			return err == nil && n > 0
		},
		Owner:  owner,
		Now:    time.Now,
		Slept:  slept,
		Synced: synced,
		NoExec: noExec,
		Events: audit.Check,
		Volume: volume,
		Way:    wayFor(os.Geteuid()),
	}
}

func owner(i fs.FileInfo) (uid, gid int) {
	if st, ok := i.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return -1, -1
}

func rel(name string) string {
	if name = strings.TrimPrefix(path.Clean("/"+name), "/"); name != "" {
		return name
	}
	return "."
}

// read gives a file's text without the white space around it.
func (h *Host) read(name string) (string, error) {
	b, err := fs.ReadFile(h.FS, rel(name))
	return strings.TrimSpace(string(b)), err
}

func (h *Host) lstat(name string) (fs.FileInfo, error) { return fs.Lstat(h.FS, rel(name)) }
func (h *Host) stat(name string) (fs.FileInfo, error)  { return fs.Stat(h.FS, rel(name)) }

func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
