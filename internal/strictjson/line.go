package strictjson

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Lines gives, for a document that Decode has accepted, the line (from 1) on
// which each key and each element of an array begins, by its path as in Error.
// It is for errors that only the document's reader can find.
func Lines(data []byte) map[string]int {
	l := liner{data: data, dec: json.NewDecoder(bytes.NewReader(data)), at: map[string]int{}, line: 1}
	l.value("")
	return l.at
}

type liner struct {
	data []byte
	dec  *json.Decoder
	at   map[string]int

	counted int64 // how far the line ends are counted
	line    int   // the line there
}

// token reads the next token. False is the end of the document, or of what can
// be read of it.
func (l *liner) token() (json.Token, bool) {
	t, err := l.dec.Token()
	return t, err == nil
}

func (l *liner) value(path string) bool {
	l.at[path] = l.here()
	t, ok := l.token()
	if !ok {
		return false
	}
	switch t {
	case json.Delim('['):
		for n := 0; l.dec.More(); n++ {
			if !l.value(path + "[" + strconv.Itoa(n) + "]") {
				return false
			}
		}
	case json.Delim('{'):
		for l.dec.More() {
			line := l.here()
			key, ok := l.token()
			name, text := key.(string)
			if !ok || !text || !l.value(join(path, name)) {
				return false
			}
			l.at[join(path, name)] = line // of the key, where the value begins later
		}
	default:
		return true
	}
	_, ok = l.token()
	return ok
}

// here is the line of the next token.
func (l *liner) here() int {
	at := skip(l.data, l.dec.InputOffset())
	l.line += bytes.Count(l.data[l.counted:at], []byte("\n"))
	l.counted = at
	return l.line
}

// skip goes from the end of a token to the beginning of the next.
func skip(data []byte, offset int64) int64 {
	for offset < int64(len(data)) && bytes.IndexByte([]byte(" \t\r\n,:"), data[offset]) >= 0 {
		offset++
	}
	return offset
}

// lineOf counts from 1.
func lineOf(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
}
