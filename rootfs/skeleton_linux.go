package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Devices are the only device nodes of a jail. Each is a bind of the host's
// node: mknod is not possible in a user namespace (user_namespaces(7)).
var Devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// Assemble makes the skeleton below dir (the run's own directory, owned by the
// launcher, not writable by anybody else) and returns the layout to mount.
// It stats nothing below the source but the entries it mounts.
func Assemble(dir string, src Source) (*Layout, error) {
	s, err := newSkeleton(dir, src)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.base(); err != nil {
		return nil, err
	}
	if src.Host() {
		err = s.hostView("/")
	} else {
		err = s.directory(src.Path)
	}
	if err != nil {
		return nil, err
	}
	if err := s.mounts(src.Mounts); err != nil {
		return nil, err
	}
	if err := s.dev(); err != nil {
		return nil, err
	}
	if err := s.executables(src.Executables); err != nil {
		return nil, err
	}
	return &Layout{Path: s.path, Binds: s.binds}, nil
}

type skeleton struct {
	src   Source
	path  string
	root  *os.Root // the skeleton itself: nothing below it is reached by an absolute path
	dir   *os.Root // the run's directory
	dpath string
	binds []Bind
}

func newSkeleton(dir string, src Source) (*skeleton, error) {
	d, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &skeleton{src: src, dir: d, dpath: dir, path: path.Join(dir, "root")}
	if err := d.Mkdir("root", 0o755); err != nil {
		d.Close()
		return nil, err
	}
	if s.root, err = d.OpenRoot("root"); err != nil {
		d.Close()
		return nil, err
	}
	return s, nil
}

func (s *skeleton) close() {
	s.root.Close()
	s.dir.Close()
}

