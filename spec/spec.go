// Package spec builds the OCI runtime spec of a run: plan in, config.json out.
//
// It is pure: no I/O, no cgo, no look at the host, so the same Config gives the
// same bytes on every machine. What is true of a host enters as a field.
package spec

import (
	"errors"
	"fmt"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jailer-project/jailer/netns"
	"github.com/jailer-project/jailer/rootfs"
)

// Version is the OCI version written into every spec. Debian's crun refuses
// anything newer, and nothing newer is used.
const Version = "1.0.2"

// Config is everything that a spec depends on.
type Config struct {
	Args []string // the command; never a shell string
	Env  []string // K=V, complete: nothing is added here
	Cwd  string   // absolute, in the jail

	Root rootfs.Layout

	Workspace Tmpfs // /workspace, unless it is Persistent
	// Persistent is a directory of the host's that is /workspace; nil for none.
	Persistent *Directory
	Tmp        Tmpfs // each of /tmp, $HOME and /dev/shm
	NoExec     bool  // nothing that the job can write to can be executed

	// Terminal is the size of the job's terminal; nil for none.
	Terminal *Terminal

	Network netns.Network
	IDs     IDs
	Rlimits []Rlimit
	// Seccomp is the filter as an OCI runtime would compile it; nil where the
	// spec is only made for ForInit, as PID 1 loads the filter compiled at build.
	Seccomp *specs.LinuxSeccomp
	// AppArmor names a profile that is loaded on the host; empty for none.
	AppArmor string
	// CgroupsPath is the cgroup that libcontainer's init and our PID 1 live in,
	// from the root of the cgroup mount; empty where jailer places the job itself.
	CgroupsPath string
}

// Tmpfs bounds one writable mount.
type Tmpfs struct {
	Bytes  int64
	Inodes int64
}

// Directory is one of the host's.
type Directory struct {
	Path     string // absolute
	ReadOnly bool
}

// Terminal is a size in characters.
type Terminal struct {
	Cols, Rows uint16
}

// IDs is the jail's user namespace. With Range zero it maps one id, which needs
// no setuid helper: id 0 inside is HostUID, and the job becomes uid 1000 in a
// second namespace below.
type IDs struct {
	HostUID, HostGID uint32
	SubUID, SubGID   uint32 // first id of the range, mapped from 1 on
	Range            uint32 // number of subordinate ids; 0 = single-id map
}

// Rlimit is one resource limit of the job (never of PID 1).
type Rlimit struct {
	Type       string // RLIMIT_NOFILE, …
	Soft, Hard uint64
}

var errNoRoot = errors.New("spec: no root")

// Build makes the spec. Its process is the job itself; ForInit gives what
// libcontainer starts in its place.
func Build(c Config) (*specs.Spec, error) {
	if c.Root.Path == "" {
		return nil, errNoRoot
	}
	if len(c.Args) == 0 {
		return nil, errors.New("spec: no command")
	}
	if c.IDs.HostUID == 0 {
		// A job whose host uid is 0 owns /proc/sys and is not bound by
		// RLIMIT_NPROC, whatever its namespaces say.
		return nil, errors.New("spec: the job's host uid would be 0")
	}
	if !c.Network.New {
		return nil, errors.New("spec: the jail would share a network that exists")
	}
	s := &specs.Spec{
		Version:  Version,
		Hostname: rootfs.Hostname,
		Root:     &specs.Root{Path: c.Root.Path, Readonly: true},
		Process:  process(c),
		Mounts:   mounts(c),
		Linux:    linux(c),
	}
	return s, nil
}

