package jailer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/jailer-project/jailer/internal/artifact"
	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/internal/jailpath"
	"github.com/jailer-project/jailer/internal/remotefs"
	"github.com/jailer-project/jailer/internal/wire"
)

// What the file verbs tell of a workspace. Names and contents in them are a stranger's.
type (
	FileStat    = files.Info
	Listing     = files.Listing
	Page        = files.Page
	PageOptions = files.PageOptions
	PutOptions  = files.PutOptions
	Manifest    = artifact.Manifest
)

// FS is the files of a session's workspace, as an io/fs.FS that can also be written.
// Paths are relative; no link leads out. Reading needs CapFSRead, listing CapFSList and
// writing CapFSWrite. Each call is one of the session's, and may be made by many
// goroutines at once, and fails when the session ends. A file that was opened is read to
// the size that it had then, and a directory has the entries of its first reading.
type FS struct {
	s   *Session
	ctx context.Context
}

var (
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.StatFS     = (*FS)(nil)
	_ fs.ReadFileFS = (*FS)(nil)
)

// FS gives the session's files. The end of ctx ends its calls.
func (s *Session) FS(ctx context.Context) *FS { return &FS{s, ctx} }

// within does something with the workspace; writes are paths that it changes.
func (f *FS) within(right string, do func(*remotefs.Workspace) error, writes ...string) error {
	w, err := f.s.workspace(f.ctx, right, writes)
	if err != nil {
		return err
	}
	defer w.Close()
	return fileError(do(w))
}

// fileError is an error of a file verb as one of ours.
func fileError(err error) error {
	if un, ok := errors.AsType[*remotefs.UnnotedError](err); ok {
		return &Error{Code: CodeInternal, Op: "session.files", Message: "it was done, and is not in the event log", Err: un.Err}
	}
	e, ok := errors.AsType[*files.Error](err)
	if !ok {
		return err
	}
	return &Error{Code: Code(e.Code), Op: e.Op, Path: e.Path, Message: e.Message, Retryable: e.Retryable, Err: e.Err}
}

// workspace opens the workspace, by the descriptor that the supervisor hands out.
func (s *Session) workspace(ctx context.Context, right string, writes []string) (*remotefs.Workspace, error) {
	name := "fs"
	if right == CapExport || right == CapImport {
		name = right
	}
	if err := s.may(ctx, Operation{Name: name, Capabilities: []string{right}, Paths: writes}); err != nil {
		return nil, err
	}
	ask := &wire.Message{Type: wire.Files, Rights: []string{right}}
	for _, p := range writes {
		ask.Paths = append(ask.Paths, []byte(jailpath.Relative(p)))
	}
	x, err := s.dial(ctx, ask)
	if err != nil {
		return nil, err
	}
	m, fds, err := x.receiveFiles(wire.Done)
	if err == nil && m.Grant == nil {
		err = garbled(m)
	}
	if err != nil {
		wire.CloseAll(fds)
		x.close()
		return nil, x.lost(err)
	}
	x.stop() // from here on the verbs see to ctx
	w, err := remotefs.New(remotefs.Options{Files: fds, Grant: *m.Grant, Conn: x.conn, Refused: func(m *wire.Message) error {
		e := new(Error)
		if err := json.Unmarshal(m.Document, e); err != nil {
			return garbled(m)
		}
		return e
	}})
	if err != nil {
		return nil, &Error{Code: CodeInternal, Op: "session.socket", Err: err}
	}
	return w, nil
}

// pathError is an error as io/fs wants it.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func checkName(op, name string) error {
	if !fs.ValidPath(name) {
		return pathError(op, name, fs.ErrInvalid)
	}
	return nil
}

// Open opens a file or a directory for reading.
func (f *FS) Open(name string) (fs.File, error) {
	if err := checkName("open", name); err != nil {
		return nil, err
	}
	var file fs.File
	err := f.within(CapFSRead, func(w *remotefs.Workspace) error {
		o, i, err := w.Open(name)
		if o != nil {
			file = &openFile{f: o, part: io.NewSectionReader(o, 0, i.Size), info: stat{i}}
		} else {
			file = &openDir{f: f, name: name, info: stat{i}}
		}
		return err
	})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return file, nil
}

// ReadFile reads a whole file of at most the session's limit for one.
func (f *FS) ReadFile(name string) ([]byte, error) {
	if err := checkName("readfile", name); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err := f.within(CapFSRead, func(w *remotefs.Workspace) error {
		_, err := w.Cat(f.ctx, &b, name, 0)
		return err
	})
	if err != nil {
		return nil, pathError("readfile", name, err)
	}
	return b.Bytes(), nil
}

// Stat tells of a file; of a link it tells what it leads to, beneath the workspace.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	if err := checkName("stat", name); err != nil {
		return nil, err
	}
	var i FileStat
	err := f.within(CapFSList, func(w *remotefs.Workspace) error {
		var err error
		i, err = w.Follow(name)
		return err
	})
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return stat{i}, nil
}

// Lstat tells of a file; of a link it tells that it is one.
func (f *FS) Lstat(name string) (FileStat, error) {
	var i FileStat
	err := f.within(CapFSList, func(w *remotefs.Workspace) (err error) {
		i, err = w.Stat(name)
		return err
	})
	return i, err
}

// ReadDir gives all entries of a directory, by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := checkName("readdir", name); err != nil {
		return nil, err
	}
	out := []fs.DirEntry{}
	err := f.within(CapFSList, func(w *remotefs.Workspace) error {
		for cursor := ""; ; {
			l, err := w.List(f.ctx, name, cursor, files.MaxEntries)
			if err != nil {
				return err
			}
			for _, i := range l.Entries {
				out = append(out, fs.FileInfoToDirEntry(stat{i}))
			}
			if cursor = l.Cursor; cursor == "" {
				return nil
			}
		}
	})
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	return out, nil
}

