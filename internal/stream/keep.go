package stream

import (
	"slices"
	"unicode/utf8"
)

// head passes on the first cap bytes as they come. Where they are UTF-8, a
// character that does not fit whole is left out; where they are not, the cut is
// exact.
type head struct {
	cap  int64
	emit func([]byte) // takes what is passed on
	over func([]byte) // takes what is not; nil = nobody

	sent   int64  // bytes passed on
	part   []byte // the last character, begun but not finished; at most 3 bytes
	held   bool   // part does not fit whole and is not passed on yet
	binary bool   // not UTF-8
	full   bool   // the cut is made
}

func (h *head) write(b []byte) {
	for len(b) > 0 && !h.full {
		switch {
		case h.binary:
			b = h.exact(b)
		case len(h.part) > 0:
			b = h.join(b)
		default:
			b = h.text(b)
		}
	}
	h.pastCap(b)
}

// exact passes on what fits, wherever that cuts.
func (h *head) exact(b []byte) []byte {
	n := min(int64(len(b)), h.cap-h.sent)
	h.pass(b[:n])
	h.full = n < int64(len(b))
	return b[n:]
}

// text passes on whole characters and begins the one that b or the cap cuts.
func (h *head) text(b []byte) []byte {
	n := int(min(int64(len(b)), h.cap-h.sent))
	n -= unfinished(b[:n])
	if !utf8.Valid(b[:n]) {
		h.binary = true
		return b
	}
	h.pass(b[:n])
	if b = b[n:]; len(b) == 0 {
		return nil
	}
	if h.sent == h.cap {
		h.full = true
		return b
	}
	h.held = h.sent+int64(width(b[0])) > h.cap
	return h.begin(b)
}

// begin takes one more byte of the character in part.
func (h *head) begin(b []byte) []byte {
	h.part = append(h.part, b[0])
	if !h.held {
		h.pass(b[:1])
	}
	return b[1:]
}

// join takes one more byte of part and looks whether it is a character now. Only
// that tells text that is cut at the cap from bytes that happen to look so.
func (h *head) join(b []byte) []byte {
	b = h.begin(b)
	if !utf8.FullRune(h.part) {
		return b
	}
	_, n := utf8.DecodeRune(h.part)
	part, held := h.part, h.held
	h.part, h.held = nil, false
	switch {
	case n == 1: // an error: valid encodings that come here are longer
		h.binary = true
		if held {
			h.pastCap(h.exact(part))
		}
	case held:
		h.full = true
		h.pastCap(part)
	}
	return b
}

// finish passes on what waited for a rest that never came, if it fits.
func (h *head) finish() {
	part, held := h.part, h.held
	h.part, h.held = nil, false
	switch {
	case !held:
	case h.sent+int64(len(part)) <= h.cap:
		h.pass(part)
	default:
		h.pastCap(part)
	}
}

func (h *head) pass(b []byte) {
	h.sent += int64(len(b))
	h.emit(b)
}

func (h *head) pastCap(b []byte) {
	if len(b) > 0 && h.over != nil {
		h.over(b)
	}
}

// ring keeps the last cap bytes. It grows with the output, up to cap.
type ring struct {
	cap  int64
	buf  []byte
	at   int  // the oldest byte, once wrapped
	lost bool // something was overwritten
}

func (r *ring) write(b []byte) {
	if over := int64(len(b)) - r.cap; over >= 0 {
		r.lost = r.lost || over > 0 || len(r.buf) > 0
		r.buf, r.at = append(r.buf[:0], b[over:]...), 0
		return
	}
	if room := r.cap - int64(len(r.buf)); room > 0 {
		n := min(int64(len(b)), room)
		r.buf = append(r.buf, b[:n]...)
		b = b[n:]
	}
	for len(b) > 0 {
		n := copy(r.buf[r.at:], b)
		r.at = (r.at + n) % len(r.buf)
		b = b[n:]
		r.lost = true
	}
}

// bytes returns what is kept, oldest first, from the first whole character on if
// it is text whose start was lost. It turns the ring in place, to need no second
// one, and ends its use.
func (r *ring) bytes() []byte {
	b := r.buf
	slices.Reverse(b[:r.at])
	slices.Reverse(b[r.at:])
	slices.Reverse(b)
	if !r.lost {
		return b
	}
	n := 0
	for n < len(b) && n < utf8.UTFMax-1 && !utf8.RuneStart(b[n]) {
		n++
	}
	// A job that was killed may have left half a character at the end.
	if utf8.Valid(b[n : len(b)-unfinished(b[n:])]) {
		return b[n:]
	}
	return b
}

// unfinished returns the length of the character that b begins but does not
// finish at its end, 0 to 3.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if utf8.FullRune(b[len(b)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}

// width returns the length of the character that starts with lead byte c.
func width(c byte) int {
	switch {
	case c >= 0xF0:
		return 4
	case c >= 0xE0:
		return 3
	case c >= 0xC0:
		return 2
	}
	return 1
}