func process(c Config) *specs.Process {
	p := &specs.Process{
		Args:            c.Args,
		Env:             c.Env,
		Cwd:             c.Cwd,
		NoNewPrivileges: true,
		ApparmorProfile: c.AppArmor,
		// Present and empty: without the member some runtimes keep their own set.
		Capabilities: &specs.LinuxCapabilities{
			Bounding: []string{}, Effective: []string{}, Inheritable: []string{},
			Permitted: []string{}, Ambient: []string{},
		},
	}
	if t := c.Terminal; t != nil {
		p.Terminal = true
		p.ConsoleSize = &specs.Box{Height: uint(t.Rows), Width: uint(t.Cols)}
	}
	for _, r := range c.Rlimits {
		p.Rlimits = append(p.Rlimits, specs.POSIXRlimit{Type: r.Type, Soft: r.Soft, Hard: r.Hard})
	}
	return p
}

func linux(c Config) *specs.Linux {
	l := &specs.Linux{
		UIDMappings: mapping(c.IDs.HostUID, c.IDs.SubUID, c.IDs.Range),
		GIDMappings: mapping(c.IDs.HostGID, c.IDs.SubGID, c.IDs.Range),
		CgroupsPath: c.CgroupsPath,
		Namespaces:  namespaces(),
		// A private root: neither do the host's later mounts enter, nor ours leave.
		RootfsPropagation: "private",
		MaskedPaths:       MaskedPaths(),
		ReadonlyPaths:     ReadonlyPaths(),
		Seccomp:           c.Seccomp,
	}
	return l
}

func mapping(host, sub, n uint32) []specs.LinuxIDMapping {
	m := []specs.LinuxIDMapping{{ContainerID: 0, HostID: host, Size: 1}}
	if n > 0 {
		m = append(m, specs.LinuxIDMapping{ContainerID: 1, HostID: sub, Size: n})
	}
	return m
}

// namespaces leaves out the cgroup namespace on purpose: made here it would be
// rooted at PID 1's cgroup and the job's own would lie outside it (ENOENT on
// CLONE_INTO_CGROUP with nsdelegate). PID 1 makes it with the job's clone.
func namespaces() []specs.LinuxNamespace {
	return []specs.LinuxNamespace{
		{Type: specs.UserNamespace},
		{Type: specs.MountNamespace},
		{Type: specs.PIDNamespace},
		{Type: specs.NetworkNamespace},
		{Type: specs.IPCNamespace},
		{Type: specs.UTSNamespace},
	}
}

// MaskedPaths hide what procfs tells of the host or lets a job reach.
// /proc/1/cgroup and its like, also those of its thread, would name the
// launcher's cgroup, /proc/locks the host ids that other jails hold.
func MaskedPaths() []string {
	return []string{
		"/proc/1/cgroup",
		"/proc/1/cpuset",
		"/proc/1/task/1/cgroup",
		"/proc/1/task/1/cpuset",
		"/proc/acpi",
		"/proc/asound",
		"/proc/cmdline",
		"/proc/config.gz",
		"/proc/interrupts",
		"/proc/iomem",
		"/proc/ioports",
		"/proc/kallsyms",
		"/proc/kcore",
		"/proc/keys",
		"/proc/key-users",
		"/proc/kmsg",
		"/proc/kpagecgroup",
		"/proc/kpagecount",
		"/proc/kpageflags",
		"/proc/latency_stats",
		"/proc/locks",
		"/proc/modules",
		"/proc/sched_debug",
		"/proc/scsi",
		"/proc/timer_list",
		"/proc/timer_stats",
		"/proc/vmallocinfo",
	}
}

// ReadonlyPaths are the writable parts of procfs. /proc/sys is the one that
// matters most: a namespace root whose host uid owns it writes core_pattern.
// /proc/1 has files that a process of the same uid may write (oom_score_adj,
// clear_refs, comm, …); PID 1's uid is the job's.
func ReadonlyPaths() []string {
	return []string{
		"/proc/1", "/proc/bus", "/proc/driver", "/proc/fs", "/proc/irq", "/proc/mtrr",
		"/proc/pressure", "/proc/sys", "/proc/sysrq-trigger",
	}
}

