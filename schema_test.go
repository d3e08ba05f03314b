package jailer_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jailer-project/jailer"
)

var updateSchema = flag.Bool("update-schema", false, "write docs/schema anew")

type schema = map[string]any

// constants are the values of a type of strings, read from the source, so that a new one
// is in the schema or the test fails.
func constants(t *testing.T, typ string) (values []any) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := s.Type.(*ast.Ident); ok && id.Name == typ && len(s.Values) == 1 {
				v, err := strconv.Unquote(s.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, v)
			}
			return true
		})
	}
	if len(values) == 0 {
		t.Fatalf("%s has no constants", typ)
	}
	return values
}

// schemaOf is what encoding/json makes of a type. closed: other members are refused.
func schemaOf(t *testing.T, typ reflect.Type, closed bool, at string, more map[string]schema) schema {
	t.Helper()
	s := schema{}
	switch {
	case typ == reflect.TypeFor[time.Time]():
		s["type"], s["format"] = "string", "date-time"
	case typ == reflect.TypeFor[jailer.Error]():
		s = object(t, reflect.TypeFor[errorMembers](), closed, at, more)
	case typ.Kind() == reflect.Pointer:
		return schemaOf(t, typ.Elem(), closed, at, more)
	case typ.Kind() == reflect.Struct:
		s = object(t, typ, closed, at, more)
	case typ.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(t, typ.Elem(), closed, at+"[]", more)
	case typ.Kind() == reflect.Map:
		s["type"], s["additionalProperties"] = "object", schemaOf(t, typ.Elem(), closed, at+"{}", more)
	case typ.Kind() == reflect.String:
		s["type"] = "string"
		if typ.Name() != "string" {
			s["enum"] = constants(t, typ.Name())
		}
	case typ.Kind() == reflect.Bool:
		s["type"] = "boolean"
	case typ.Kind() == reflect.Int, typ.Kind() == reflect.Int64:
		s["type"] = "integer"
	default:
		t.Fatalf("%s: %v", at, typ)
	}
	for k, v := range more[at] {
		s[k] = v
	}
	return s
}

// errorMembers is jailer.Error as its MarshalJSON writes it.
type errorMembers struct {
	Code      jailer.Code `json:"code"`
	Message   string      `json:"message"`
	Hint      string      `json:"hint,omitempty"`
	Op        string      `json:"op,omitempty"`
	Retryable bool        `json:"retryable"`
	Details   *struct {
		Reason string `json:"reason,omitempty"`
	} `json:"details,omitempty"`
}

func object(t *testing.T, typ reflect.Type, closed bool, at string, more map[string]schema) schema {
	t.Helper()
	members, required := schema{}, []any{}
	for _, f := range reflect.VisibleFields(typ) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			t.Fatalf("%s.%s has no name", typ, f.Name)
		}
		m := schemaOf(t, f.Type, closed, strings.TrimPrefix(at+"."+name, "."), more)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
			if f.Type.Kind() == reflect.Pointer { // null where it doesn't apply
				m["type"] = []any{m["type"], "null"}
				if e, ok := m["enum"].([]any); ok {
					m["enum"] = append(e, nil)
				}
			}
		}
		members[name] = m
	}
	s := schema{"type": "object", "properties": members}
	if len(required) > 0 {
		s["required"] = required
	}
	if closed {
		s["additionalProperties"] = false
	}
	return s
}

const plain, label = `^[a-z0-9][a-z0-9_-]{0,62}$`, `^[a-z0-9][a-z0-9_.-]{0,62}$`

