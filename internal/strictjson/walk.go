package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// walker goes over the tokens of a document beside the Go type that it is for.
type walker struct {
	data     []byte
	dec      *json.Decoder
	maxDepth int
	before   int64 // where the last token's raw text may begin
	broken   bool  // the last token could not be read
}

// here is where the walk has stopped: in the last token, or in what should have
// been the next.
func (w *walker) here() int64 {
	if w.broken {
		return skip(w.data, w.dec.InputOffset())
	}
	return w.dec.InputOffset()
}

func (w *walker) token(path string) (json.Token, error) {
	w.before = w.dec.InputOffset()
	t, err := w.dec.Token()
	if err != nil {
		w.broken = true
		e := fromStdlib(err).(*Error)
		e.Path = path
		return nil, e
	}
	if _, ok := t.(string); ok && halfSurrogate(w.data[w.before:w.dec.InputOffset()]) {
		return nil, &Error{Path: path, Msg: "string holds half a surrogate pair"}
	}
	return t, nil
}

// value checks the next value of the document against t; a nil t stands for a
// value of no known shape.
func (w *walker) value(path string, t reflect.Type, depth int) error {
	tok, err := w.token(path)
	if err != nil {
		return err
	}
	if tok == nil {
		return checkNull(path, t)
	}
	t = shape(t)
	switch tok := tok.(type) {
	case json.Delim:
		if depth++; depth > w.maxDepth {
			return &Error{Path: path, Msg: fmt.Sprintf("nested deeper than %d levels", w.maxDepth)}
		}
		if tok == '[' {
			return w.array(path, t, depth)
		}
		return w.object(path, t, depth)
	case json.Number:
		return checkNumber(path, tok, t)
	case string:
		if t != nil && (t.Kind() != reflect.String || t == numberType) && !isBytes(t) {
			return mismatch(path, "string", t)
		}
	case bool:
		if t != nil && t.Kind() != reflect.Bool {
			return mismatch(path, "boolean", t)
		}
	}
	return nil
}

func (w *walker) array(path string, t reflect.Type, depth int) error {
	var elem reflect.Type
	limit := -1
	switch {
	case t == nil:
	case t.Kind() == reflect.Slice && !isBytes(t):
		elem = t.Elem()
	case t.Kind() == reflect.Array:
		elem, limit = t.Elem(), t.Len()
	default:
		return mismatch(path, "array", t)
	}
	n := 0
	for ; w.dec.More(); n++ {
		// encoding/json drops what a fixed array can't hold and zeroes the rest.
		if n == limit {
			break
		}
		if err := w.value(path+"["+strconv.Itoa(n)+"]", elem, depth); err != nil {
			return err
		}
	}
	if limit >= 0 && (n < limit || w.dec.More()) {
		return &Error{Path: path, Msg: fmt.Sprintf("must have exactly %d elements", limit)}
	}
	_, err := w.token(path)
	return err
}

func (w *walker) object(path string, t reflect.Type, depth int) error {
	var fields map[string]reflect.Type
	var elem reflect.Type
	switch {
	case t == nil:
	case t.Kind() == reflect.Struct:
		fields = fieldsOf(t)
	case t.Kind() == reflect.Map:
		elem = t.Elem()
	default:
		return mismatch(path, "object", t)
	}
	isMap := t != nil && t.Kind() == reflect.Map
	seen := map[string]string{}
	for w.dec.More() {
		tok, err := w.token(path)
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return &Error{Path: path, Msg: "object key is not a string"}
		}
		at := join(path, key)
		id := key
		if !isMap {
			id = fold(key)
		}
		if first, dup := seen[id]; dup {
			if first == key {
				return &Error{Path: at, Msg: "given twice"}
			}
			return &Error{Path: at, Msg: "differs only in case from " + show(first)}
		}
		seen[id] = key
		next := elem
		if fields != nil {
			if next, ok = fields[key]; !ok {
				return &Error{Path: at, Msg: unknown(key, fields)}
			}
		}
		if err := w.value(at, next, depth); err != nil {
			return err
		}
	}
	_, err := w.token(path)
	return err
}

func unknown(key string, fields map[string]reflect.Type) string {
	for name := range fields {
		if fold(name) == fold(key) {
			return "unknown field; the name is " + name
		}
	}
	return "unknown field"
}

var (
	numberType      = reflect.TypeFor[json.Number]()
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	stringType      = reflect.TypeFor[string]()
)

