package stream

import (
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// The names that a result gives to the encoding of an output.
const (
	EncodingUTF8   = "utf-8"
	EncodingBase64 = "base64"
)

// Text returns b for a JSON document: itself if it is UTF-8, else base64.
func Text(b []byte) (text string, encoding string) {
	if utf8.Valid(b) {
		return string(b), EncodingUTF8
	}
	return base64.StdEncoding.EncodeToString(b), EncodingBase64
}

// AppendString appends s as a JSON string. Every character that is not printable
// is escaped: C0, DEL and C1 (U+009B is CSI: a terminal obeys it as it does
// ESC [), U+2028 and U+2029 (line ends to some readers), bidirectional and
// zero-width controls (they make a line read as another one). So no output of a
// job can end the line it stands in or drive the terminal that shows it.
// encoding/json leaves all but C0, U+2028 and U+2029 as they are. Invalid UTF-8
// becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	return append(appendEscaped(append(dst, '"'), s, true), '"')
}

// WriteString writes s as AppendString would append it, piece by piece: escaped, an
// output of control characters is six times as long, and is never held whole.
func WriteString(w io.Writer, s string) error {
	const piece = 16 << 10
	buf := append(make([]byte, 0, 6*piece), '"')
	for len(s) > piece {
		n := piece
		for n > piece-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		if _, err := w.Write(appendEscaped(buf, s[:n], true)); err != nil {
			return err
		}
		buf, s = buf[:0], s[n:]
	}
	_, err := w.Write(append(appendEscaped(buf, s, true), '"'))
	return err
}

// EscapeJSON returns doc, a valid JSON document, with every unprintable character
// outside ASCII, and DEL, escaped as AppendString does. They can stand in strings
// only, so that the document's meaning stays the same.
func EscapeJSON(doc []byte) []byte {
	for i, c := range doc {
		if c >= 0x7f {
			return appendEscaped(append(make([]byte, 0, len(doc)+64), doc[:i]...), string(doc[i:]), false)
		}
	}
	return doc
}

func appendEscaped(dst []byte, s string, ascii bool) []byte {
	from := 0 // s[from:i] needs no escape
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf && c != 0x7f && (!ascii || c >= ' ' && c != '"' && c != '\\') {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if c >= utf8.RuneSelf && unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			i += n
			continue
		}
		dst = append(dst, s[from:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, hi, lo)
		default:
			dst = append(dst, `\u`...)
			for x := 0x1000; x > int(r) && x > 1; x >>= 4 {
				dst = append(dst, '0')
			}
			dst = strconv.AppendInt(dst, int64(r), 16)
		}
		i += n
		from = i
	}
	return append(dst, s[from:]...)
}