func mounts(c Config) []specs.Mount {
	m := make([]specs.Mount, 0, len(c.Root.Binds)+5)
	m = append(m, specs.Mount{
		Destination: "/proc", Type: "proc", Source: "proc",
		Options: []string{"nosuid", "noexec", "nodev"},
	})
	for _, b := range c.Root.Binds {
		m = append(m, bind(b))
	}
	owner := ""
	if c.IDs.Range > 0 {
		// The job has an id of its own, one above its id in the second namespace.
		owner = fmt.Sprintf(",uid=%d,gid=%d", rootfs.UID+1, rootfs.GID+1)
	}
	if c.Terminal != nil {
		m = append(m, pts(owner))
	}
	for _, t := range []struct {
		target, mode string
		size         Tmpfs
	}{
		{rootfs.Shm, "1777", c.Tmp},
		{rootfs.Tmp, "1777", c.Tmp},
		{rootfs.Home, "0700", c.Tmp},
		{rootfs.Workspace, "0755", c.Workspace}, // last: nothing is mounted below what a tenant fills
	} {
		if t.target == rootfs.Workspace && c.Persistent != nil {
			p := persistent(c.Persistent)
			p.Options = noexec(p.Options, c.NoExec)
			m = append(m, p)
			continue
		}
		m = append(m, specs.Mount{
			Destination: t.target, Type: "tmpfs", Source: "tmpfs",
			Options: noexec([]string{
				"nosuid", "nodev", "mode=" + t.mode + owner,
				"size=" + strconv.FormatInt(t.size.Bytes, 10),
				"nr_inodes=" + strconv.FormatInt(t.size.Inodes, 10),
			}, c.NoExec),
		})
	}
	return m
}

func noexec(options []string, yes bool) []string {
	if yes {
		return append(options, "noexec")
	}
	return options
}

// persistent is a bind of that directory alone: nothing that the host mounts below it
// comes along.
func persistent(d *Directory) specs.Mount {
	m := specs.Mount{
		Destination: rootfs.Workspace, Type: "bind", Source: d.Path,
		Options: []string{"bind", "nosuid", "nodev", "private"},
	}
	if d.ReadOnly {
		m.Options = append(m.Options, "ro")
	}
	return m
}

// maxPts bounds the terminals of one jail: its own and those that it opens, for
// script or tmux. All jails of a host share kernel.pty.max less
// kernel.pty.reserve, 3072, and the memory of one is charged to nobody.
const maxPts = 32

// pts mounts a devpts instance of the jail's own: no name in it is a terminal of
// the host, and TIOCGPTPEER on what is opened here leads nowhere else. Read-only
// keeps the job from changing modes and owners; terminals can be opened all the
// same. Never nodev: then nothing could be. The group is the opener's: "gid=5",
// the usual one, has no place in a map of one id.
func pts(owner string) specs.Mount {
	return specs.Mount{
		Destination: rootfs.Pts, Type: "devpts", Source: "devpts",
		Options: []string{"ro", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620" + owner, "max=" + strconv.Itoa(maxPts)},
	}
}

// bind mounts read-only, recursively: a file system mounted below /usr is as
// read-only as /usr ("ro" alone covers the top mount only, mount_setattr(2)).
func bind(b rootfs.Bind) specs.Mount {
	if b.Device {
		return specs.Mount{
			Destination: b.Target, Type: "bind", Source: b.Source,
			Options: []string{"bind", "ro", "nosuid", "noexec", "private"},
		}
	}
	if b.Writable {
		return specs.Mount{
			Destination: b.Target, Type: "bind", Source: b.Source,
			Options: noexec([]string{"bind", "nosuid", "nodev", "private"}, b.NoExec),
		}
	}
	m := specs.Mount{
		Destination: b.Target, Type: "bind", Source: b.Source,
		Options: []string{"rbind", "rro", "rnosuid", "rnodev", "rprivate"},
	}
	if b.NoExec {
		m.Options = append(m.Options, "rnoexec")
	}
	return m
}