func requestSchema(t *testing.T) schema {
	encodings := schema{"enum": []any{jailer.EncodingUTF8, jailer.EncodingBase64}}
	more := map[string]schema{
		"v":             {"const": jailer.ProtocolVersion},
		"profile":       {"pattern": plain},
		"tenant":        {"pattern": plain},
		"labels":        {"maxProperties": jailer.MaxLabels, "propertyNames": schema{"pattern": label}},
		"labels{}":      {"description": fmt.Sprintf("at most %d bytes, no control characters", jailer.MaxLabelBytes)},
		"traceparent":   {"pattern": "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$"},
		"argv":          {"minItems": 1},
		"stdinEncoding": encodings, "files[].encoding": encodings,
		"files[]":      {"required": []any{"path"}},
		"files[].mode": {"pattern": "^[0-7]{3,4}$"},
		"workspace":    {"pattern": `^[a-z0-9][a-z0-9_-]{0,62}/[a-z0-9][a-z0-9_.-]{0,62}$`},
		"capabilities[]": {"enum": func() (all []any) {
			for _, c := range jailer.Capabilities() {
				all = append(all, c)
			}
			return all
		}()},
		"outputKeep":    {"enum": []any{jailer.KeepHead, jailer.KeepTail, jailer.KeepBoth}},
		"onOutputLimit": {"enum": []any{jailer.OnLimitTruncate, jailer.OnLimitKill}},
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[jailer.RequestLimits]()) {
		if f.Type.Kind() == reflect.Int64 {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			more["limits."+name] = schema{"minimum": 1}
		}
	}
	s := schemaOf(t, reflect.TypeFor[jailer.Request](), true, "", more)
	s["title"] = "A request of jailer run, create and exec (--request)"
	s["description"] = fmt.Sprintf("At most %d bytes, nested at most %d deep. What it asks for, the policy may refuse.", jailer.MaxRequestBytes, jailer.MaxRequestDepth)
	return s
}

func resultSchema(t *testing.T) schema {
	result := schemaOf(t, reflect.TypeFor[jailer.Result](), false, "", map[string]schema{
		"v":              {"const": jailer.ProtocolVersion},
		"stdoutEncoding": {"enum": []any{jailer.EncodingUTF8, jailer.EncodingBase64}}, "stderrEncoding": {"enum": []any{jailer.EncodingUTF8, jailer.EncodingBase64}},
	})
	never := schema{
		"type": "object", "required": []any{"v", "error"}, "not": schema{"required": []any{"status"}},
		"properties": schema{"v": schema{"const": jailer.ProtocolVersion}, "error": schemaOf(t, reflect.TypeFor[jailer.Error](), false, "error", nil)},
	}
	return schema{
		"title":       "A result of jailer run and exec (--json, --result)",
		"description": "A result, or, where the command never ran, an error. Readers ignore members that they don't know.",
		"oneOf":       []any{result, never},
	}
}

// TestSchema compares docs/schema with the types.
func TestSchema(t *testing.T) {
	for name, s := range map[string]schema{"request": requestSchema(t), "result": resultSchema(t)} {
		s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
		want, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, '\n')
		file := filepath.Join("docs", "schema", name+".json")
		if *updateSchema {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not that of the types (%v): go test -run TestSchema . -update-schema", file, err)
		}
	}
}

