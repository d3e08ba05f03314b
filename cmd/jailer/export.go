package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
)

// exports looks where the files of --export are to go, before anything runs, and makes
// nothing there. The caller closes what is opened with done.
func exports(flags []string) (list []launch.Export, done func(), err error) {
	done = func() {
		for _, x := range list {
			x.Dir.Close()
		}
	}
	tars := map[string]string{}
	for _, s := range flags {
		glob, dest, ok := strings.Cut(s, "=")
		if !ok || glob == "" || dest == "" {
			done()
			return nil, nil, usagef("--export %q: want GLOB=DEST", s)
		}
		x := launch.Export{Glob: glob, Name: s, Tar: strings.HasSuffix(dest, ".tar")}
		var path string
		if x.Dir, path, err = destination(dest, x.Tar); err != nil {
			done()
			return nil, nil, &jailer.Error{
				Code: jailer.CodeInvalidPath, Op: "export", Path: "--export", Err: err,
				Hint: "the directory above DEST has to be there, and writable",
			}
		}
		x.Base = filepath.Base(path)
		list = append(list, x)
		if other, twice := tars[path]; x.Tar && twice {
			done()
			return nil, nil, usagef("--export %q and %q: one file can't be both", other, s)
		}
		tars[path] = s
	}
	return list, done, nil
}

// destination opens the directory of a file or directory that is to be written, and gives
// its path without links: those are the caller's own, and followed.
func destination(dest string, tar bool) (dir *os.File, path string, err error) {
	if dest, err = filepath.Abs(dest); err != nil {
		return nil, "", err
	}
	if _, err := os.Lstat(dest); errors.Is(err, fs.ErrNotExist) {
		path, err = filepath.EvalSymlinks(filepath.Dir(dest))
		if err != nil {
			return nil, "", err
		}
		path = filepath.Join(path, filepath.Base(dest))
	} else if path, err = filepath.EvalSymlinks(dest); err != nil {
		return nil, "", err
	}
	writable := filepath.Dir(path)
	switch st, serr := os.Stat(path); {
	case errors.Is(serr, fs.ErrNotExist):
	case serr != nil:
		return nil, "", serr
	case tar && !st.Mode().IsRegular():
		return nil, "", fmt.Errorf("%s is no regular file", dest)
	case !tar && !st.IsDir():
		return nil, "", fmt.Errorf("%s is no directory", dest)
	case !tar:
		writable = path
	}
	if err := unix.Access(writable, unix.W_OK|unix.X_OK); err != nil {
		return nil, "", &os.PathError{Op: "write to", Path: writable, Err: err}
	}
	dir, err = os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return dir, path, err
}
