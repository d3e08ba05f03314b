package files

import (
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// A Type is what a file is.
type Type string

// The types.
const (
	File      Type = "file"
	Directory Type = "directory"
	Link      Type = "link"
	FIFO      Type = "fifo"
	Socket    Type = "socket"
	Device    Type = "device"
)

func typeOf(mode uint32) Type {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Directory
	case unix.S_IFLNK:
		return Link
	case unix.S_IFIFO:
		return FIFO
	case unix.S_IFSOCK:
		return Socket
	}
	return Device
}

// Info is what is known of a file. Name and Target are bytes of a stranger's.
type Info struct {
	Name    string
	Type    Type
	Size    int64  // bytes; logical
	Mode    uint32 // permission bits, with setuid, setgid and sticky
	ModTime time.Time
	Links   int64  // hard links to it
	Target  string // of a link, as it stands there
}

func infoOf(name string, st *unix.Stat_t) Info {
	return Info{
		Name: name, Type: typeOf(st.Mode), Size: st.Size, Mode: st.Mode & 0o7777,
		ModTime: time.Unix(st.Mtim.Unix()).UTC(), Links: int64(st.Nlink),
	}
}

// at is the Info of a name in a directory.
func at(dir *os.File, name string) (Info, error) {
	st, err := lstat(dir, name)
	if err != nil {
		return Info{}, err
	}
	i := infoOf(name, st)
	if i.Type == Link {
		b := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(int(dir.Fd()), name, b)
		if err == nil { // else it is none any more
			i.Target = string(b[:n])
		}
	}
	return i, nil
}

// Stat tells of one file. The last name of the path is not followed.
func (d *Dir) Stat(p string) (Info, error) {
	const op = "fs.stat"
	p, err := Clean(op, p)
	if err != nil {
		return Info{}, err
	}
	if p == "." {
		st := new(unix.Stat_t)
		if err := unix.Fstat(int(d.f.Fd()), st); err != nil {
			return Info{}, fail(op, p, err)
		}
		return infoOf(".", st), nil
	}
	dir, name, err := d.Parent(p)
	if err != nil {
		return Info{}, fail(op, p, err)
	}
	defer dir.Close()
	i, err := at(dir, name)
	return i, fail(op, p, err)
}

// Follow tells of what a path leads to. Links are followed where they stay beneath.
func (d *Dir) Follow(p string) (Info, error) {
	const op = "fs.stat"
	p, err := Clean(op, p)
	if err != nil {
		return Info{}, err
	}
	f, st, err := d.look(p)
	if err != nil {
		return Info{}, fail(op, p, err)
	}
	f.Close()
	return infoOf(path.Base(p), st), nil
}

// Look opens a regular file for reading and tells of it; of a directory it tells alone,
// and f is nil. Links are followed where they stay beneath.
func (d *Dir) Look(p string) (f *os.File, i Info, err error) {
	const op = "fs.open"
	if p, err = Clean(op, p); err != nil {
		return nil, i, err
	}
	at, st, err := d.look(p)
	if err != nil {
		return nil, i, fail(op, p, err)
	}
	defer at.Close()
	name := path.Base(p)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil, infoOf(name, st), nil
	}
	f, st, err = regular(op, p, at, st)
	if err != nil {
		return nil, i, err
	}
	return f, infoOf(name, st), nil
}
