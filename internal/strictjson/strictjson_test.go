package strictjson

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

type inner struct {
	MemoryBytes int64    `json:"memoryBytes,omitempty"`
	Small       uint8    `json:"small,omitempty"`
	Ratio       *float64 `json:"ratio,omitempty"`
}

type embedded struct {
	Tenant string `json:"tenant,omitempty"`
}

type doc struct {
	embedded
	V      int               `json:"v,omitempty"`
	Argv   []string          `json:"argv,omitempty"`
	Env    map[string]string `json:"env,omitempty"`
	Limits inner             `json:"limits,omitzero"`
	Stdin  *string           `json:"stdin,omitempty"`
	Key    string            `json:"key,omitempty"`
	Raw    json.RawMessage   `json:"raw,omitempty"`
	Any    any               `json:"any,omitempty"`
	Pair   *[2]int           `json:"pair,omitempty"`
	Bytes  []byte            `json:"bytes,omitempty"`
	On     bool              `json:"on,omitempty"`
	Many   []inner           `json:"many,omitempty"`
	Secret string            `json:"-"`
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, path, msg string }{
		{"empty", ``, "", "ends too early"},
		{"cut", `{"argv":["a"`, "argv", "ends too early"},
		{"not json", `{argv:1}`, "", "invalid JSON"},
		{"missing comma", `{"argv":["a" "b"]}`, "argv[1]", "invalid JSON"},
		{"trailing comma", `{"argv":["a",]}`, "argv[1]", "invalid JSON"},
		{"top null", `null`, "", "must not be null"},
		{"top array", `[]`, "", "array given, want object"},
		{"trailing document", `{} {}`, "", "after the end"},
		{"trailing junk", `{}x`, "", "after the end"},
		{"nul byte", "{}\x00", "", "after the end"},
		{"unknown", `{"argx":1}`, "argx", "unknown field"},
		{"unknown nested", `{"limits":{"mem":1}}`, "limits.mem", "unknown field"},
		{"unknown in array", `{"many":[{},{"x":1}]}`, "many[1].x", "unknown field"},
		{"odd case", `{"Argv":["a"]}`, "Argv", "the name is argv"},
		{"odd case nested", `{"limits":{"memorybytes":1}}`, "limits.memorybytes", "the name is memoryBytes"},
		{"kelvin sign", `{"\u212aey":"x"}`, `"\u212aey"`, "the name is key"},
		{"ignored field", `{"Secret":"x"}`, "Secret", "unknown field"},
		{"dash field", `{"-":"x"}`, "-", "unknown field"},
		{"duplicate", `{"v":1,"v":1}`, "v", "given twice"},
		{"duplicate by escape", `{"v":1,"\u0076":1}`, "v", "given twice"},
		{"duplicate env", `{"env":{"A":"1","A":"2"}}`, "env.A", "given twice"},
		{"folded duplicate", `{"v":1,"V":1}`, "V", "differs only in case from v"},
		{"folded in any", `{"any":{"a":1,"A":2}}`, "any.A", "differs only in case"},
		{"duplicate deep in raw", `{"raw":[{"k":{"a":1,"a":2}}]}`, "raw[0].k.a", "given twice"},
		{"1e400 int", `{"limits":{"memoryBytes":1e400}}`, "limits.memoryBytes", "not an integer"},
		{"1e3 int", `{"limits":{"memoryBytes":1e3}}`, "limits.memoryBytes", "not an integer"},
		{"1.0 int", `{"v":1.0}`, "v", "not an integer"},
		{"int64 overflow", `{"limits":{"memoryBytes":9223372036854775808}}`, "limits.memoryBytes", "out of range"},
		{"uint8 overflow", `{"limits":{"small":256}}`, "limits.small", "out of range"},
		{"uint negative", `{"limits":{"small":-1}}`, "limits.small", "out of range"},
		{"1e400 float", `{"limits":{"ratio":1e400}}`, "limits.ratio", "out of range"},
		{"1e400 any", `{"any":[1e400]}`, "any[0]", "out of range"},
		{"1e400 raw", `{"raw":1e400}`, "raw", "out of range"},
		{"NaN", `{"v":NaN}`, "v", "invalid JSON"},
		{"Infinity", `{"v":-Infinity}`, "v", "invalid JSON"},
		{"hex", `{"v":0x10}`, "", "invalid JSON"},
		{"leading zero", `{"v":01}`, "", "invalid JSON"},
		{"string for int", `{"v":"1"}`, "v", "string given, want integer"},
		{"int for string", `{"argv":["a",2]}`, "argv[1]", "number given, want string"},
		{"string for slice", `{"argv":"a"}`, "argv", "string given, want array"},
		{"object for string", `{"argv":[{}]}`, "argv[0]", "object given, want string"},
		{"array for bytes", `{"bytes":[1,2]}`, "bytes", "want base64 string"},
		{"bool for int", `{"v":true}`, "v", "boolean given, want integer"},
		{"int for bool", `{"on":1}`, "on", "number given, want boolean"},
		{"null int", `{"v":null}`, "v", "must not be null"},
		{"null string in array", `{"argv":["a",null]}`, "argv[1]", "must not be null"},
		{"null env", `{"env":{"A":null}}`, "env.A", "must not be null"},
		{"null struct", `{"limits":null}`, "limits", "must not be null"},
		{"short fixed array", `{"pair":[1]}`, "pair", "exactly 2"},
		{"long fixed array", `{"pair":[1,2,3]}`, "pair", "exactly 2"},
		{"high surrogate", `{"key":"\ud800"}`, "key", "surrogate"},
		{"low surrogate", `{"key":"\udc00"}`, "key", "surrogate"},
		{"two highs", `{"key":"\ud800\ud800"}`, "key", "surrogate"},
		{"surrogate key", `{"env":{"\ud800x":"1"}}`, "env", "surrogate"},
		{"bad utf-8", "{\"key\":\"\xff\"}", "", "UTF-8"},
		{"control character", "{\"key\":\"\x01\"}", "key", "invalid JSON"},
		{"bad base64", `{"bytes":"!"}`, "", "base64"},
		{"terminal escape in a key", `{"\u001b]0;x":1}`, `"\x1b]0;x"`, "unknown field"},
		{"depth", `{"any":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, "any" + strings.Repeat("[0]", 31), "deeper than 32"},
		{"depth 10000", strings.Repeat(`{"any":`, 10000), "any", "unknown field"},
		{"depth 100000 arrays", `{"raw":` + strings.Repeat("[", 100000), "raw" + strings.Repeat("[0]", 31), "deeper than 32"},
		{"size", `{"key":"` + strings.Repeat("a", 1<<20) + `"}`, "", "more than the 1048576"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d doc
			err := Decode([]byte(c.in), &d, Options{})
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("got %v (%T), want an *Error", err, err)
			}
			if c.name == "depth 10000" { // any below any: the type is lost at the second level
				if !strings.Contains(e.Msg, "deeper than 32") {
					t.Fatalf("got %q", e.Msg)
				}
				return
			}
			if e.Path != c.path || !strings.Contains(e.Msg, c.msg) {
				t.Fatalf("got %q: %q, want %q: …%q…", e.Path, e.Msg, c.path, c.msg)
			}
			if len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("unfit for a terminal: %q", err)
			}
			if c.name != "bad base64" && !reflect.DeepEqual(d, doc{}) {
				t.Errorf("refused, but the value was touched: %+v", d)
			}
		})
	}
}

func TestAccepts(t *testing.T) {
	ratio, stdin := 0.5, "x"
	for _, c := range []struct {
		name, in string
		want     doc
	}{
		{"empty object", ` {} ` + "\n", doc{}},
		{
			"all", `{"v":1,"tenant":"t","argv":["a","😀","\ud83d\ude00","\\ud800"],"env":{"http_proxy":"a","HTTP_PROXY":"b"},
			"limits":{"memoryBytes":-9223372036854775808,"small":255,"ratio":0.5},"stdin":"x","pair":[1,2],"bytes":"AAE=","on":true}`,
			doc{
				V: 1, embedded: embedded{"t"}, Argv: []string{"a", "😀", "😀", `\ud800`}, Env: map[string]string{"http_proxy": "a", "HTTP_PROXY": "b"},
				Limits: inner{-1 << 63, 255, &ratio}, Stdin: &stdin, Pair: &[2]int{1, 2}, Bytes: []byte{0, 1}, On: true,
			},
		},
		{"null where nil is", `{"argv":null,"stdin":null,"env":null,"any":null,"pair":null}`, doc{}},
		{"raw and any", `{"raw":[1],"any":{"a":[1.5]}}`, doc{Raw: json.RawMessage("[1]"), Any: map[string]any{"a": []any{1.5}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d doc
			if err := Decode([]byte(c.in), &d, Options{}); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(d, c.want) {
				t.Errorf("got %+v, want %+v", d, c.want)
			}
		})
	}
}

func TestLimitsAreExact(t *testing.T) {
	var v any
	for _, c := range []struct {
		in string
		o  Options
		ok bool
	}{
		{`[[1]]`, Options{MaxDepth: 2}, true},
		{`[[1]]`, Options{MaxDepth: 1}, false},
		{`[{"a":1}]`, Options{MaxDepth: 1}, false},
		{`1234`, Options{MaxBytes: 4}, true},
		{`12345`, Options{MaxBytes: 4}, false},
	} {
		if err := Decode([]byte(c.in), &v, c.o); (err == nil) != c.ok {
			t.Errorf("%s with %+v: %v", c.in, c.o, err)
		}
	}
}

func TestNeedsPointer(t *testing.T) {
	if err := Decode([]byte(`{}`), doc{}, Options{}); err == nil {
		t.Error("a struct by value was accepted")
	}
	if err := Decode([]byte(`{}`), (*doc)(nil), Options{}); err == nil {
		t.Error("a nil pointer was accepted")
	}
}

// FuzzDecode holds Decode to encoding/json: it never accepts more, reads the
// same value, and what it accepted it accepts again when written out.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"v":1,"argv":["a"],"env":{"A":"b"},"limits":{"ratio":1.5},"any":[{"x":null}],"raw":{}}`,
		`{"Argv":1}`, `{"v":1e400}`, `[[[[`, `{"key":"\ud800"}`, `{"a":1}{`, `{"pair":[1,2],"bytes":"AA=="}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, std doc
		if err := Decode(data, &got, Options{MaxBytes: 1 << 16}); err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("error of type %T: %v", err, err)
			}
			return
		}
		if err := json.Unmarshal(data, &std); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		for path, line := range Lines(data) {
			if line < 1 || line > 1+strings.Count(string(data), "\n") {
				t.Fatalf("%q is on line %d", path, line)
			}
		}
		if !reflect.DeepEqual(got, std) {
			t.Fatalf("read %+v, encoding/json %+v", got, std)
		}
		out, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(out, &doc{}, Options{MaxBytes: 1 << 20}); err != nil {
			t.Fatalf("own output %s refused: %v", out, err)
		}
	})
}

// TestLines wants the line of what is refused, and of each key and element.
func TestLines(t *testing.T) {
	for _, c := range []struct {
		name, in string
		line     int
	}{
		{"unknown", "{\n \"v\": 1,\n \"x\": 2\n}", 3},
		{"nested", "{\n\"many\": [\n{},\n{\"small\":\n256}]}", 5},
		{"syntax", "{\n\"v\": 1,\n\n\"argv\": [a]}", 4},
		{"missing comma", "{\n\"argv\": [\"a\"\n\"b\"]}", 3},
		{"trailing", "{}\n\n{}", 3},
		{"cut", "{\n\"v\":\n", 3},
		{"null", "\n{\"v\":\nnull}", 3},
	} {
		var d doc
		err := Decode([]byte(c.in), &d, Options{})
		if e, ok := errors.AsType[*Error](err); !ok || e.Line != c.line {
			t.Errorf("%s: %v on line %d, want %d", c.name, err, e.Line, c.line)
		}
	}
	got := Lines([]byte("{\n\"v\":\n1, \"argv\": [\"a\",\n\"b\"],\n\"many\": [{},\n\n{\"small\": 1}]}\n"))
	want := map[string]int{"": 1, "v": 2, "argv": 3, "argv[0]": 3, "argv[1]": 4, "many": 5, "many[0]": 5, "many[1]": 7, "many[1].small": 7}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("lines %v\nwant  %v", got, want)
	}
	for _, broken := range []string{"", "[", "{\"a\"", "{1}", "{\"a\":[}"} {
		Lines([]byte(broken)) // ends
	}
}
