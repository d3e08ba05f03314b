package artifact

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/files"
)

// Export writes what the globs match as a tar: regular files and directories, with
// relative names, plain modes and no owner, by the bytes of their names, and last the
// manifest. Links, devices and the like are left out and listed there; so is a file that
// goes meanwhile. One that is written to while it is read has the size that it had when
// it was opened, cut or filled up with zeros, and is marked. A glob that matches nothing
// is an error. Nothing is written before all bounds are known to hold for what is there.
func Export(ctx context.Context, dir *files.Dir, w io.Writer, globs []string, l Limits) (Manifest, error) {
	m := Manifest{}
	l, err := l.filled(exportOp)
	if err != nil {
		return m, err
	}
	if len(globs) == 0 {
		return m, refuse(exportOp, files.InvalidRequest, "", "no glob given")
	}
	look := &walk{dir: dir, limits: l, names: globs, matched: make([]bool, len(globs)), rules: parseProtected(l.Protected), manifest: &m}
	for _, s := range globs {
		g, err := parseGlob(s)
		if err != nil {
			return m, refuse(exportOp, files.InvalidPath, s, "%v", err)
		}
		look.globs = append(look.globs, g)
	}
	if err := look.find(ctx); err != nil {
		return m, err
	}
	x := &exporter{ctx: ctx, dir: dir, tar: tar.NewWriter(w), limits: l, rules: look.rules, m: &m}
	for _, f := range look.out {
		if err := x.one(f); err != nil {
			return m, err
		}
	}
	return m, x.finish()
}

type exporter struct {
	ctx    context.Context
	dir    *files.Dir
	tar    *tar.Writer
	limits Limits
	rules  protected
	m      *Manifest
	buffer [64 << 10]byte
}

func (x *exporter) one(f found) error {
	if err := context.Cause(x.ctx); err != nil {
		return err
	}
	if f.isDir {
		x.m.Directories++
		return x.tar.WriteHeader(&tar.Header{
			Typeflag: tar.TypeDir, Name: f.path + "/", Mode: int64(f.st.Mode&0o755 | 0o700), ModTime: modTime(&f.st), Format: tar.FormatPAX,
		})
	}
	in, st, err := x.dir.Plain(exportOp, f.path)
	if err != nil {
		x.m.skip(f.path, "was changed or removed meanwhile: "+err.Error())
		return nil
	}
	defer in.Close()
	if st.Size > x.limits.MaxFileBytes || x.m.Bytes+st.Size > x.limits.MaxBytes {
		return refuse(exportOp, files.TooLarge, f.path, "grew meanwhile to %d bytes, more than are allowed", st.Size)
	}
	e := Entry{
		Path: f.path, Bytes: st.Size, Mode: st.Mode & 0o755, Protected: x.rules.covers(f.path),
		Changed: changed(&f.st, st),
	}
	if st.Nlink > 1 {
		e.Links = int64(st.Nlink)
	}
	err = x.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: f.path, Size: st.Size, Mode: int64(e.Mode), ModTime: modTime(st), Format: tar.FormatPAX,
	})
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(x.tar, sum)}, io.LimitReader(in, st.Size), x.buffer[:])
	var perr *os.PathError
	if err != nil && !errors.As(err, &perr) {
		return err // of the tar
	}
	if n < st.Size { // it shrank, or can't be read on
		e.Changed = true
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(x.tar, sum)}, io.LimitReader(zeros{}, st.Size-n), x.buffer[:]); err != nil {
			return err
		}
	}
	var after unix.Stat_t
	if unix.Fstat(int(in.Fd()), &after) != nil || changed(st, &after) {
		e.Changed = true
	}
	e.SHA256 = hex.EncodeToString(sum.Sum(nil))
	x.m.Files = append(x.m.Files, e)
	x.m.Bytes += e.Bytes
	return nil
}

// changed goes by ctime: a job may put mtime back (utimensat(2)), and no call sets that.
func changed(a, b *unix.Stat_t) bool {
	return a.Dev != b.Dev || a.Ino != b.Ino || a.Size != b.Size || a.Ctim != b.Ctim
}

func modTime(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Sec, 0) }

// zeros is a Reader without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func (x *exporter) finish() error {
	doc, err := json.Marshal(*x.m)
	if err != nil {
		return err
	}
	doc = append(doc, '\n')
	if err := x.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ManifestName, Size: int64(len(doc)), Mode: 0o644, Format: tar.FormatPAX}); err != nil {
		return err
	}
	if _, err := x.tar.Write(doc); err != nil {
		return err
	}
	return x.tar.Close()
}
