// Package remotefs is the workspace of a live session for whoever the session's
// supervisor has handed its descriptor to: each verb is done in this process, as the
// user whose files they are, and what it changed is told to the supervisor, which
// writes it to the event log. The supervisor touches no file, and so no file can hold
// it up.
package remotefs

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/jailer-project/jailer/internal/artifact"
	"github.com/jailer-project/jailer/internal/asuser"
	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/internal/jailpath"
	"github.com/jailer-project/jailer/internal/wire"
)

// Options are what the supervisor has answered.
type Options struct {
	// Files are the workspace and, of a persistent one, its lock: nobody else has it
	// before this client, too, has let it go (flock(2): a lock is the open file's). The
	// supervisor may be killed while a verb is at work.
	Files []*os.File
	Grant wire.Grant
	Conn  *wire.Conn
	// Refused is the error that a message of type wire.Error is.
	Refused func(*wire.Message) error
}

// A Workspace is one session's.
type Workspace struct {
	dir   *files.Dir
	lock  []*os.File
	grant wire.Grant
	link  *link
}

// New takes the files and the connection over. Verbs end with the session.
func New(o Options) (*Workspace, error) {
	if len(o.Files) < 1 || len(o.Files) > 2 {
		wire.CloseAll(o.Files)
		o.Conn.Close()
		return nil, fmt.Errorf("%d descriptors came with the workspace", len(o.Files))
	}
	return &Workspace{dir: files.New(o.Files[0]), lock: o.Files[1:], grant: o.Grant, link: newLink(o.Conn, o.Refused)}, nil
}

// Close lets go of it. No verb may be at work.
func (w *Workspace) Close() error {
	err := w.dir.Close()
	wire.CloseAll(w.lock)
	w.link.close()
	return err
}

func (w *Workspace) as(f func() error) error { return asuser.Do(w.grant.UID, w.grant.GID, f) }

// Stat tells of one file, and follows no link.
func (w *Workspace) Stat(path string) (files.Info, error) { return w.told(w.dir.Stat, path) }

// Follow tells of what a path leads to.
func (w *Workspace) Follow(path string) (files.Info, error) { return w.told(w.dir.Follow, path) }

func (w *Workspace) told(stat func(string) (files.Info, error), path string) (i files.Info, err error) {
	err = w.as(func() error {
		i, err = stat(jailpath.Relative(path))
		return err
	})
	return i, err
}

// List gives a part of a directory.
func (w *Workspace) List(ctx context.Context, path, cursor string, limit int) (l files.Listing, err error) {
	ctx, done := w.link.within(ctx)
	defer done()
	err = w.as(func() error {
		l, err = w.dir.List(ctx, jailpath.Relative(path), cursor, limit)
		return err
	})
	return l, err
}

