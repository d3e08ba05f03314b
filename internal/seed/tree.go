package seed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/jailpath"
)

// AddTree takes the directory src of the host and everything below it. It is walked
// here, so that what can't be copied is known before anything is made; its files
// are opened when they are copied. Anything but files and directories is refused:
// what a link or a socket would be in the jail is nobody's guess. The error is a
// *jailer.Error.
func (s *Set) AddTree(dst, src string) error {
	abs, err := s.name(dst)
	if err != nil {
		return err
	}
	// With a slash behind it a link would be followed, and shells like to add one.
	if trimmed := strings.TrimRight(src, "/"); trimmed != "" {
		src = trimmed
	}
	var st unix.Stat_t
	if err := unix.Lstat(src, &st); err != nil {
		return hostError(src, err)
	}
	if err := checkKind(src, st.Mode, unix.S_IFDIR); err != nil {
		return err
	}
	fd, err := ignoringEINTR(func() (int, error) { return unix.Open(src, openFlags|unix.O_DIRECTORY, 0) })
	if err != nil {
		return hostError(src, err)
	}
	top := os.NewFile(uintptr(fd), src)
	s.open = append(s.open, top)
	s.secrets.look(src, abs, true)
	s.secrets.look(abs, abs, true)
	if err := s.directory(abs, fs.FileMode(st.Mode)); err != nil {
		return err
	}
	w := walk{set: s, top: top, dst: abs}
	for todo := []string{"."}; len(todo) > 0; {
		last := len(todo) - 1
		rel := todo[last]
		below, err := w.dir(rel)
		if err != nil {
			return err
		}
		slices.Reverse(below) // the first name is looked at first
		todo = append(todo[:last], below...)
	}
	return nil
}

type walk struct {
	set *Set
	top *os.File
	dst string
}

// dir adds what is in one directory, and gives the directories in it. One
// descriptor is open at a time, however deep the tree is.
func (w *walk) dir(rel string) (below []string, err error) {
	fd, err := openBeneath(w.top, rel, unix.O_DIRECTORY)
	if err != nil {
		return nil, hostError(w.top.Name()+"/"+rel, err)
	}
	d := os.NewFile(uintptr(fd), w.top.Name()+"/"+rel)
	defer d.Close()
	names, err := w.names(d)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p := name
		if rel != "." {
			p = rel + "/" + name
		}
		isDir, err := w.one(d, name, p)
		if err != nil {
			return nil, err
		}
		if isDir {
			below = append(below, p)
		}
	}
	return below, nil
}

// names are those of d, sorted, so that of several faults always the same is told.
func (w *walk) names(d *os.File) ([]string, error) {
	var names []string
	for {
		some, err := d.Readdirnames(4096)
		names = append(names, some...)
		switch {
		case errors.Is(err, io.EOF):
			slices.Sort(names)
			return names, nil
		case err != nil:
			return nil, hostError(d.Name(), err)
		case len(names) > MaxEntries:
			return nil, &jailer.Error{
				Code: jailer.CodeNoSpace, Op: op, Path: jailpath.Quote(d.Name()),
				Message: fmt.Sprintf("has more than %d entries", MaxEntries), Hint: "name a smaller directory",
			}
		}
	}
}

// one adds the entry name of d, which is rel from the top.
func (w *walk) one(d *os.File, name, rel string) (isDir bool, err error) {
	host := w.top.Name() + "/" + rel
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, hostError(host, err)
	}
	abs := w.dst + "/" + rel
	if len(abs) > jailpath.MaxBytes {
		return false, conflict(abs, fmt.Sprintf("has %d bytes, a path in the jail has at most %d", len(abs), jailpath.MaxBytes))
	}
	w.set.secrets.lookName(name, abs, st.Mode&unix.S_IFMT == unix.S_IFDIR)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return true, w.set.directory(abs, fs.FileMode(st.Mode))
	case unix.S_IFLNK:
		return false, &jailer.Error{
			Code: jailer.CodeInvalidPath, Op: op, Path: jailpath.Quote(host), Message: "is a symbolic link, which is not copied",
			Hint: "copy the tree without it (`find DIR -type l` lists them), or name what it leads to by --file",
		}
	}
	if err := checkKind(host, st.Mode, unix.S_IFREG); err != nil {
		return false, err
	}
	return false, w.set.add(&entry{path: abs, mode: fileMode(fs.FileMode(st.Mode)), size: st.Size, from: beneath{w.top, rel}})
}
