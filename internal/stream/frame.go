package stream

import (
	"encoding/base64"
	"io"
	"strconv"
	"sync"
	"unicode/utf8"
)

// Lines writes NDJSON from several goroutines to one writer: whole lines, one
// sequence number rising over all of them. The first write error sticks.
type Lines struct {
	mu  sync.Mutex
	w   io.Writer
	seq int64
	buf []byte
	err error
}

// NewLines returns Lines that write to w, one Write a line.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Emit writes the line that appendTo appends to dst, which must be one JSON
// document without a line end; seq is the number that belongs in it, 1 for the
// first line.
func (l *Lines) Emit(appendTo func(dst []byte, seq int64) []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	l.seq++
	l.buf = append(appendTo(l.buf[:0], l.seq), '\n')
	_, l.err = l.w.Write(l.buf)
	return l.err
}

// Framer returns a Writer for one stream ("stdout", "stderr").
func (l *Lines) Framer(stream string) *Framer { return &Framer{lines: l, stream: stream} }

// Framer turns what is written to it into output lines:
//
//	{"v":1,"type":"output","stream":"stdout","seq":3,"data":"…","encoding":"utf-8"}
//
// A character that is split over two writes is joined; a chunk that is not UTF-8
// goes as base64. Data decoded and joined in order of seq is what the job wrote.
// Not safe for use by two goroutines at once; several Framers of one Lines are.
type Framer struct {
	lines  *Lines
	stream string
	part   []byte // a character begun at the end of the last write, at most 3 bytes
}

// Write frames p. Up to 3 bytes may wait for the next Write or Flush.
func (f *Framer) Write(p []byte) (int, error) {
	for b := p; len(b) > 0; {
		n := min(len(b), chunk)
		if err := f.frame(b[:n]); err != nil {
			return len(p) - len(b), err
		}
		b = b[n:]
	}
	return len(p), nil
}

// Flush frames what waited for the rest of a character.
func (f *Framer) Flush() error {
	b := f.part
	f.part = nil
	return f.line(b)
}

func (f *Framer) frame(b []byte) error {
	if len(f.part) > 0 {
		b = append(f.part, b...)
		f.part = nil
	}
	n := len(b) - unfinished(b)
	if n < len(b) {
		f.part = append([]byte(nil), b[n:]...)
	}
	return f.line(b[:n])
}

func (f *Framer) line(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return f.lines.Emit(func(dst []byte, seq int64) []byte {
		dst = AppendString(append(dst, `{"v":1,"type":"output","stream":`...), f.stream)
		dst = strconv.AppendInt(append(dst, `,"seq":`...), seq, 10)
		dst = append(dst, `,"data":`...)
		if utf8.Valid(b) {
			dst = AppendString(dst, string(b))
			return append(dst, `,"encoding":"`+EncodingUTF8+`"}`...)
		}
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), b)
		return append(dst, `","encoding":"`+EncodingBase64+`"}`...)
	})
}
