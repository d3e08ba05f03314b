package artifact

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/internal/jailpath"
)

const importOp = "import"

// Import makes the files and directories of a tar. A member that is anything else, or
// whose name, mode or attributes could do more than that, ends it with its reason; what
// came before stays, and the manifest says what that is. A file takes the place of an
// older one as Put does. A manifest of Export's is skipped.
func Import(ctx context.Context, dir *files.Dir, r io.Reader, l Limits) (Manifest, error) {
	l, err := l.filled(importOp)
	if err != nil {
		return Manifest{}, err
	}
	in := &input{ctx: ctx, r: bufio.NewReaderSize(r, 64<<10)}
	if err := uncompressed(in.r); err != nil {
		return Manifest{}, err
	}
	i := &importer{ctx: ctx, dir: dir, tar: tar.NewReader(in), limits: l, rules: parseProtected(l.Protected), seen: map[string]bool{}, above: map[string]bool{}}
	for {
		if err := context.Cause(ctx); err != nil {
			return i.m, err
		}
		start := in.n + -in.n&511 // of the next header: contents are filled up to blocks
		h, err := i.tar.Next()
		if errors.Is(err, io.EOF) {
			return i.m, in.ended(start)
		}
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return i.m, cause
		}
		if err != nil {
			return i.m, broken(err)
		}
		if err := i.one(h); err != nil {
			return i.m, err
		}
	}
}

func broken(err error) error {
	return &files.Error{Code: files.InvalidRequest, Op: importOp, Message: "the tar is damaged or cut off", Err: err}
}

// uncompressed tells what a compressed tar is: the reader would call it damaged.
func uncompressed(r *bufio.Reader) error {
	head, _ := r.Peek(6)
	for name, magic := range map[string]string{"gzip": "\x1f\x8b", "bzip2": "BZh", "xz": "\xfd7zXZ\x00", "zstd": "\x28\xb5\x2f\xfd"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return refuse(importOp, files.InvalidRequest, "", "the tar is compressed with %s: decompress it first", name)
		}
	}
	return nil
}

type importer struct {
	ctx    context.Context
	dir    *files.Dir
	tar    *tar.Reader
	limits Limits
	rules  protected
	seen   map[string]bool
	above  map[string]bool // directories that are made and were not named
	idle   int             // members that make nothing
	m      Manifest
}

// one makes one member.
func (i *importer) one(h *tar.Header) error {
	bad := func(format string, args ...any) error {
		return refuse(importOp, files.InvalidRequest, h.Name, format, args...)
	}
	if msg := attributes(h); msg != "" {
		return bad("%s", msg)
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir:
	case tar.TypeXGlobalHeader:
		return i.skip(h) // a comment, of git archive
	case tar.TypeSymlink:
		return bad("is a symbolic link")
	case tar.TypeLink:
		return bad("is a hard link")
	case tar.TypeChar, tar.TypeBlock:
		return bad("is a device")
	case tar.TypeFifo:
		return bad("is a FIFO")
	case tar.TypeGNUSparse:
		return bad("is a sparse file")
	default:
		return bad("is of a type that is not taken (%q)", h.Typeflag)
	}
	if h.Mode&0o7000 != 0 {
		return bad("has mode %04o, with setuid, setgid or sticky", h.Mode&0o7777)
	}
	name, err := i.name(h)
	if err != nil {
		return err
	}
	if name == "" {
		return i.skip(h)
	}
	if h.Typeflag == tar.TypeDir {
		made, err := i.dir.Mkdir(name, true, uint32(h.Mode)&0o755|0o700)
		if err == nil || made != "" {
			i.m.Directories++
		}
		return err
	}
	return i.file(h, name)
}

// maxManifestEntry is how long a file's entry in a manifest can be: a path of control
// characters takes six times its length in JSON.
const maxManifestEntry = 32 << 10

