// Package seed is the list of files and directories that are put into a jail
// before its command starts, and how PID 1 is told them.
//
// Only what is named goes in. Host paths come from the operator, are opened with
// the caller's rights, and never through a symbolic link that the tree of somebody
// else may hold: a link to ~/.ssh in a checkout of a stranger's would otherwise be
// followed on the host, where it leads somewhere (CVE-2024-21626 and its like, the
// other way round). The jail's side of the copy is made by a process in the jail,
// under the job's own id: it can write only where the job can.
package seed

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/jailpath"
	"github.com/jailer-project/jailer/policy"
)

// MaxEntries bounds the files and directories of a Set: it is the highest built-in
// ceiling of a file system's inodes, and keeps `--dir x=/` from walking for hours.
const MaxEntries = 1 << 20

// dirMode is that of directories nobody gives another, and the least of all: the
// job owns them, and is alone in its jail.
const dirMode fs.FileMode = 0o755

// A Set is what to put in. The zero value and nil are empty sets.
type Set struct {
	at      map[string]*entry // by path in the jail
	named   map[string]bool   // paths that were given, not only implied
	open    []*os.File        // to be closed with the set
	secrets secrets
}

// entry is one frame.
type entry struct {
	path string // absolute and clean, in the jail
	dir  bool
	mode fs.FileMode
	size int64 // when it was added; the frame has that of the moment
	from source
}

// add takes a file or directory and makes what is above it.
func (s *Set) add(e *entry) error {
	if s.at == nil {
		s.at = map[string]*entry{}
	}
	if old := s.at[e.path]; old != nil {
		if !old.dir || !e.dir {
			return conflict(e.path, "given twice, or as a file and a directory")
		}
		old.mode |= e.mode
		return nil
	}
	for up := path.Dir(e.path); up != jailpath.Mount(e.path); up = path.Dir(up) {
		above := s.at[up]
		if above == nil {
			s.at[up] = &entry{path: up, dir: true, mode: dirMode}
			continue
		}
		if !above.dir {
			return conflict(e.path, fmt.Sprintf("%s, above it, is given as a file", jailpath.Quote(up)))
		}
		break
	}
	s.at[e.path] = e
	if len(s.at) > MaxEntries {
		return &jailer.Error{
			Code: jailer.CodeNoSpace, Op: op, Path: jailpath.Quote(e.path),
			Message: fmt.Sprintf("is one of more than %d files and directories", MaxEntries),
			Hint:    "name a smaller directory",
		}
	}
	return nil
}

// name resolves a path that somebody gave. Given twice it is an error: which of
// the two was meant can't be told.
func (s *Set) name(dst string) (string, error) {
	abs, err := jailpath.Resolve(dst)
	if err != nil {
		return "", &jailer.Error{Code: jailer.CodeInvalidPath, Op: op, Message: "the path in the jail", Err: err}
	}
	if s.named[abs] {
		return "", conflict(abs, "given twice")
	}
	if s.named == nil {
		s.named = map[string]bool{}
	}
	s.named[abs] = true
	return abs, nil
}

// AddFile takes the regular file src of the host, which is opened here and keeps
// its permission bits. The error is a *jailer.Error.
func (s *Set) AddFile(dst, src string) error {
	abs, err := s.name(dst)
	if err != nil {
		return err
	}
	if abs == jailpath.Mount(abs) {
		return conflict(abs, "is a directory of every jail")
	}
	f, st, err := openFile(src)
	if err != nil {
		return err
	}
	s.open = append(s.open, f)
	s.secrets.look(src, abs, false)
	s.secrets.look(abs, abs, false)
	return s.add(&entry{path: abs, mode: fileMode(fs.FileMode(st.Mode)), size: st.Size, from: opened{f, src}})
}

// AddDir makes an empty directory.
func (s *Set) AddDir(dst string) error {
	abs, err := s.name(dst)
	if err != nil {
		return err
	}
	return s.directory(abs, dirMode)
}

// directory adds abs, unless it is there anyway.
func (s *Set) directory(abs string, mode fs.FileMode) error {
	if abs == jailpath.Mount(abs) {
		return nil
	}
	return s.add(&entry{path: abs, dir: true, mode: mode&fs.ModePerm | dirMode})
}

// Join is s with the files of a plan's, whose limits it must fit. s stays as it is;
// the new one must not be used after s was closed, and needs no closing.
func (s *Set) Join(n *policy.Plan) (*Set, error) {
	j := &Set{at: map[string]*entry{}, named: map[string]bool{}}
	if s != nil {
		for p, e := range s.at {
			own := *e // its mode may grow
			j.at[p] = &own
		}
		for p := range s.named {
			j.named[p] = true
		}
		j.secrets = s.secrets.clone()
	}
	for _, f := range n.Files {
		abs, err := j.name(f.Path)
		if err == nil {
			err = j.add(&entry{path: abs, mode: fileMode(f.Mode), size: int64(len(f.Data)), from: inline(f.Data)})
		}
		if err != nil {
			return nil, err
		}
		j.secrets.look(abs, abs, false)
		if j.overflows(n.Limits) {
			break
		}
	}
	for _, d := range n.Directories {
		if j.overflows(n.Limits) {
			break // one path can stand for two thousand
		}
		if err := j.AddDir(d); err != nil {
			return nil, err
		}
	}
	if err := j.fits(n.Limits); err != nil {
		return nil, err
	}
	return j, nil
}

// Paths lists where files and directories are put, absolute in the jail.
func (s *Set) Paths() (all []string) {
	for _, e := range s.list() {
		all = append(all, e.path)
	}
	return all
}

// Empty reports that there is nothing to put in.
func (s *Set) Empty() bool { return s == nil || len(s.at) == 0 }

// Warnings has a line for each name that looks like a secret's. The files are put
// in all the same.
func (s *Set) Warnings() []string {
	if s == nil {
		return nil
	}
	return s.secrets.warnings()
}

// Close closes the host's files.
func (s *Set) Close() {
	if s == nil {
		return
	}
	for _, f := range s.open {
		f.Close()
	}
	s.open = nil
}

// list has the entries in the order of their frames. A path sorts before what is
// below it.
func (s *Set) list() []*entry {
	if s == nil {
		return nil
	}
	out := make([]*entry, 0, len(s.at))
	for _, e := range s.at {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *entry) int { return strings.Compare(a.path, b.path) })
	return out
}

// fileMode is what becomes of a file's mode: a set-id or sticky bit has no meaning
// in a jail, and what the job couldn't read need not be there.
func fileMode(m fs.FileMode) fs.FileMode { return m&fs.ModePerm | 0o400 }

func conflict(abs, msg string) *jailer.Error {
	return &jailer.Error{Code: jailer.CodeInvalidPath, Op: op, Path: jailpath.Quote(abs), Message: msg}
}

// op is the step of these errors.
const op = "seed"
