// Package cgroup puts jails under the kernel's control groups: it finds a place
// in the tree where this caller may make cgroups, makes one tree per jail, sets
// the limits of each command and reads them back, reports events and usage, and
// kills and removes what it made.
//
// On cgroup v2 (a delegated subtree, or real root) the tree is
//
//	BASE/launcher       the launcher, where BASE is its own delegated subtree
//	BASE/jail-ID        no process ever; cgroup.kill here ends everything
//	BASE/jail-ID/init   libcontainer's init and PID 1, without limits
//	BASE/jail-ID/job-N  one for each command, with all limits
//
// On cgroup v1 (root only) the same names stand below each controller's mount,
// without init, and below a v2 hierarchy mounted beside them, which gives
// cgroup.kill and "populated" even when it has no controllers.
//
// What can't be enforced is an *Unavailable that names controller, file and
// remedy; nothing here falls back to running without a limit.
package cgroup

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Kind says which interface of the kernel holds the limits.
type Kind string

// The two kinds, as they stand in a result's isolation.limits.
const (
	V1 Kind = "cgroup1"
	V2 Kind = "cgroup2"
)

// Limits of one command. 0 means no limit is set, except for Swap, which goes
// with Memory: 0 there means no swap at all.
type Limits struct {
	Memory   int64 // bytes
	Swap     int64 // bytes beyond Memory
	Pids     int64 // processes and threads
	CPUMilli int64 // thousandths of one CPU

	CPUSet          string // CPUs by number, as the kernel shows them: "0-1,3"; "" = any
	IORead, IOWrite int64  // bytes per second from and to each block device
}

// controllers is what every jail needs unless Options says otherwise, in the
// order in which they are reported and joined.
var controllers = []string{"memory", "pids", "cpu"}

// wanted are those that only a limit asks for, on v2 alone.
var wanted = []string{"cpuset", "io"}

// Controllers names the three.
func Controllers() []string { return slices.Clone(controllers) }

// Options of Find and Check. The zero value is the real host and all three
// controllers.
type Options struct {
	Root   string     // where cgroups are mounted; "" = /sys/fs/cgroup. Prefers mounts at or below it
	Proc   string     // the caller's proc directory; "" = /proc/self
	Name   string     // BASE's name when started as root; "" = jailer
	Need   []string   // of memory, pids, cpu, cpuset, io; empty = the first three
	Swap   int64      // for Check: bytes that the limits will grant beyond memory
	Getuid func() int // effective uid; nil = os.Geteuid

	swaps  string // "" = /proc/swaps
	blocks string // "" = /sys/block
	mkdir  func(dir string) error
	write  func(file, value string) error
	access func(file string) error       // may this caller write it?
	check  func(m Mount) error           // is the mount really what mountinfo says?
	owner  func(dir string) (int, error) // who owns it
}

func (o Options) withDefaults() Options {
	if o.Root == "" {
		o.Root = "/sys/fs/cgroup"
	}
	if o.Proc == "" {
		o.Proc = "/proc/self"
	}
	if o.Name == "" {
		o.Name = "jailer"
	}
	if len(o.Need) == 0 {
		o.Need = controllers
	}
	if o.Getuid == nil {
		o.Getuid = os.Geteuid
	}
	if o.swaps == "" {
		o.swaps = "/proc/swaps"
	}
	if o.blocks == "" {
		o.blocks = "/sys/block"
	}
	if o.mkdir == nil {
		o.mkdir = func(dir string) error { return os.Mkdir(dir, 0o755) }
	}
	if o.write == nil {
		o.write = writeFile
	}
	if o.access == nil {
		o.access = func(file string) error {
			return unix.Faccessat(unix.AT_FDCWD, file, unix.W_OK, unix.AT_EACCESS)
		}
	}
	if o.check == nil {
		o.check = Mount.verify
	}
	if o.owner == nil {
		o.owner = func(dir string) (int, error) {
			var st unix.Stat_t
			if err := unix.Lstat(dir, &st); err != nil {
				return -1, err
			}
			return int(st.Uid), nil
		}
	}
	return o
}
