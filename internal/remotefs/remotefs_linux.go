// Package remotefs is the workspace of a live session for whoever the session's
// supervisor has handed its descriptor to: each verb is done in this process, as the
// user whose files they are, and what it changed is told to the supervisor, which
// writes it to the event log. The supervisor touches no file, and so no file can hold
// it up.
package remotefs

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/jailer-project/jailer/internal/artifact"
	"github.com/jailer-project/jailer/internal/asuser"
	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/internal/jailpath"
	"github.com/jailer-project/jailer/internal/wire"
)

// A Workspace is one session's.
type Workspace struct {
	dir   *files.Dir
	grant wire.Grant
	note  func(*wire.Change) error
}

// New takes the descriptor over. note tells the supervisor of a change, and returns
// when it is in the event log.
func New(dir *os.File, grant wire.Grant, note func(*wire.Change) error) *Workspace {
	return &Workspace{dir: files.New(dir), grant: grant, note: note}
}

// Close lets go of the descriptor.
func (w *Workspace) Close() error { return w.dir.Close() }

// MaxFile is the most bytes of one file that a verb moves.
func (w *Workspace) MaxFile() int64 { return w.grant.MaxFile }

// Relative makes a path of the jail's one of the workspace's: /workspace and what is
// below it may be named as the command sees it.
func Relative(path string) string {
	if path == jailpath.Workspace {
		return "."
	}
	if rest, ok := strings.CutPrefix(path, jailpath.Workspace+"/"); ok {
		return strings.TrimLeft(rest, "/")
	}
	return path
}

func (w *Workspace) as(f func() error) error { return asuser.Do(w.grant.UID, w.grant.GID, f) }

// Stat tells of one file, and follows no link.
func (w *Workspace) Stat(path string) (i files.Info, err error) {
	err = w.as(func() error {
		i, err = w.dir.Stat(Relative(path))
		return err
	})
	return i, err
}

// List gives a part of a directory.
func (w *Workspace) List(ctx context.Context, path, cursor string, limit int) (l files.Listing, err error) {
	err = w.as(func() error {
		l, err = w.dir.List(ctx, Relative(path), cursor, limit)
		return err
	})
	return l, err
}

// Cat copies a file of at most max bytes to out; 0 is MaxFile.
func (w *Workspace) Cat(ctx context.Context, out io.Writer, path string, most int64) (n int64, err error) {
	err = w.sending(out, func(out io.Writer) error {
		n, err = w.dir.Cat(ctx, out, Relative(path), w.most(most))
		return err
	})
	return n, err
}

func (w *Workspace) most(asked int64) int64 {
	if asked == 0 {
		return w.grant.MaxFile
	}
	return min(asked, w.grant.MaxFile)
}

// Page gives a part of a text file.
func (w *Workspace) Page(ctx context.Context, path string, o files.PageOptions) (p files.Page, err error) {
	err = w.as(func() error {
		p, err = w.dir.Page(ctx, Relative(path), o)
		return err
	})
	return p, err
}

// Put makes or replaces a file.
func (w *Workspace) Put(ctx context.Context, path string, in io.Reader, o files.PutOptions) (n int64, err error) {
	o.Max = w.most(o.Max)
	err = w.receiving(in, func(in io.Reader) error {
		n, err = w.dir.Put(ctx, Relative(path), in, o)
		return err
	})
	if err != nil {
		return n, err
	}
	return n, w.note(&wire.Change{Event: "file.written", Verb: "put", Path: []byte(Relative(path)), Bytes: n})
}

// Mkdir makes a directory, and those above it if parents says so.
func (w *Workspace) Mkdir(path string, parents bool, mode uint32) error {
	if err := w.as(func() error { return w.dir.Mkdir(Relative(path), parents, mode) }); err != nil {
		return err
	}
	return w.note(&wire.Change{Event: "file.written", Verb: "mkdir", Path: []byte(Relative(path))})
}

// Remove removes a file, or an empty directory, or with recursive what is in it too.
func (w *Workspace) Remove(ctx context.Context, path string, recursive bool) error {
	if err := w.as(func() error { return w.dir.Remove(ctx, Relative(path), recursive) }); err != nil {
		return err
	}
	return w.note(&wire.Change{Event: "file.removed", Verb: "rm", Path: []byte(Relative(path))})
}

// Export writes what the globs match as a tar.
func (w *Workspace) Export(ctx context.Context, out io.Writer, globs []string) (m artifact.Manifest, err error) {
	l := w.limits()
	relative := make([]string, len(globs))
	for i, g := range globs {
		relative[i] = Relative(g)
	}
	err = w.sending(out, func(out io.Writer) error {
		m, err = artifact.Export(ctx, w.dir, out, relative, l)
		return err
	})
	if err != nil {
		return m, err
	}
	return m, w.note(&wire.Change{Event: "artifact.exported", Files: int64(len(m.Files)), Bytes: m.Bytes})
}

// Import makes what a tar has.
func (w *Workspace) Import(ctx context.Context, in io.Reader) (m artifact.Manifest, err error) {
	err = w.receiving(in, func(in io.Reader) error {
		m, err = artifact.Import(ctx, w.dir, in, w.limits())
		return err
	})
	if len(m.Files) > 0 || err == nil { // some are there, whatever came after them
		if lost := w.note(&wire.Change{Event: "artifact.imported", Files: int64(len(m.Files)), Bytes: m.Bytes}); err == nil {
			err = lost
		}
	}
	return m, err
}

func (w *Workspace) limits() artifact.Limits {
	return artifact.Limits{MaxFileBytes: w.grant.MaxFile, Protected: w.grant.Protected, OnProtected: w.grant.OnProtected}
}

// sending runs f as the files' user, and copies what it writes to out as this one: a
// Writer of the caller's may do work of its own.
func (w *Workspace) sending(out io.Writer, f func(io.Writer) error) error {
	if os.Geteuid() != 0 {
		return f(out)
	}
	r, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := w.as(func() error { return f(pw) })
		pw.CloseWithError(err) // nil is the end
		done <- err
	}()
	_, werr := io.Copy(out, r)
	r.CloseWithError(werr) // f writes to nobody any more
	if err := <-done; err != nil {
		return err
	}
	return werr
}

// receiving is the other way round.
func (w *Workspace) receiving(in io.Reader, f func(io.Reader) error) error {
	if os.Geteuid() != 0 {
		return f(in)
	}
	pr, pw := io.Pipe()
	go func() {
		_, err := io.Copy(pw, in)
		pw.CloseWithError(err)
	}()
	defer pr.Close() // the copy ends, if its Reader does
	return w.as(func() error { return f(pr) })
}

// Open opens a regular file for reading, or tells of a directory: then the file is nil.
func (w *Workspace) Open(path string) (f *os.File, i files.Info, err error) {
	err = w.as(func() error {
		f, i, err = w.dir.Look(Relative(path))
		return err
	})
	return f, i, err
}
