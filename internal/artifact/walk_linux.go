package artifact

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/internal/jailpath"
)

// A found is a file or directory to be exported.
type found struct {
	path  string
	st    unix.Stat_t
	isDir bool
}

// A walk looks for what the globs match.
type walk struct {
	dir      *files.Dir
	limits   Limits
	globs    []glob
	names    []string // of the globs
	matched  []bool
	rules    protected
	out      []found
	bytes    int64
	visited  int
	manifest *Manifest
}

const exportOp = "export"

func refuse(op, code, path, format string, args ...any) error {
	e := &files.Error{Code: code, Op: op, Message: fmt.Sprintf(format, args...)}
	if path != "" {
		e.Path = jailpath.Quote(path)
	}
	return e
}

// find gives what the globs match, by the bytes of the paths. Everything is bounded
// here, before a byte of content is read.
func (w *walk) find(ctx context.Context) error {
	p, whole := begin(w.globs)
	all := slices.Contains(whole, true)
	copy(w.matched, whole)
	if err := w.enter(ctx, ".", p, all, 0); err != nil {
		return err
	}
	for i, ok := range w.matched {
		if !ok {
			return refuse(exportOp, files.NotFound, w.names[i], "nothing matches")
		}
	}
	slices.SortFunc(w.out, func(a, b found) int { return strings.Compare(a.path, b.path) })
	return nil
}

// enter looks at what is in a directory. all: it is taken whatever the globs say.
func (w *walk) enter(ctx context.Context, dir string, p position, all bool, depth int) error {
	if depth >= maxDepth {
		w.manifest.skip(dir, "deeper than 100 directories")
		return nil
	}
	f, err := w.dir.OpenStraight(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		if dir == "." {
			return err
		}
		w.manifest.skip(dir, "can't be opened: "+err.Error()) // or is gone
		return nil
	}
	defer f.Close()
	if names, ok := p.literals(w.globs); ok && !all {
		return w.look(ctx, f, names, dir, p, all, depth) // whatever else is there
	}
	for {
		names, err := f.Readdirnames(1024)
		if err := w.look(ctx, f, names, dir, p, all, depth); err != nil {
			return err
		}
		if err != nil { // io.EOF, or the directory is gone
			return nil
		}
	}
}

// look looks at names in a directory, and takes or enters those that match.
func (w *walk) look(ctx context.Context, f *os.File, names []string, dir string, p position, all bool, depth int) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, name := range names {
		if w.visited++; w.visited > maxVisited {
			return refuse(exportOp, files.TooLarge, "", "the workspace has more than %d files to look at: give a narrower glob", maxVisited)
		}
		next, matches, on := p.enter(w.globs, name)
		took := slices.Contains(matches, true)
		if !all && !took && !on {
			continue
		}
		path := name
		if dir != "." {
			path = dir + "/" + name
		}
		var st unix.Stat_t
		if err := unix.Fstatat(int(f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue // gone
		}
		for i, m := range matches {
			w.matched[i] = w.matched[i] || m
		}
		if err := w.one(ctx, path, &st, next, all || took, on, depth); err != nil {
			return err
		}
	}
	return nil
}

// one takes a name, or goes on below it.
func (w *walk) one(ctx context.Context, path string, st *unix.Stat_t, p position, take, on bool, depth int) error {
	kind := st.Mode & unix.S_IFMT
	if take {
		switch {
		case path == ManifestName:
			w.manifest.skip(path, "has the name of the manifest")
			return nil
		case len(path) > jailpath.MaxBytes:
			w.manifest.skip(path[:jailpath.MaxBytes], "has a path that is too long")
			return nil
		case kind != unix.S_IFREG && kind != unix.S_IFDIR:
			w.manifest.skip(path, "is no regular file")
			return nil
		}
		if err := w.take(path, st, kind == unix.S_IFDIR); err != nil {
			return err
		}
	}
	if kind == unix.S_IFDIR && (take || on) {
		return w.enter(ctx, path, p, take, depth+1)
	}
	return nil
}

func (w *walk) take(path string, st *unix.Stat_t, isDir bool) error {
	if len(w.out) >= w.limits.MaxFiles {
		return refuse(exportOp, files.TooLarge, "", "more than %d files and directories match", w.limits.MaxFiles)
	}
	if w.limits.OnProtected == Refuse && w.rules.covers(path) {
		return refuse(exportOp, files.PolicyDenied, path, "has a protected name")
	}
	if !isDir {
		if st.Size > w.limits.MaxFileBytes {
			return refuse(exportOp, files.TooLarge, path, "has %d bytes, at most %d are allowed", st.Size, w.limits.MaxFileBytes)
		}
		if w.bytes += st.Size; w.bytes > w.limits.MaxBytes {
			return refuse(exportOp, files.TooLarge, "", "the files that match have more than the %d bytes allowed", w.limits.MaxBytes)
		}
	}
	w.out = append(w.out, found{path, *st, isDir})
	return nil
}