// What the program takes and writes is valid by the schema, and what the schema refuses it
// refuses.
func TestSchemaHolds(t *testing.T) {
	load := func(name string) (s schema) {
		b, err := os.ReadFile(filepath.Join("docs", "schema", name))
		if err == nil {
			err = json.Unmarshal(b, &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	request, result := load("request.json"), load("result.json")
	for _, doc := range []string{
		goodRequest, `{}`, `{"argv":["a"]}`, `{"v":1}`, `{"limits":{}}`, `{"capabilities":[]}`,
		`{"x":1}`, `{"argv":[]}`, `{"argv":"a"}`, `{"argv":[1]}`, `{"profile":"A"}`, `{"labels":{"A":"1"}}`, `{"v":2}`, `{"limits":{"pids":0}}`, `{"limits":{"pids":-1}}`,
		`{"limits":{"pids":1.5}}`, `{"limits":{"x":1}}`, `{"capabilities":["root"]}`, `{"outputKeep":"all"}`, `{"workspace":"a"}`, `{"workspace":"a/b/c"}`, `{"traceparent":"x"}`,
		`{"files":[{"path":"a","content":"b"}]}`, `{"files":[{"path":"a"}]}`, `{"files":[{"path":"a","content":"b","mode":"999"}]}`, `{"env":{"A":1}}`, `null`, `[]`,
		`{"rootfs":"/"}`, `{"mounts":[]}`, `{"user":"root"}`, `{"seccomp":"none"}`, `{"cgroupParent":"/"}`, `{"policy":"/p"}`, `{"events":{"path":"/e"}}`,
	} {
		var v any
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatal(err)
		}
		why := violation(request, v)
		_, err := jailer.ParseRequest([]byte(doc))
		if (why == "") != (err == nil) {
			t.Errorf("%s: by the schema %q, by the program %v", doc, why, err)
		}
	}
	for _, name := range []string{"result-full.json", "result-least.json"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		if why := violation(result, v); why != "" {
			t.Errorf("%s: %s", name, why)
		}
		v.(schema)["status"] = "fine"
		if violation(result, v) == "" {
			t.Errorf("%s: any status is taken", name)
		}
	}
	doc, err := (&jailer.Error{Code: jailer.CodeInternal, Message: "m", Hint: "h", Op: "o", Path: "p", Reason: "r", Retryable: true}).Document()
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatal(err)
	}
	if why := violation(result, v); why != "" {
		t.Errorf("%s: %s", doc, why)
	}
}

// violation is the part of JSON Schema (2020-12) that is used here, "" where v is valid.
func violation(s schema, v any) string {
	for k, want := range s {
		why := ""
		switch k {
		case "type":
			types, ok := want.([]any)
			if !ok {
				types = []any{want}
			}
			if !slices.ContainsFunc(types, func(n any) bool { return isOf(n.(string), v) }) {
				why = fmt.Sprintf("is no %v", want)
			}
		case "enum":
			if !slices.ContainsFunc(want.([]any), func(w any) bool { return reflect.DeepEqual(w, v) }) {
				why = fmt.Sprintf("%v is none of them", v)
			}
		case "const":
			if !reflect.DeepEqual(want, v) {
				why = fmt.Sprintf("%v is not %v", v, want)
			}
		case "pattern":
			if text, ok := v.(string); ok && !regexp.MustCompile(want.(string)).MatchString(text) {
				why = fmt.Sprintf("%q does not match %s", text, want)
			}
		case "minimum":
			if n, ok := v.(float64); ok && n < want.(float64) {
				why = fmt.Sprintf("%v is less than %v", n, want)
			}
		case "minItems":
			if l, ok := v.([]any); ok && len(l) < int(want.(float64)) {
				why = "has too few items"
			}
		case "maxProperties":
			if m, ok := v.(schema); ok && len(m) > int(want.(float64)) {
				why = "has too many members"
			}
		case "items":
			l, _ := v.([]any)
			for i, x := range l {
				if w := violation(want.(schema), x); w != "" {
					why = fmt.Sprintf("[%d]: %s", i, w)
				}
			}
		case "properties":
			m, _ := v.(schema)
			for name, sub := range want.(schema) {
				if x, ok := m[name]; ok {
					if w := violation(sub.(schema), x); w != "" {
						why = name + ": " + w
					}
				}
			}
		case "required":
			if m, ok := v.(schema); ok {
				for _, name := range want.([]any) {
					if _, there := m[name.(string)]; !there {
						why = name.(string) + " is missing"
					}
				}
			}
		case "propertyNames", "additionalProperties":
			m, _ := v.(schema)
			known, _ := s["properties"].(schema)
			for name, x := range m {
				sub, isSchema := want.(schema)
				switch _, ok := known[name]; {
				case k == "propertyNames":
					why = violation(sub, name)
				case ok:
				case isSchema:
					why = violation(sub, x)
				case want == false:
					why = name + " is unknown"
				}
				if why != "" {
					break
				}
			}
		case "oneOf":
			n := 0
			for _, sub := range want.([]any) {
				w := violation(sub.(schema), v)
				if w == "" {
					n++
				} else {
					why += "; " + w
				}
			}
			if n == 1 {
				why = ""
			}
		case "not":
			if violation(want.(schema), v) == "" {
				why = "is what it must not be"
			}
		case "title", "description", "$schema", "format":
		default:
			panic(k)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

func isOf(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string" && utf8.ValidString(v)
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	case schema:
		return name == "object"
	}
	return false
}
