package rootfs

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// ours are the top-level names that the skeleton owns whatever the directory
// holds: a root whose /proc or /dev is a link to elsewhere (CVE-2023-27561,
// CVE-2026-41579) is harmless because that entry is never looked at.
var ours = map[string]bool{
	"proc": true, "dev": true, "sys": true, "tmp": true, "workspace": true,
	"home": true, "run": true, "root": true, "boot": true, "lost+found": true,
}

// maxEntries bounds the top-level (and, where it has to be split, /etc)
// entries of a directory root: each becomes a mount.
const maxEntries = 64

// directory shows the entries of an operator's directory, each bound read-only
// into our own skeleton.
func (s *skeleton) directory(p string) error {
	top, err := openDir(p)
	if err != nil {
		return s.fail(p, err, "the directory must exist and be searchable by the uid that runs the jail")
	}
	defer top.Close()
	names, err := top.Readdirnames(maxEntries + 1)
	if err != nil && len(names) == 0 {
		return s.fail(p, err, "is the directory empty?")
	}
	if len(names) > maxEntries {
		return s.fail(p, errors.New("more than 64 top-level entries"), "name the root of a file system tree, with usr, bin, etc below it")
	}
	hasEtc := false
	for _, n := range names {
		switch {
		case ours[n]:
			continue
		case n == "etc":
			hasEtc = true
			continue
		case n == "var":
			continue // made by base; an image's /var is state, not program
		}
		if err := s.directoryEntry(top, p, n, n); err != nil {
			return err
		}
	}
	if !hasEtc {
		return s.ownEtc(nil, nil)
	}
	return s.directoryEtc(top, p)
}

// directoryEtc takes the root's /etc: whole, with our passwd, group and
// resolver files bound over its own, if it has a passwd; otherwise entry by
// entry into an own one.
func (s *skeleton) directoryEtc(top *os.File, p string) error {
	mode, err := lstat(top, "etc")
	if err != nil {
		return s.fail(path.Join(p, "etc"), err, "")
	}
	if mode != unix.S_IFDIR {
		return s.fail(path.Join(p, "etc"), errors.New("not a directory"), "etc must be a real directory of the root")
	}
	passwd, err := readBeneath(top, "etc/passwd", copyLimit)
	group, gerr := readBeneath(top, "etc/group", copyLimit)
	if err != nil {
		return s.splitEtc(top, p, group)
	}
	if err := s.bindEntry(path.Join(p, "etc"), "/etc", true); err != nil {
		return err
	}
	if err := s.dir.Mkdir("etc", 0o755); err != nil {
		return err
	}
	for _, f := range etcFiles(passwd, group) {
		if f.name == "group" && gerr != nil {
			continue
		}
		// A mount point can't be made in a read-only tree, and one that is a
		// link would be followed: only what is there as a regular file is covered.
		if m, err := lstat(top, "etc/"+f.name); err != nil || m != unix.S_IFREG {
			continue
		}
		if err := s.dir.WriteFile("etc/"+f.name, f.data, 0o644); err != nil {
			return err
		}
		s.bind(path.Join(s.dpath, "etc", f.name), "/etc/"+f.name)
	}
	return nil
}

func (s *skeleton) splitEtc(top *os.File, p string, group []byte) error {
	if err := s.ownEtc(nil, group); err != nil {
		return err
	}
	own := map[string]bool{"localtime": true}
	for _, f := range etcFiles(nil, nil) {
		own[f.name] = true
	}
	fd, err := unix.Openat(int(top.Fd()), "etc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return s.fail(path.Join(p, "etc"), err, "")
	}
	etc := os.NewFile(uintptr(fd), "etc")
	defer etc.Close()
	names, err := etc.Readdirnames(maxEntries + 1)
	if err != nil && len(names) == 0 {
		return nil // an empty /etc
	}
	if len(names) > maxEntries {
		return s.fail(path.Join(p, "etc"), errors.New("has no passwd and more than 64 entries"), "put an /etc/passwd, even an empty one, into the root")
	}
	for _, n := range names {
		if own[n] {
			continue
		}
		if err := s.directoryEntry(etc, path.Join(p, "etc"), n, "etc/"+n); err != nil {
			return err
		}
	}
	return nil
}

func (s *skeleton) directoryEntry(dir *os.File, p, name, target string) error {
	mode, err := lstat(dir, name)
	if err != nil {
		return s.fail(path.Join(p, name), err, "")
	}
	switch mode {
	case unix.S_IFDIR:
		return s.bindEntry(path.Join(p, name), "/"+target, true)
	case unix.S_IFREG:
		return s.bindEntry(path.Join(p, name), "/"+target, false)
	case unix.S_IFLNK:
		return s.copyLink(dir, name, target)
	}
	return nil // devices, FIFOs and sockets have no place in a root
}
