// Package strictjson reads JSON documents that decide what a jail may do. It
// refuses everything on which two readers of the same bytes could differ.
//
// encoding/json takes the last of two equal keys, matches keys to fields in any
// case ("Argv" fills argv), lets null pass for any type, replaces broken UTF-8
// and lone surrogates by U+FFFD, and ignores what follows the document when it
// is read through a Decoder. A gate that checks a document with one reader and
// acts on it with another can be walked around through each of these. Decode
// walks the tokens along the Go type first, so that every refusal names the
// field, and fills the value only when the whole document is good.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unicode/utf8"
)

// Defaults of Options.
const (
	DefaultMaxBytes = 1 << 20
	DefaultMaxDepth = 32
)

// Options bounds a document. The zero value is the strict one.
type Options struct {
	MaxBytes int // size of the document in bytes; 0 means DefaultMaxBytes
	MaxDepth int // nesting of objects and arrays; 0 means DefaultMaxDepth
}

// Error is the only error type that Decode returns for a bad document.
type Error struct {
	Path string // field, as in limits.memoryBytes or argv[3]; "" is the document itself
	Msg  string // what is wrong, in lower case
	Line int    // where, from 1; 0 where that is not known
}

func (e *Error) Error() string {
	s := e.Msg
	if e.Path != "" {
		s = e.Path + ": " + s
	}
	if e.Line > 0 {
		s = fmt.Sprintf("line %d: %s", e.Line, s)
	}
	return s
}

// Decode reads one JSON document from data into v, a non-nil pointer. It
// refuses, with the field's path in an *Error:
//
//   - documents over o.MaxBytes or nested deeper than o.MaxDepth, trailing data;
//   - keys given twice; in structs, and in values of no known shape (any,
//     RawMessage, types with their own UnmarshalJSON), keys that differ only in
//     case as well. A Go map is data whose keys may differ in case: an
//     environment holds http_proxy and HTTP_PROXY side by side;
//   - keys that are not, letter for letter, the name of a field;
//   - null where the type has no nil, numbers that are not whole or do not fit
//     where an integer is wanted, numbers that no float64 holds (1e400);
//   - strings with invalid UTF-8 or half a surrogate pair.
//
// v is left alone when the document is refused by one of these rules.
func Decode(data []byte, v any, o Options) error {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = DefaultMaxDepth
	}
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("strictjson: Decode into %T, want a non-nil pointer", v)
	}
	if len(data) > o.MaxBytes {
		return &Error{Msg: fmt.Sprintf("document has at least %d bytes, more than the %d allowed", len(data), o.MaxBytes)}
	}
	if !utf8.Valid(data) {
		return &Error{Msg: "document is not valid UTF-8"}
	}
	w := walker{data: data, dec: json.NewDecoder(bytes.NewReader(data)), maxDepth: o.MaxDepth}
	w.dec.UseNumber()
	if err := w.value("", p.Type().Elem(), 0); err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			e.Line = lineOf(data, w.here())
		}
		return err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return &Error{Msg: "data after the end of the document", Line: lineOf(data, skip(data, w.dec.InputOffset()))}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fromStdlib(err)
	}
	return nil
}

// fromStdlib turns what encoding/json says into an Error. The walk has seen all
// it can judge by the type; a value's own UnmarshalJSON may still refuse.
func fromStdlib(err error) error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if ute, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &Error{Path: ute.Field, Msg: fmt.Sprintf("%s given, want %s", ute.Value, ute.Type)}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{Msg: "document ends too early"}
	}
	return &Error{Msg: "invalid JSON: " + err.Error()}
}