// shape strips pointers and gives nil for types that decide for themselves what
// they accept. A type that reads text is a string.
func shape(t reflect.Type) reflect.Type {
	for t != nil {
		if p := reflect.PointerTo(t); p.Implements(unmarshaler) || t.Kind() == reflect.Interface {
			return nil
		} else if p.Implements(textUnmarshaler) {
			return stringType
		}
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
	}
	return t
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// known holds what fieldsOf found, by type: a document may hold a hundred
// thousand small objects of one type.
var known sync.Map

// fieldsOf gives the JSON names of a struct's fields, with those of embedded
// structs. A field with the ",string" option has no known shape.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if f, ok := known.Load(t); ok {
		return f.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("json")
		name, opts, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-", !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "":
			continue // its own fields are visible ones
		case name == "":
			name = f.Name
		}
		ft := f.Type
		if strings.Contains(opts, "string") {
			ft = nil
		}
		fields[name] = ft
	}
	known.Store(t, fields)
	return fields
}

// checkNull lets null pass only where Go has a nil: anywhere else encoding/json
// would silently leave the field as it was.
func checkNull(path string, t reflect.Type) error {
	if t == nil {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return nil
	}
	return &Error{Path: path, Msg: "must not be null"}
}

func checkNumber(path string, n json.Number, t reflect.Type) error {
	bits, kind := 64, reflect.Float64
	if t != nil {
		kind = t.Kind()
	}
	switch kind {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		bits = t.Bits()
		return whole(path, n, func() error { _, err := strconv.ParseInt(n.String(), 10, bits); return err }, t)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		bits = t.Bits()
		return whole(path, n, func() error { _, err := strconv.ParseUint(n.String(), 10, bits); return err }, t)
	case reflect.Float32:
		bits = 32
	case reflect.Float64:
	default:
		if t != numberType {
			return mismatch(path, "number", t)
		}
	}
	if f, err := strconv.ParseFloat(n.String(), bits); err != nil || math.IsInf(f, 0) {
		return &Error{Path: path, Msg: fmt.Sprintf("number %s is out of range", show(n.String()))}
	}
	return nil
}

func whole(path string, n json.Number, parse func() error, t reflect.Type) error {
	if strings.ContainsAny(n.String(), ".eE") {
		return &Error{Path: path, Msg: fmt.Sprintf("number %s is not an integer in plain digits", show(n.String()))}
	}
	if parse() != nil {
		return &Error{Path: path, Msg: fmt.Sprintf("number %s is out of range (%s)", show(n.String()), t.Kind())}
	}
	return nil
}

func mismatch(path, got string, t reflect.Type) error {
	want := t.Kind().String()
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		want = "object"
	case reflect.Slice, reflect.Array:
		want = "array"
		if isBytes(t) {
			want = "base64 string"
		}
	case reflect.Bool:
		want = "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		want = "integer"
	case reflect.Float32, reflect.Float64:
		want = "number"
	}
	return &Error{Path: path, Msg: got + " given, want " + want}
}

// join adds a key to a path. The document's author chose the key, so that it is
// quoted and cut before it can reach a terminal or a log.
func join(path, key string) string {
	if path == "" {
		return show(key)
	}
	return path + "." + show(key)
}

func show(key string) string {
	const most = 64
	cut := ""
	if len(key) > most {
		key, cut = strings.ToValidUTF8(key[:most], ""), "…"
	}
	for _, r := range key {
		if r != '_' && r != '-' && r != '+' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)) {
			return strconv.QuoteToASCII(key) + cut
		}
	}
	if key == "" {
		return `""`
	}
	return key + cut
}

// fold maps strings that encoding/json takes for the same field name to one
// string. Unicode counts: U+212A (Kelvin sign) folds to k, U+017F to s.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, s)
}

// halfSurrogate says whether raw, the text around one string literal, has a \u
// escape for a surrogate without its other half. encoding/json makes U+FFFD of
// it, so that distinct strings become equal.
func halfSurrogate(raw []byte) bool {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		r := escape(raw[i:])
		switch {
		case r < 0:
			i++ // a two-byte escape; its second byte may be a backslash
		case r < 0xd800 || r > 0xdfff:
			i += 5
		case r > 0xdbff:
			return true
		default:
			if low := escape(raw[i+6:]); low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 11
		}
	}
	return false
}

// escape gives the value of the \uXXXX at the start of b, or -1.
func escape(b []byte) int64 {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseInt(string(b[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return n
}
