package files

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Bounds of a page.
const (
	DefaultPageLines = 500
	DefaultPageBytes = 64 << 10
	MaxPageBytes     = 1 << 20
	MinPageBytes     = 16 // a character fits always

	// maxScan bounds, in bytes, what is read of a file to come to a line: it may grow as
	// fast as it is read.
	maxScan = 16 << 30
)

// PageOptions say which part of a file is wanted: what comes after a page before it
// (Cursor), or from a line on, or from the beginning.
type PageOptions struct {
	Cursor string
	Line   int64 // from 1; 0 is not given
	Lines  int   // at most; 0 is DefaultPageLines
	Bytes  int   // at most; 0 is DefaultPageBytes
}

// A Page is a part of a file of lines. It ends with a line's end, unless the line is
// longer than a page: then the next page goes on inside it. Where the text is UTF-8 no
// character is cut; other bytes are what they are.
type Page struct {
	Data    []byte
	Line    int64  // number of its first line, from 1
	Inside  bool   // begins inside that line
	Open    bool   // ends inside a line that goes on
	Cursor  string // for the next page; "" at the end of the file
	Size    int64  // of the file, in bytes
	Changed bool   // the file is another one than at the page before, or was changed (by its ctime, which nobody can set)
}

// Page reads one. To come to a line the file is read up to it, in constant memory.
func (d *Dir) Page(ctx context.Context, p string, o PageOptions) (Page, error) {
	const op = "fs.page"
	if o.Lines == 0 {
		o.Lines = DefaultPageLines
	}
	if o.Bytes == 0 {
		o.Bytes = DefaultPageBytes
	}
	switch {
	case o.Lines < 0 || o.Line < 0:
		return Page{}, refuse(InvalidRequest, op, p, "a negative line given")
	case o.Bytes < MinPageBytes || o.Bytes > MaxPageBytes:
		return Page{}, refuse(InvalidRequest, op, p, "a page of %d bytes asked, want %d to %d", o.Bytes, MinPageBytes, MaxPageBytes)
	case o.Cursor != "" && o.Line != 0:
		return Page{}, refuse(InvalidRequest, op, p, "both a cursor and a line given")
	}
	c, err := parsePageCursor(o.Cursor)
	if err != nil {
		return Page{}, refuse(InvalidRequest, op, p, "the cursor is none of a page's")
	}
	if p, err = cleanBelow(op, p); err != nil {
		return Page{}, err
	}
	f, st, err := d.Regular(op, p)
	if err != nil {
		return Page{}, err
	}
	defer f.Close()
	page := Page{Data: []byte{}, Line: c.line, Inside: c.inside, Size: st.Size}
	now := cursor{dev: st.Dev, ino: st.Ino, size: st.Size, ctime: st.Ctim.Nano()}
	if o.Cursor != "" {
		page.Changed = c.dev != now.dev || c.ino != now.ino || c.size != now.size || c.ctime != now.ctime
	}
	offset := c.offset
	if o.Line > 1 {
		page.Line = o.Line
		if offset, err = lineAt(ctx, f, o.Line); errors.Is(err, io.EOF) {
			return page, nil
		} else if errors.Is(err, errMore) {
			return Page{}, refuse(TooLarge, op, p, "has more than %d bytes before line %d; go on with a page's cursor", int64(maxScan), o.Line)
		} else if err != nil {
			return Page{}, fail(op, p, err)
		}
	}
	b := make([]byte, o.Bytes+1) // one more tells whether there is more
	n, err := f.ReadAt(b, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return Page{}, fail(op, p, err)
	}
	page.Data = b[:n]
	end := cut(b[:n], o.Lines, o.Bytes)
	if end == n {
		return page, nil // the end of the file
	}
	page.Data = b[:end]
	page.Open = b[end-1] != '\n'
	now.offset, now.inside = offset+int64(end), page.Open
	now.line = page.Line + int64(bytes.Count(page.Data, []byte{'\n'}))
	page.Cursor = now.String()
	return page, nil
}

// lineAt is the offset at which a line begins. io.EOF: there are not so many. A hole, which
// may have 8 EiB, is passed over (lseek(2), SEEK_DATA): no line ends in it.
func lineAt(ctx context.Context, f *os.File, line int64) (int64, error) {
	b := make([]byte, 64<<10)
	for offset, at, read := int64(0), int64(1), int64(0); ; {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		if data, err := unix.Seek(int(f.Fd()), offset, unix.SEEK_DATA); err == nil {
			offset = data
		} else if errors.Is(err, unix.ENXIO) {
			return 0, io.EOF
		}
		if read > maxScan {
			return 0, errMore
		}
		n, err := f.ReadAt(b, offset)
		rest := b[:n]
		if here := int64(bytes.Count(rest, []byte{'\n'})); at+here < line {
			at += here
		} else {
			for ; at < line; at++ {
				i := bytes.IndexByte(rest, '\n')
				rest = rest[i+1:]
			}
			if at == line {
				return offset + int64(n-len(rest)), nil
			}
		}
		offset += int64(n)
		read += int64(n)
		if err != nil {
			return 0, err
		}
	}
}

// cut is where a page of so many lines and bytes ends in b.
func cut(b []byte, lines, most int) int {
	whole := 0 // the end of the last line that fits
	for range lines {
		i := bytes.IndexByte(b[whole:], '\n')
		if i < 0 || whole+i+1 > most {
			break
		}
		whole += i + 1
		lines--
	}
	switch {
	case lines == 0 || len(b) > most && whole > 0:
		return whole
	case len(b) <= most:
		return len(b)
	}
	// A line longer than the page: not inside a character.
	for i := 1; i < utf8.UTFMax; i++ {
		if utf8.RuneStart(b[most-i]) {
			if !utf8.FullRune(b[most-i : most]) {
				return most - i
			}
			break
		}
	}
	return most
}

// A cursor is where a page ended, and in which file.
type cursor struct {
	dev, ino    uint64
	size, ctime int64 // ctime in ns
	offset      int64
	line        int64
	inside      bool
}

const pageMark = "p1."

// String is the cursor as it is given out. It is no secret and no right: whoever makes
// one up reads at another place of the same file.
func (c cursor) String() string {
	b := make([]byte, 0, 49)
	for _, v := range []uint64{c.dev, c.ino, uint64(c.size), uint64(c.ctime), uint64(c.offset), uint64(c.line)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	if c.inside {
		return pageMark + base64.RawURLEncoding.EncodeToString(append(b, 1))
	}
	return pageMark + base64.RawURLEncoding.EncodeToString(append(b, 0))
}

// IsPageCursor says whether s could be one.
func IsPageCursor(s string) bool { _, err := parsePageCursor(s); return err == nil }

func parsePageCursor(s string) (cursor, error) {
	if s == "" {
		return cursor{line: 1}, nil
	}
	rest, ok := strings.CutPrefix(s, pageMark)
	if !ok || len(rest) > 100 || strings.ContainsAny(rest, "\r\n") { // which the decoder skips
		return cursor{}, errors.New("malformed")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil {
		return cursor{}, err
	}
	if len(b) != 49 || b[48] > 1 {
		return cursor{}, errors.New("malformed")
	}
	u := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	c := cursor{dev: u(0), ino: u(1), size: int64(u(2)), ctime: int64(u(3)), offset: int64(u(4)), line: int64(u(5)), inside: b[48] == 1}
	if c.offset < 0 || c.offset > 1<<62 || c.line < 1 || c.line > 1<<62 || c.size < 0 {
		return cursor{}, errors.New("out of range")
	}
	return c, nil
}
