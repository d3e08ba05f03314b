package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/stream"
)

// A Line is one line of a log.
type Line struct {
	Head
	Text []byte // the record, without its end, safe to show; nil where there is none
	// Damage says why this is no record: "" for one.
	Damage string
}

const (
	// settleTime is much more than a writer needs between the two ends of a line.
	settleTime = 100 * time.Millisecond
	pollTime   = 200 * time.Millisecond
)

// Read calls each with every line of the log at path, in order, until it returns
// an error. The log must be one that the caller could write: anybody else's says what he
// likes. With follow it goes on with what is written later, also into a new
// file at path, until ctx ends. A log that isn't there is an empty one.
//
// Readers need no lock, nor the right to take it: a line without an end is looked
// at again.
func Read(ctx context.Context, path string, follow bool, each func(Line) error) error {
	for {
		f, err := openOwn(path)
		if err == nil {
			r := &reader{f: f, each: each}
			err = r.run(ctx, path, follow)
			f.Close()
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if !follow || !sleep(ctx, pollTime) {
			return nil
		}
	}
}

// openOwn judges the log as its writers do, and makes nothing.
func openOwn(path string) (*os.File, error) {
	l := &Log{path: path}
	if err := l.checkDir(); err != nil {
		return nil, err
	}
	return l.openFile(path, unix.O_RDONLY, logForbids)
}

func openLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// reader goes through one file.
type reader struct {
	f    *os.File
	at   int64 // offset of what has not been read yet
	rest []byte
	long bool // the line that rest belongs to is longer than any record: rest is thrown away
	n    int  // lines
	each func(Line) error
}

// run reads to the end; with follow, until path is another file or ctx ends.
func (r *reader) run(ctx context.Context, path string, follow bool) error {
	for {
		// Asked before the last bytes are read: a writer has none for this file later.
		replaced := !isFile(r.f, path)
		if err := r.more(); err != nil {
			return err
		}
		if !follow || replaced {
			break
		}
		if !sleep(ctx, pollTime) {
			return nil
		}
		if st, err := r.f.Stat(); err == nil && st.Size() < r.at {
			*r = reader{f: r.f, each: r.each}
			if err := r.each(Line{Damage: "the log was cut: it is read from its beginning"}); err != nil {
				return err
			}
		}
	}
	if r.pending() && sleep(ctx, settleTime) {
		if err := r.more(); err != nil {
			return err
		}
	}
	if !r.pending() {
		return nil
	}
	if h, ok := parse(r.rest); ok && !r.long { // the next writer adds the end alone
		return r.each(Line{Head: h, Text: stream.EscapeJSON(r.rest)})
	}
	return r.each(Line{Damage: fmt.Sprintf("line %d: no end: its writer died, or is at it", r.n+1)})
}

func (r *reader) pending() bool { return len(r.rest) > 0 || r.long }

// more reads what there is.
func (r *reader) more() error {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.f.ReadAt(buf, r.at)
		r.at += int64(n)
		if err := r.lines(buf[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *reader) lines(b []byte) error {
	for len(b) > 0 {
		part, rest, ended := bytes.Cut(b, []byte("\n"))
		b = rest
		r.long = r.long || len(r.rest)+len(part) > maxRecord
		if r.long {
			r.rest = r.rest[:0]
		} else {
			r.rest = append(r.rest, part...)
		}
		if !ended {
			return nil
		}
		r.n++
		l := Line{}
		if h, ok := parse(r.rest); ok && !r.long {
			l.Head, l.Text = h, stream.EscapeJSON(r.rest)
		} else {
			l.Damage = fmt.Sprintf("line %d: no record", r.n)
		}
		if err := r.each(l); err != nil {
			return err
		}
		r.rest, r.long = r.rest[:0], false
	}
	return nil
}

func isFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

// sleep reports whether ctx is still on.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
