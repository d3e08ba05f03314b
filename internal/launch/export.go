package launch

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/artifact"
	"github.com/jailer-project/jailer/internal/asuser"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/files"
)

// An Export is files of a run that are to be taken out at its end.
type Export struct {
	Glob string
	// To is where: a directory, or, with Tar, a file that is open for writing.
	To  *os.File
	Tar bool
	// Name is what the caller calls it.
	Name string
}

// mayExport refuses what the policy doesn't grant, before anything is made.
func (j *Jail) mayExport() error {
	if len(j.o.Exports) == 0 || slices.Contains(j.plan.Capabilities, jailer.CapExport) {
		return nil
	}
	return &jailer.Error{
		Code: jailer.CodePolicyDenied, Op: "export", Path: "capabilities", Message: `an export needs "export", which the run has not`,
		Hint: "take the capability back in, if the profile grants it",
	}
}

// Step 16: take files out, however the command has ended. Nothing of the jail runs any
// more; its workspace is there for as long as we hold it.
func (c *command) export() error {
	for _, x := range c.j.o.Exports {
		m, err := c.exportOne(x)
		if err != nil {
			e := *asError(FileError(err))
			e.Op, e.Path, e.Err = "export", "--export "+x.Name, errors.New(e.Error())
			e.Message = ""
			c.fail(&e)
			continue
		}
		for _, f := range m.Files {
			a := jailer.Artifact{Path: f.Path, Bytes: f.Bytes, SHA256: f.SHA256}
			if !utf8.ValidString(f.Path) {
				a.Path, a.PathEncoding = jailer.EncodeText([]byte(f.Path))
			}
			c.artifacts = append(c.artifacts, a)
		}
		if err := c.j.Note(audit.Event{Type: audit.ArtifactExported, ExecID: c.execID(), Data: audit.Moved{Files: int64(len(m.Files)), Bytes: m.Bytes}}); err != nil {
			c.fail(asError(err))
		}
	}
	return nil
}

func (c *command) exportOne(x Export) (m artifact.Manifest, err error) {
	at, err := c.j.Files()
	if err != nil {
		return m, err
	}
	defer at.Close()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	go func() { // nobody else listens any more
		select {
		case <-c.o.Signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	l := artifact.Limits{MaxFileBytes: c.j.plan.Limits.MaxFile, Protected: c.j.plan.Protected, OnProtected: c.j.plan.OnProtected}
	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := asuser.Do(at.UID, at.GID, func() (err error) {
			m, err = artifact.Export(ctx, files.New(at.Dir), w, []string{x.Glob}, l)
			return err
		})
		w.CloseWithError(err)
		read <- err
	}()
	if x.Tar {
		if err = x.To.Truncate(0); err == nil {
			_, err = io.Copy(x.To, r)
		}
	} else {
		_, err = artifact.Import(ctx, files.New(x.To), r, artifact.Limits{MaxFileBytes: l.MaxFileBytes})
	}
	r.CloseWithError(err)
	if rerr := <-read; rerr != nil {
		return m, rerr // what the other end says of it is that
	}
	return m, err
}