// List gives a part of a directory: what comes after the cursor, at most limit entries.
func (f *FS) List(name, cursor string, limit int) (Listing, error) {
	var l Listing
	err := f.within(CapFSList, func(w *remotefs.Workspace) (err error) {
		l, err = w.List(f.ctx, name, cursor, limit)
		return err
	})
	return l, err
}

// Page gives a part of a text file.
func (f *FS) Page(name string, o PageOptions) (Page, error) {
	var p Page
	err := f.within(CapFSRead, func(w *remotefs.Workspace) (err error) {
		p, err = w.Page(f.ctx, name, o)
		return err
	})
	return p, err
}

// Put writes a file, whole or not at all. r is not read after Put has returned, unless
// one of its Reads blocked when ctx or the session ended.
func (f *FS) Put(name string, r io.Reader, o PutOptions) (int64, error) {
	var n int64
	err := f.within(CapFSWrite, func(w *remotefs.Workspace) (err error) {
		n, err = w.Put(f.ctx, name, r, o)
		return err
	}, name)
	return n, err
}

// WriteFile is Put of bytes that are there.
func (f *FS) WriteFile(name string, data []byte, perm fs.FileMode) error {
	_, err := f.Put(name, bytes.NewReader(data), PutOptions{Mode: uint32(perm.Perm())})
	return err
}

// Mkdir makes one directory.
func (f *FS) Mkdir(name string, perm fs.FileMode) error { return f.mkdir(name, false, perm) }

// MkdirAll makes a directory and those above it; one that is there is no error.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error { return f.mkdir(name, true, perm) }

func (f *FS) mkdir(name string, parents bool, perm fs.FileMode) error {
	return f.within(CapFSWrite, func(w *remotefs.Workspace) error { return w.Mkdir(name, parents, uint32(perm.Perm())) }, name)
}

// Remove removes a file, a link or an empty directory.
func (f *FS) Remove(name string) error { return f.remove(name, false) }

// RemoveAll removes a directory with all that is in it.
func (f *FS) RemoveAll(name string) error { return f.remove(name, true) }

func (f *FS) remove(name string, recursive bool) error {
	return f.within(CapFSWrite, func(w *remotefs.Workspace) error { return w.Remove(f.ctx, name, recursive) }, name)
}

// Export writes what the globs match in the session's workspace to w, as a tar of
// regular files and directories with a manifest as its last member. It needs CapExport.
func (s *Session) Export(ctx context.Context, w io.Writer, globs ...string) (*Manifest, error) {
	m := new(Manifest)
	err := s.FS(ctx).within(CapExport, func(r *remotefs.Workspace) (err error) {
		*m, err = r.Export(ctx, w, globs)
		return err
	})
	return m, err
}

// Import makes the files and directories of a tar in the session's workspace. After an
// error the manifest has what was made. It needs CapImport.
func (s *Session) Import(ctx context.Context, r io.Reader) (*Manifest, error) {
	m := new(Manifest)
	err := s.FS(ctx).within(CapImport, func(w *remotefs.Workspace) (err error) {
		*m, err = w.Import(ctx, r)
		return err
	})
	return m, err
}

// stat is a FileStat as io/fs wants it.
type stat struct{ i FileStat }

func (s stat) Name() string       { return s.i.Name }
func (s stat) Size() int64        { return s.i.Size }
func (s stat) ModTime() time.Time { return s.i.ModTime }
func (s stat) IsDir() bool        { return s.i.Type == files.Directory }
func (s stat) Sys() any           { return s.i }

func (s stat) Mode() fs.FileMode {
	m := fs.FileMode(s.i.Mode).Perm()
	for bit, mode := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if s.i.Mode&bit != 0 {
			m |= mode
		}
	}
	switch s.i.Type {
	case files.Directory:
		m |= fs.ModeDir
	case files.Link:
		m |= fs.ModeSymlink
	case files.FIFO:
		m |= fs.ModeNamedPipe
	case files.Socket:
		m |= fs.ModeSocket
	case files.Device:
		m |= fs.ModeDevice
	}
	return m
}

// openFile is a regular file, of the size that it had when it was opened: one that grows
// has no end.
type openFile struct {
	f    *os.File
	part *io.SectionReader
	info stat
}

func (o *openFile) Stat() (fs.FileInfo, error)               { return o.info, nil }
func (o *openFile) Read(b []byte) (int, error)               { return o.part.Read(b) }
func (o *openFile) ReadAt(b []byte, at int64) (int, error)   { return o.part.ReadAt(b, at) }
func (o *openFile) Seek(to int64, whence int) (int64, error) { return o.part.Seek(to, whence) }
func (o *openFile) Close() error                             { return o.f.Close() }

// openDir is a directory.
type openDir struct {
	f    *FS
	name string
	info stat
	rest []fs.DirEntry
	read bool
}

func (o *openDir) Stat() (fs.FileInfo, error) { return o.info, nil }
func (o *openDir) Close() error               { return nil }
func (o *openDir) Read([]byte) (int, error) {
	return 0, pathError("read", o.name, errors.New("is a directory"))
}

// ReadDir gives the next entries, as fs.ReadDirFile says.
func (o *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if !o.read {
		all, err := o.f.ReadDir(o.name)
		if err != nil {
			return nil, err
		}
		o.rest, o.read = all, true
	}
	if n <= 0 {
		all := o.rest
		o.rest = nil
		return all, nil
	}
	if len(o.rest) == 0 {
		return nil, io.EOF
	}
	some := o.rest[:min(n, len(o.rest))]
	o.rest = o.rest[len(some):]
	return some, nil
}
