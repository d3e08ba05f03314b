package container

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runc/libcontainer/configs"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

func capabilities(c *specs.LinuxCapabilities) *configs.Capabilities {
	if c == nil {
		return &configs.Capabilities{}
	}
	return &configs.Capabilities{
		Bounding: c.Bounding, Effective: c.Effective, Permitted: c.Permitted,
		Inheritable: c.Inheritable, Ambient: c.Ambient,
	}
}

// hideCgroups makes every cgroup mount read-only for this thread, for as long
// as the container starts: libcontainer, which on v1 joins all hierarchies one
// by one (5 to 15 ms each for the first), and on v2 enables all controllers from
// the root down, finds that it can't and leaves PID 1 where it is. It ignores
// EROFS when told that its cgroups are rootless and unnamed. PID 1 and the job
// are placed by us.
//
// The mount namespace belongs to the calling thread (unshare(2), CLONE_NEWNS);
// nothing of the host's changes, and the returned function leaves it again.
func hideCgroups() (restore func() error, err error) {
	old, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return nil, err
	}
	cwd, err := os.Open(".")
	if err != nil {
		old.Close()
		return nil, err
	}
	restore = func() error {
		defer old.Close()
		defer cwd.Close()
		if err := unix.Setns(int(old.Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("leave the launcher's own mount namespace: %w", err)
		}
		return cwd.Chdir() // setns(2) has moved the thread to the root
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		old.Close()
		cwd.Close()
		return nil, fmt.Errorf("own mount namespace for the launcher's thread: %w", err)
	}
	err = readOnlyCgroups()
	if err == nil {
		err = pinHandle()
	}
	if err != nil {
		return nil, errors.Join(err, restore())
	}
	return restore, nil
}

var (
	pinOnce sync.Once
	//lint:ignore U1000 held open, never read: closing it would end the namespace
	pinned *os.File
	pinErr error
)

// pinHandle makes libcontainer open its handle of /sys/fs/cgroup, which it does
// once in a process's life, in this mount namespace, where it is read-only; and
// keeps the namespace, with which the handle would lose its place: every "no
// such file" would then be an error that libcontainer doesn't recognize.
func pinHandle() error {
	pinOnce.Do(func() {
		if pinned, pinErr = os.Open("/proc/thread-self/ns/mnt"); pinErr == nil {
			_, _ = cgroups.ReadFile("/sys/fs/cgroup", "cgroup.controllers")
		}
	})
	return pinErr
}

func readOnlyCgroups() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts slaves: %w", err)
	}
	err := unix.MountSetattr(unix.AT_FDCWD, "/sys/fs/cgroup", unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY,
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil // no cgroup mount at all: nothing to write to
	}
	if err != nil {
		return fmt.Errorf("make cgroup mounts read-only for the launcher: %w", err)
	}
	return nil
}