// skip passes over a member that makes nothing, of which a tar could have any number.
func (i *importer) skip(h *tar.Header) error {
	if i.idle++; i.idle > maxIdle {
		return refuse(importOp, files.InvalidRequest, h.Name, "there are more than %d members that make nothing", maxIdle)
	}
	if h.Size > maxManifestEntry*int64(i.limits.MaxFiles+maxSkipped) {
		return refuse(importOp, files.TooLarge, h.Name, "has %d bytes, more than a manifest can have", h.Size)
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	if _, err := io.Copy(io.Discard, i.tar); err != nil {
		if cause := context.Cause(i.ctx); cause != nil {
			return cause
		}
		return broken(err)
	}
	return nil
}

// name is the member's path; "" for one that is skipped.
func (i *importer) name(h *tar.Header) (string, error) {
	bad := func(code, format string, args ...any) (string, error) {
		return "", refuse(importOp, code, h.Name, format, args...)
	}
	raw := h.Name
	if h.Typeflag == tar.TypeDir {
		raw = strings.TrimRight(raw, "/")
		if raw == "" && h.Name != "" {
			raw = "/"
		}
	} else if strings.HasSuffix(raw, "/") {
		return bad(files.InvalidPath, "is a file with the name of a directory")
	}
	if raw == "" {
		return bad(files.InvalidPath, "a member has no name")
	}
	name, err := files.Clean(importOp, raw)
	switch {
	case err != nil:
		return "", err
	case name == "." && h.Typeflag == tar.TypeDir:
		return "", nil // the workspace itself
	case name == ".":
		return bad(files.InvalidPath, "is the workspace itself")
	case name == ManifestName:
		return "", nil
	case strings.Count(name, "/") >= maxDepth:
		return bad(files.InvalidPath, "is deeper than %d directories", maxDepth)
	case i.seen[name]:
		return bad(files.InvalidRequest, "is there twice")
	case len(i.seen) >= i.limits.MaxFiles:
		return bad(files.TooLarge, "comes after the %d files and directories allowed", i.limits.MaxFiles)
	case i.limits.OnProtected == Refuse && i.rules.covers(name):
		return bad(files.PolicyDenied, "has a protected name")
	}
	for n, c := range name {
		if c != '/' || i.seen[name[:n]] {
			continue
		}
		if i.above[name[:n]] = true; len(i.above) > i.limits.MaxFiles {
			return bad(files.TooLarge, "comes after the %d directories above files that are allowed", i.limits.MaxFiles)
		}
	}
	i.seen[name] = true
	return name, nil
}

func (i *importer) file(h *tar.Header, name string) error {
	switch {
	case h.Size < 0:
		return refuse(importOp, files.InvalidRequest, name, "has a negative size")
	case h.Size > i.limits.MaxFileBytes:
		return refuse(importOp, files.TooLarge, name, "has %d bytes, at most %d are allowed", h.Size, i.limits.MaxFileBytes)
	case h.Size > i.limits.MaxBytes-i.m.Bytes:
		return refuse(importOp, files.TooLarge, name, "the files have more than the %d bytes allowed", i.limits.MaxBytes)
	}
	sum := sha256.New()
	mode := uint32(h.Mode)&0o755 | 0o600
	w, err := i.dir.Put(i.ctx, name, io.TeeReader(i.tar, sum), files.PutOptions{Mode: mode, Max: h.Size, Parents: true})
	if err != nil && w.Made != "" {
		i.m.Directories++
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return broken(err)
	}
	if err != nil {
		return err
	}
	if w.Bytes != h.Size {
		return broken(io.ErrUnexpectedEOF)
	}
	i.m.Bytes += w.Bytes
	i.m.Files = append(i.m.Files, Entry{
		Path: name, Bytes: w.Bytes, SHA256: hex.EncodeToString(sum.Sum(nil)), Mode: mode, Protected: i.rules.covers(name),
	})
	return nil
}

// harmless are the records that a member may have beside what the header says: none of
// them does anything.
var harmless = map[string]bool{
	"path": true, "linkpath": true, "size": true, "uid": true, "gid": true, "uname": true, "gname": true,
	"mtime": true, "atime": true, "ctime": true, "comment": true, "charset": true, "hdrcharset": true,
	"LIBARCHIVE.creationtime": true, "SCHILY.dev": true, "SCHILY.ino": true, "SCHILY.nlink": true,
}

// attributes says what a member has that a file of a workspace must not get.
func attributes(h *tar.Header) string {
	for _, k := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		switch {
		case harmless[k]:
		case strings.HasPrefix(k, "GNU.sparse."):
			return "is a sparse file"
		case strings.Contains(strings.ToLower(k), "xattr"):
			return "has extended attributes"
		case strings.Contains(strings.ToLower(k), "acl"):
			return "has an access control list"
		default:
			return fmt.Sprintf("has a record that is not taken: %s", jailpath.Quote(k))
		}
	}
	return ""
}

// input counts what is read, and ends with its context.
type input struct {
	ctx context.Context
	r   *bufio.Reader
	n   int64
}

func (in *input) Read(b []byte) (int, error) {
	if err := context.Cause(in.ctx); err != nil {
		return 0, err
	}
	n, err := in.r.Read(b)
	in.n += int64(n)
	return n, err
}

// maxPadding is what may come after the end of a tar, in bytes: tar(1) fills up a
// record of 10 KiB, or of as much as it was told.
const maxPadding = 1 << 20

// endBytes is the end of a tar: two blocks of zeros. The reader takes one that just
// stops for whole.
const endBytes = 2 * 512

// ended refuses a tar without its end, which began at start, and one with something
// after it.
func (in *input) ended(start int64) error {
	if in.n-start != endBytes {
		return broken(io.ErrUnexpectedEOF)
	}
	b := make([]byte, 32<<10)
	for n := 0; ; {
		m, err := in.Read(b)
		n += m
		if n > maxPadding || len(bytes.Trim(b[:m], "\x00")) > 0 {
			return refuse(importOp, files.InvalidRequest, "", "something comes after the end of the tar")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if cause := context.Cause(in.ctx); err != nil && cause != nil {
			return cause
		}
		if err != nil {
			return broken(err)
		}
	}
}
