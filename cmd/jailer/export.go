package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
)

// exports opens where the files of --export are to go, before anything runs. The caller
// closes them with done.
func exports(flags []string) (list []launch.Export, done func(), err error) {
	done = func() {
		for _, x := range list {
			x.To.Close()
		}
	}
	for _, s := range flags {
		glob, dest, ok := strings.Cut(s, "=")
		if !ok || glob == "" || dest == "" {
			done()
			return nil, nil, usagef("--export %q: want GLOB=DEST", s)
		}
		x := launch.Export{Glob: glob, Name: s, Tar: strings.HasSuffix(dest, ".tar")}
		if x.To, err = openDest(dest, x.Tar); err != nil {
			done()
			return nil, nil, &jailer.Error{Code: jailer.CodeInvalidPath, Op: "export", Path: "--export", Err: err}
		}
		list = append(list, x)
	}
	return list, done, nil
}

// openDest opens a file, which keeps its content until the export, or a directory, which
// is made if it is not there.
func openDest(dest string, tar bool) (*os.File, error) {
	if tar {
		return os.OpenFile(dest, os.O_WRONLY|os.O_CREATE|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o644)
	}
	if err := os.Mkdir(dest, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.OpenFile(dest, os.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}
