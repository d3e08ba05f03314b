package cgroup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Reap kills and removes left-over jails, named by the directories a record
// holds (see Base.Plan). A record is only a file: each path must be an absolute
// one without symbolic links, its last element jail-*, in a cgroup file system,
// or it is refused and left alone. All that lies below one is killed and removed
// with it, whether a record could name it or not: the cgroups of a session's
// commands are made one by one. Missing ones are fine, so Reap can be repeated. The
// rest is done even if one fails. The launcher's own cgroup beside a jail, where it
// has one, goes with it if nobody is in it.
func Reap(ctx context.Context, paths []string) error {
	var errs []error
	var ps []place
	for _, path := range paths {
		p, err := reapable(path)
		switch {
		case gone(err):
		case err != nil:
			errs = append(errs, err)
		default:
			ps = append(ps, p)
		}
	}
	errs = append(errs, killPlaces(ps, nil))
	for _, p := range ps {
		one := []place{p}
		err := waitPlaces(ctx, one)
		if err == nil {
			err = removePlaces(ctx, one)
		}
		errs = append(errs, err)
	}
	for _, path := range paths {
		removeLauncher(path)
	}
	return errors.Join(errs...)
}

// removeLauncher removes BASE/launcher beside a jail. The kernel refuses while
// another launcher, or the shell that it was started from, is in it.
func removeLauncher(jail string) {
	if jailID(jail) != nil {
		return
	}
	base, err := openPath(filepath.Dir(jail))
	if err != nil {
		return
	}
	defer base.Close()
	var sf unix.Statfs_t
	if unix.Fstatfs(int(base.Fd()), &sf) != nil {
		return
	}
	if v2, _ := cgroupMagic(sf); v2 {
		_ = unix.Unlinkat(int(base.Fd()), launcherDir, unix.AT_REMOVEDIR)
	}
}

// jailID refuses what is not the absolute path of a jail's directory.
func jailID(path string) error {
	name, ok := strings.CutPrefix(filepath.Base(path), jailPrefix)
	if !ok || checkID(name) != nil || !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Errorf("cgroup: %q is not the directory of a jail", path)
	}
	return nil
}

func reapable(path string) (place, error) {
	if err := jailID(path); err != nil {
		return place{}, err
	}
	f, err := openPath(path)
	if err != nil {
		return place{}, fail("open", path, "", err)
	}
	defer f.Close()
	var sf unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &sf); err != nil {
		return place{}, fail("statfs", path, "", err)
	}
	v2, ok := cgroupMagic(sf)
	if !ok {
		return place{}, fmt.Errorf("cgroup: %q is in no cgroup file system", path)
	}
	p := place{dir: path, mount: Mount{V2: v2}}
	if !v2 && exists(filepath.Join(path, "cgroup.procs")) {
		p.ctls = []string{"pids"} // fence tries; only the pids hierarchy has the file
	}
	return p, nil
}