// base makes the mount points that every jail has.
func (s *skeleton) base() error {
	for _, d := range []struct {
		name string
		mode fs.FileMode
	}{
		{"proc", 0o555},
		{"dev", 0o755},
		{"tmp", 0o755},
		{"workspace", 0o755},
		{"home", 0o755},
		{"home/jail", 0o700},
		{"run", 0o755},
		{"var", 0o755},
	} {
		if err := s.root.Mkdir(d.name, d.mode); err != nil {
			return err
		}
	}
	for _, l := range [][2]string{{"../tmp", "var/tmp"}, {"../run", "var/run"}} {
		if err := s.root.Symlink(l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

// dev makes the jail's /dev beside the root. It is bound read-only, which
// makes libcontainer leave it alone: libcontainer's own /dev has a dangling
// ptmx and a link to /proc/kcore, and is tmpfs that a job of the same uid could
// write to while it is assembled (mode bits don't hold the owner off).
func (s *skeleton) dev() error {
	if err := s.dir.Mkdir("dev", 0o755); err != nil {
		return err
	}
	if err := s.dir.Mkdir("dev/shm", 0o755); err != nil {
		return err
	}
	s.bind(path.Join(s.dpath, "dev"), "/dev")
	for _, l := range [][2]string{
		{"/proc/self/fd", "fd"},
		{"/proc/self/fd/0", "stdin"},
		{"/proc/self/fd/1", "stdout"},
		{"/proc/self/fd/2", "stderr"},
	} {
		if err := s.dir.Symlink(l[0], "dev/"+l[1]); err != nil {
			return err
		}
	}
	if s.src.Terminal {
		if err := s.dir.Mkdir("dev/pts", 0o755); err != nil {
			return err
		}
		if err := s.dir.Symlink("pts/ptmx", "dev/ptmx"); err != nil {
			return err
		}
	}
	for _, d := range Devices {
		if err := s.dir.WriteFile("dev/"+d, nil, 0o666); err != nil {
			return err
		}
		s.binds = append(s.binds, Bind{Source: "/dev/" + d, Target: "/dev/" + d, Device: true})
	}
	return nil
}

func (s *skeleton) bind(source, target string) {
	s.binds = append(s.binds, Bind{Source: source, Target: target})
}

// bindEntry shows the host's source at the same-named place of the skeleton.
func (s *skeleton) bindEntry(source, target string, dir bool) error {
	rel := strings.TrimPrefix(target, "/")
	var err error
	if dir {
		err = s.root.Mkdir(rel, 0o755)
	} else {
		err = s.root.WriteFile(rel, nil, 0o644)
	}
	if err != nil {
		return err
	}
	s.bind(source, target)
	return nil
}

// mounts makes the places of the operator's mounts. A name of the root's is not taken: what
// programs look for there would be something else.
func (s *skeleton) mounts(list []Mount) error {
	made := map[string]bool{}
	for _, m := range list {
		rel := strings.TrimPrefix(m.Target, "/")
		first, _, _ := strings.Cut(rel, "/")
		if _, err := s.root.Lstat(first); err == nil && !made[first] {
			return s.fail(m.Target, fmt.Errorf("the root has /%s", first), "choose another target for the mount")
		}
		made[first] = true
		var st unix.Stat_t
		if err := unix.Lstat(m.Source, &st); err != nil || st.Dev != m.Dev || st.Ino != m.Ino {
			return s.fail(m.Source, errors.New("was replaced meanwhile"), "try again")
		}
		if up := path.Dir(rel); up != "." {
			if err := s.root.MkdirAll(up, 0o755); err != nil {
				return err
			}
		}
		if err := s.bindEntry(m.Source, m.Target, m.Dir); err != nil {
			return err
		}
		s.binds[len(s.binds)-1].Writable = m.Writable
	}
	return nil
}

// executables makes all that is shown noexec, and mounts the listed files and the
// libraries over themselves, so that they are not.
func (s *skeleton) executables(list []Mount) error {
	if list == nil {
		return nil
	}
	for i := range s.binds {
		s.binds[i].NoExec = true
	}
	top := s.src.Path
	if s.src.Host() {
		top = "/"
	}
	for _, l := range Libraries {
		var st unix.Stat_t
		p := path.Join(top, l)
		// A link leads to one of the others, or to none of the root's.
		if err := unix.Lstat(p, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || !s.shown(l) {
			continue
		}
		s.bind(p, l)
	}
	for _, x := range list {
		var st unix.Stat_t
		if err := unix.Lstat(x.Source, &st); err != nil || st.Dev != x.Dev || st.Ino != x.Ino {
			return s.fail(x.Source, errors.New("was replaced meanwhile"), "try again")
		}
		if !s.shown(x.Target) {
			return s.fail(x.Target, errors.New("is not in the root"), "list files that the jail has")
		}
		s.bind(x.Source, x.Target)
	}
	return nil
}

// shown says that a path of the jail is in one of the root's binds.
func (s *skeleton) shown(p string) bool {
	for _, b := range s.binds {
		if p == b.Target || strings.HasPrefix(p, b.Target+"/") {
			return true
		}
	}
	return false
}

// fail wraps err with the root's name.
func (s *skeleton) fail(p string, err error, hint string) error {
	return &Error{Root: s.src.Name, Path: p, Err: err, Hint: hint}
}

// lstat looks at one entry of an open source directory without following it.
func lstat(dir *os.File, name string) (mode uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, err
	}
	return st.Mode & unix.S_IFMT, nil
}

// readLink reads one link of an open source directory.
func readLink(dir *os.File, name string) (string, error) {
	buf := make([]byte, 4096)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// openDir opens a source directory. The path is the operator's, so links in it
// are the operator's too; what is below it is opened by descriptor only.
func openDir(p string) (*os.File, error) {
	fd, err := unix.Open(p, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), p), nil
}

// readBeneath reads a small regular file below dir. No link is followed and
// nothing that could block (a FIFO) or flood (a device) is opened for reading.
func readBeneath(dir *os.File, name string, limit int64) ([]byte, error) {
	fd, err := unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	if st.Size() > limit {
		return nil, errTooLarge
	}
	buf := make([]byte, st.Size())
	n, err := f.ReadAt(buf, 0)
	if err != nil && int64(n) != st.Size() {
		return nil, err
	}
	return buf[:n], nil
}

var errTooLarge = errors.New("file is too large to copy")
