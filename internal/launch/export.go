package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/artifact"
	"github.com/jailer-project/jailer/internal/asuser"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/internal/jailpath"
)

// An Export is files of a run that are to be taken out at its end.
type Export struct {
	Glob string
	// Dir and Base are where: a name in a directory that the caller has opened. With Tar it
	// is a file's, which takes the place of an older one when it is whole, else that of a
	// directory, which is made when there is something to put into it.
	Dir  *os.File
	Base string
	Tar  bool
	// Name is what the caller calls it.
	Name string
}

// mayExport refuses what the policy doesn't grant, or can't be meant, before anything is
// made.
func (j *Jail) mayExport() error {
	if len(j.o.Exports) == 0 {
		return nil
	}
	if !slices.Contains(j.plan.Capabilities, jailer.CapExport) {
		return &jailer.Error{
			Code: jailer.CodePolicyDenied, Op: "export", Path: "capabilities", Message: `an export needs "export", which the run has not`,
			Hint: "take the capability back in, if the profile grants it",
		}
	}
	for _, x := range j.o.Exports {
		if err := artifact.CheckGlob(jailpath.Relative(x.Glob)); err != nil {
			return exportError(x, err)
		}
	}
	return nil
}

func exportError(x Export, err error) *jailer.Error {
	e := *asError(FileError(err))
	e.Op, e.Path, e.Err = "export", "--export "+x.Name, errors.New(e.Error())
	e.Message = ""
	return &e
}

// Step 16: take files out, however the command has ended. Nothing of the jail runs any
// more; its workspace is there for as long as we hold it.
func (c *command) export() error {
	if len(c.j.o.Exports) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	owner, stopOwner := WatchOwner(c.j.o.OwnerPID)
	defer stopOwner()
	go func() { // nobody else listens any more
		select {
		case <-c.o.Signals:
			cancel(errors.New("interrupted"))
		case <-owner:
			cancel(fmt.Errorf("process %d, its owner, has ended", c.j.o.OwnerPID))
		case <-ctx.Done():
		}
	}()
	for _, x := range c.j.o.Exports {
		m, err := c.exportOne(ctx, x)
		if err != nil {
			c.fail(exportError(x, err))
		}
		for _, f := range m.Files {
			a := jailer.Artifact{Path: f.Path, Bytes: f.Bytes, SHA256: f.SHA256}
			if !utf8.ValidString(f.Path) {
				a.Path, a.PathEncoding = jailer.EncodeText([]byte(f.Path))
			}
			c.artifacts = append(c.artifacts, a)
		}
		if err != nil && len(m.Files)+m.Directories == 0 {
			continue
		}
		if err := c.j.Note(c.event(audit.ArtifactExported, audit.Moved{Files: int64(len(m.Files)), Bytes: m.Bytes, Partial: err != nil})); err != nil {
			c.fail(asError(err))
		}
	}
	return nil
}

// exportOne gives what has come to where it should, also after an error.
func (c *command) exportOne(ctx context.Context, x Export) (artifact.Manifest, error) {
	at, err := c.j.Files()
	if err != nil {
		return artifact.Manifest{}, err
	}
	defer at.Close()
	l := artifact.Limits{MaxFileBytes: c.j.plan.Limits.MaxFile, Protected: c.j.plan.Protected, OnProtected: c.j.plan.OnProtected}
	r, w := io.Pipe()
	type sent struct {
		m   artifact.Manifest
		err error
	}
	done := make(chan sent, 1)
	go func() {
		var s sent
		s.err = asuser.Do(at.UID, at.GID, func() (err error) {
			s.m, err = artifact.Export(ctx, files.New(at.Dir), w, []string{jailpath.Relative(x.Glob)}, l)
			return err
		})
		w.CloseWithError(s.err)
		done <- s
	}()
	taken, err := x.take(ctx, r, l.MaxFileBytes)
	r.CloseWithError(err)
	s := <-done
	if s.err != nil {
		err = s.err // what the other end says of it is that
	}
	if err != nil {
		return taken, err
	}
	return s.m, nil
}

// take puts a tar where the export should go, and says what is there of it.
func (x Export) take(ctx context.Context, r io.Reader, maxFile int64) (m artifact.Manifest, err error) {
	in := bufio.NewReader(r)
	if _, err := in.Peek(1); err != nil {
		return m, err // it fails before there is anything
	}
	if x.Tar {
		_, err := files.New(x.Dir).Put(ctx, x.Base, in, files.PutOptions{Mode: 0o644, Max: math.MaxInt64})
		return m, err
	}
	at := int(x.Dir.Fd())
	if err := unix.Mkdirat(at, x.Base, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return m, &os.PathError{Op: "mkdir", Path: x.Base, Err: err}
	}
	fd, err := unix.Openat(at, x.Base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return m, &os.PathError{Op: "open", Path: x.Base, Err: err}
	}
	dir := files.New(os.NewFile(uintptr(fd), x.Base))
	defer dir.Close()
	return artifact.Import(ctx, dir, in, artifact.Limits{MaxFileBytes: maxFile})
}
