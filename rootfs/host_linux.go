package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// systemDirs hold programs and libraries. On a merged-/usr system all but usr
// are links into it and are shown as such; elsewhere they are bound.
var systemDirs = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// hostEtc are the entries of the host's /etc that ordinary programs read and
// that say nothing about the host's users, secrets or network. A directory is
// bound, a small file copied (cheaper than a mount). ssl/private is never here.
var hostEtc = []string{
	"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
	"services", "protocols", "mime.types", "magic", "magic.mime",
	"fonts", "perl", "ssl/certs", "ssl/openssl.cnf",
}

// hostEtcPrefixes are families whose names carry a version.
var hostEtcPrefixes = []string{"java-", "python3"}

// copyLimit bounds, in bytes, a file of /etc that is copied; larger ones are bound.
const copyLimit = 256 << 10

// hostView assembles a read-only view of the host's /usr with an own /etc.
// Nothing of /home, /root, /run, /var, /sys, /boot, /opt or /srv is in it.
func (s *skeleton) hostView(host string) error {
	top, err := openDir(host)
	if err != nil {
		return s.fail(host, err, "")
	}
	defer top.Close()
	for _, name := range systemDirs {
		mode, err := lstat(top, name)
		switch {
		case errors.Is(err, unix.ENOENT):
			continue
		case err != nil:
			return s.fail(path.Join(host, name), err, "")
		case mode == unix.S_IFLNK:
			if err := s.copyLink(top, name, name); err != nil {
				return err
			}
		case mode == unix.S_IFDIR:
			if err := s.bindEntry(path.Join(host, name), "/"+name, true); err != nil {
				return err
			}
		}
	}
	if err := s.ownEtc(nil, nil); err != nil {
		return err
	}
	return s.hostEtc(path.Join(host, "etc"))
}

func (s *skeleton) hostEtc(etc string) error {
	dir, err := openDir(etc)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return s.fail(etc, err, "")
	}
	defer dir.Close()
	names := append([]string(nil), hostEtc...)
	all, err := dir.Readdirnames(-1)
	if err != nil {
		return s.fail(etc, err, "")
	}
	for _, n := range all {
		for _, p := range hostEtcPrefixes {
			if strings.HasPrefix(n, p) {
				names = append(names, n)
			}
		}
	}
	if err := s.root.Mkdir("etc/ssl", 0o755); err != nil {
		return err
	}
	for _, n := range names {
		if err := s.hostEtcEntry(dir, etc, n); err != nil {
			return err
		}
	}
	return nil
}

func (s *skeleton) hostEtcEntry(dir *os.File, etc, name string) error {
	mode, err := lstat(dir, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return s.fail(path.Join(etc, name), err, "")
	}
	target := "/etc/" + name
	switch mode {
	case unix.S_IFDIR:
		return s.bindEntry(path.Join(etc, name), target, true)
	case unix.S_IFLNK:
		return s.copyLink(dir, name, "etc/"+name)
	case unix.S_IFREG:
		data, err := readBeneath(dir, name, copyLimit)
		if errors.Is(err, errTooLarge) {
			return s.bindEntry(path.Join(etc, name), target, false)
		}
		if errors.Is(err, fs.ErrPermission) {
			return nil // not for everybody on the host, so not for the job
		}
		if err != nil {
			return s.fail(path.Join(etc, name), err, "")
		}
		return s.root.WriteFile("etc/"+name, data, 0o644)
	}
	return nil
}

// copyLink makes the same link in the skeleton. The kernel resolves it inside
// the jail; nothing on the host follows it.
func (s *skeleton) copyLink(dir *os.File, name, target string) error {
	to, err := readLink(dir, name)
	if err != nil {
		return s.fail(name, err, "")
	}
	return s.root.Symlink(to, target)
}