// Cat copies a file of at most max bytes to out; 0 is the session's limit for a file.
func (w *Workspace) Cat(ctx context.Context, out io.Writer, path string, most int64) (n int64, err error) {
	_, err = w.sending(ctx, out, func(ctx context.Context, out io.Writer) error {
		n, err = w.dir.Cat(ctx, out, jailpath.Relative(path), w.most(most))
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
	ctx, done := w.link.within(ctx)
	defer done()
	err = w.as(func() error {
		p, err = w.dir.Page(ctx, jailpath.Relative(path), o)
		return err
	})
	return p, err
}

// written is where verbs that write do so. Where the policy asks for an approval of some
// paths, a link must not lead from another one to them.
func (w *Workspace) written() *files.Dir {
	if w.grant.Straight {
		return w.dir.Straight()
	}
	return w.dir
}

// Put makes or replaces a file. in is not read after it has returned, unless a Read
// blocked when ctx or the session ended.
func (w *Workspace) Put(ctx context.Context, path string, in io.Reader, o files.PutOptions) (int64, error) {
	o.Max = w.most(o.Max)
	var done files.Written
	err := w.receiving(ctx, in, func(ctx context.Context, in io.Reader) (err error) {
		done, err = w.written().Put(ctx, jailpath.Relative(path), in, o)
		return err
	})
	if err != nil {
		return 0, w.noted(err, done.Made != "", &wire.Change{Event: wire.FileWritten, Verb: "mkdir", Path: []byte(done.Made)})
	}
	return done.Bytes, w.noted(nil, true, &wire.Change{Event: wire.FileWritten, Verb: "put", Path: []byte(jailpath.Relative(path)), Bytes: done.Bytes})
}

// Mkdir makes a directory, and those above it if parents says so.
func (w *Workspace) Mkdir(path string, parents bool, mode uint32) error {
	var made string
	err := w.as(func() (err error) {
		made, err = w.written().Mkdir(jailpath.Relative(path), parents, mode)
		return err
	})
	return w.noted(err, made != "", &wire.Change{Event: wire.FileWritten, Verb: "mkdir", Path: []byte(made)})
}

// Remove removes a file, or an empty directory, or with recursive what is in it too.
func (w *Workspace) Remove(ctx context.Context, path string, recursive bool) error {
	ctx, done := w.link.within(ctx)
	defer done()
	var some bool
	err := w.as(func() (err error) {
		some, err = w.written().Remove(ctx, jailpath.Relative(path), recursive)
		return err
	})
	return w.noted(err, some, &wire.Change{Event: wire.FileRemoved, Verb: "rm", Path: []byte(jailpath.Relative(path)), Partial: err != nil})
}

// Export writes what the globs match as a tar.
func (w *Workspace) Export(ctx context.Context, out io.Writer, globs []string) (m artifact.Manifest, err error) {
	l := w.limits()
	relative := make([]string, len(globs))
	for i, g := range globs {
		relative[i] = jailpath.Relative(g)
	}
	sent, err := w.sending(ctx, out, func(ctx context.Context, out io.Writer) error {
		m, err = artifact.Export(ctx, w.dir, out, relative, l)
		return err
	})
	return m, w.noted(err, sent > 0, moved(wire.ArtifactExported, m, err))
}

// Import makes what a tar has. in is not read after it has returned, as with Put.
func (w *Workspace) Import(ctx context.Context, in io.Reader) (m artifact.Manifest, err error) {
	err = w.receiving(ctx, in, func(ctx context.Context, in io.Reader) error {
		m, err = artifact.Import(ctx, w.dir, in, w.limits())
		return err
	})
	return m, w.noted(err, err == nil || len(m.Files)+m.Directories > 0, moved(wire.ArtifactImported, m, err))
}

func moved(event string, m artifact.Manifest, err error) *wire.Change {
	return &wire.Change{Event: event, Files: int64(len(m.Files)), Bytes: m.Bytes, Partial: err != nil}
}

// noted is the end of a verb. What it changed before it failed is told too.
func (w *Workspace) noted(err error, changed bool, c *wire.Change) error {
	if !changed {
		return err
	}
	if nerr := w.link.note(c); nerr != nil && err == nil {
		return &UnnotedError{nerr}
	}
	return err
}

// An UnnotedError is of what was done, and is not in the event log.
type UnnotedError struct{ Err error }

func (e *UnnotedError) Error() string {
	return "it was done, and is not in the event log: " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *UnnotedError) Unwrap() error { return e.Err }

func (w *Workspace) limits() artifact.Limits {
	return artifact.Limits{MaxFileBytes: w.grant.MaxFile, Protected: w.grant.Protected, OnProtected: w.grant.OnProtected}
}

// sending runs f as the files' user, and writes to out as this one. n is how much.
func (w *Workspace) sending(ctx context.Context, out io.Writer, f func(context.Context, io.Writer) error) (n int64, err error) {
	ctx, done := w.link.within(ctx)
	defer done()
	to := &writer{relay{ctx: ctx}, out}
	err = w.as(func() error { return f(ctx, to) })
	return to.n, err
}

// receiving is the other way round.
func (w *Workspace) receiving(ctx context.Context, in io.Reader, f func(context.Context, io.Reader) error) error {
	ctx, end, done := w.link.withinEnd(ctx)
	defer done()
	in = &reader{relay{ctx: ctx}, in, func() error { return w.link.gone(end) }}
	return w.as(func() error { return f(ctx, in) })
}

// Open opens a regular file for reading, or tells of a directory: then the file is nil.
func (w *Workspace) Open(path string) (f *os.File, i files.Info, err error) {
	err = w.as(func() error {
		f, i, err = w.dir.Look(jailpath.Relative(path))
		return err
	})
	return f, i, err
}
