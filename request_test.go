package jailer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
)

const goodRequest = `{"v":1,"profile":"agent","tenant":"acme-1","labels":{"job":"42","k8s.io_x":"ü"},"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
 "argv":["sh","-c","echo $A",""],"env":{"A":"1","http_proxy":"x","HTTP_PROXY":"y"},"cwd":"/workspace/sub/",
 "stdin":"aGkA/w==","stdinEncoding":"base64",
 "files":[{"path":"src/a\nb.py","content":"print(1)\n","mode":"0755"},{"path":"/tmp/x","content":"/w==","encoding":"base64"},{"path":"empty","content":""}],
 "directories":["out","/home/jail/.cache"],
 "limits":{"timeoutMs":1500,"cpuTimeMs":1000,"memoryBytes":67108864,"cpuMilli":200,"pids":16,"tmpBytes":1048576,
           "workspaceBytes":1048576,"workspaceInodes":100,"outputBytes":11},
 "capabilities":["exec"],"outputKeep":"tail","onOutputLimit":"kill"}`

func TestParseRequest(t *testing.T) {
	r, err := jailer.ParseRequest([]byte(goodRequest))
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := r.StdinData()
	if err != nil || string(stdin) != "hi\x00\xff" {
		t.Errorf("stdin is %q, %v", stdin, err)
	}
	if b, err := r.Files[1].Data(); err != nil || string(b) != "\xff" {
		t.Errorf("the second file is %q, %v", b, err)
	}
	for i, want := range []fs.FileMode{0o755, 0o644, 0o644} {
		if m, err := r.Files[i].FileMode(); err != nil || m != want {
			t.Errorf("the mode of %s is %v, %v", r.Files[i].Path, m, err)
		}
	}
	l, err := r.Limits.Limits()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(limits.Limits{
		Timeout: 1500 * time.Millisecond, CPUTime: time.Second, Memory: 64 << 20, CPUs: 200, PIDs: 16,
		TmpSize: 1 << 20, Workspace: 1 << 20, WorkspaceInodes: 100, MaxOutput: 11,
	}, l, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Error(diff)
	}
	// What was read encodes to what reads the same.
	doc, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	again, err := jailer.ParseRequest(doc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Error(diff)
	}
	if _, err := jailer.ParseRequest([]byte(`{}`)); err != nil {
		t.Errorf("an empty request: %v", err)
	}
}

func TestParseRequestRefuses(t *testing.T) {
	big := strings.Repeat("x", 200<<10)
	for _, c := range []struct{ name, in, field, msg string }{
		{"unknown", `{"argv":["a"],"rootfs":"/"}`, "rootfs", ""},
		{"host path", `{"argv":["a"],"mounts":[]}`, "mounts", ""},
		{"unknown limit", `{"limits":{"memory":1}}`, "limits.memory", ""},
		{"duplicate", `{"argv":["a"],"argv":["b"]}`, "argv", ""},
		{"duplicate limit", `{"limits":{"pids":1,"pids":4000}}`, "limits.pids", ""},
		{"duplicate variable", `{"env":{"A":"1","A":"2"}}`, "env.A", ""},
		{"odd case", `{"Argv":["a"]}`, "Argv", ""},
		{"odd case limit", `{"limits":{"PIDS":4000}}`, "limits.PIDS", ""},
		{"odd case beside", `{"argv":["a"],"ARGV":["b"]}`, "ARGV", ""},
		{"trailing document", `{"argv":["a"]}{"argv":["b"]}`, "", "after the end"},
		{"trailing text", `{"argv":["a"]} x`, "", "after the end"},
		{"10 MiB", `{"argv":["` + strings.Repeat("a", 10<<20) + `"]}`, "", "more than the"},
		{"depth 10000", `{"labels":` + strings.Repeat(`{"a":`, 10000) + `1` + strings.Repeat(`}`, 10000) + `}`, "labels", ""},
		{"depth 10000 in arrays", strings.Repeat(`[`, 10000), "", ""},
		{"-1", `{"limits":{"memoryBytes":-1}}`, "limits.memoryBytes", "positive"},
		{"0", `{"limits":{"memoryBytes":0}}`, "limits.memoryBytes", "positive"},
		{"-0", `{"limits":{"timeoutMs":-0}}`, "limits.timeoutMs", "positive"},
		{"1e400", `{"limits":{"memoryBytes":1e400}}`, "limits.memoryBytes", ""},
		{"1e3", `{"limits":{"memoryBytes":1e3}}`, "limits.memoryBytes", ""},
		{"2^63", `{"limits":{"memoryBytes":9223372036854775808}}`, "limits.memoryBytes", ""},
		{"fraction", `{"limits":{"cpuMilli":0.5}}`, "limits.cpuMilli", ""},
		{"ms overflow", `{"limits":{"timeoutMs":9223372036854775807}}`, "limits.timeoutMs", "at most"},
		{"NaN", `{"limits":{"pids":NaN}}`, "", ""},
		{"string", `{"limits":{"pids":"16"}}`, "limits.pids", ""},
		{"null limit", `{"limits":{"pids":null}}`, "limits.pids", ""},
		{"null", `null`, "request", ""},
		{"array", `[]`, "", ""},
		{"empty", ``, "", ""},
		{"v 0", `{"v":0}`, "v", "version"},
		{"v 2", `{"v":2}`, "v", "version"},
		{"shell string", `{"argv":"sh -c id"}`, "argv", ""},
		{"no command", `{"argv":[]}`, "argv", "empty"},
		{"empty command", `{"argv":["","a"]}`, "argv[0]", "empty"},
		{"NUL in argv", `{"argv":["a","b\u0000c"]}`, "argv[1]", "NUL"},
		{"long argument", `{"argv":["a","` + big + `"]}`, "argv[1]", "at most"},
		{"NUL in env", `{"env":{"A":"\u0000"}}`, "env", "NUL"},
		{"= in a name", `{"env":{"A=B":"1"}}`, "env", "'='"},
		{"no name", `{"env":{"":"1"}}`, "env", "no name"},
		{"newline in a name", `{"env":{"A\nB":"1"}}`, "env", "control"},
		{"relative cwd", `{"cwd":"workspace"}`, "cwd", "absolute"},
		{"cwd in fd", `{"cwd":"/proc/self/fd/7"}`, "cwd", "/proc"},
		{"cwd in fd, spelt otherwise", `{"cwd":"//./proc/self/fd/7"}`, "cwd", "/proc"},
		{"cwd in dev", `{"cwd":"/dev/fd/7"}`, "cwd", "/dev"},
		{"cwd in sys", `{"cwd":"/sys"}`, "cwd", "/sys"},
		{"cwd up", `{"cwd":"/workspace/../proc"}`, "cwd", `".."`},
		{"NUL in cwd", `{"cwd":"/a\u0000b"}`, "cwd", "NUL"},
		{"tenant up", `{"tenant":"../b"}`, "tenant", ""},
		{"tenant slash", `{"tenant":"a/b"}`, "tenant", ""},
		{"tenant dot", `{"tenant":"."}`, "tenant", ""},
		{"tenant 300", `{"tenant":"` + strings.Repeat("a", 300) + `"}`, "tenant", ""},
		{"tenant NUL", `{"tenant":"a\u0000"}`, "tenant", ""},
		{"tenant newline", `{"tenant":"a\n"}`, "tenant", ""},
		{"tenant case", `{"tenant":"Acme"}`, "tenant", ""},
		{"tenant look-alike", `{"tenant":"аcme"}`, "tenant", ""},
		{"tenant dash first", `{"tenant":"-a"}`, "tenant", ""},
		{"profile", `{"profile":"../x"}`, "profile", ""},
		{"traceparent", `{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"}`, "traceparent", "W3C"},
		{"label name", `{"labels":{"A":"1"}}`, "labels", ""},
		{"label control", `{"labels":{"a":"\u001b[2J"}}`, "labels.a", "control"},
		{"label right-to-left", `{"labels":{"a":"\u202e"}}`, "labels.a", "control"},
		{"label long", `{"labels":{"a":"` + strings.Repeat("x", 257) + `"}}`, "labels.a", "257"},
		{"capability", `{"capabilities":["exec","root"]}`, "capabilities[1]", "root"},
		{"keep", `{"outputKeep":"middle"}`, "outputKeep", "middle"},
		{"on limit", `{"onOutputLimit":"ignore"}`, "onOutputLimit", "ignore"},
		{"stdin encoding", `{"stdin":"x","stdinEncoding":"utf-16"}`, "stdinEncoding", "utf-16"},
		{"stdin base64", `{"stdin":"x","stdinEncoding":"base64"}`, "stdin", ""},
		{"encoding alone", `{"stdinEncoding":"base64"}`, "stdinEncoding", "without stdin"},
		{"file without a path", `{"files":[{"content":"x"}]}`, "files[0].path", "empty"},
		{"file of the host", `{"files":[{"path":"a","source":"/etc/shadow"}]}`, "files[0].source", ""},
		{"file in etc", `{"files":[{"path":"/etc/passwd"}]}`, "files[0].path", "not below"},
		{"file in proc", `{"files":[{"path":"/proc/self/fd/3"}]}`, "files[0].path", "not below"},
		{"file up", `{"files":[{"path":"a"},{"path":"../etc/passwd"}]}`, "files[1].path", `".."`},
		{"file up later", `{"files":[{"path":"/workspace/a/../../etc/x"}]}`, "files[0].path", `".."`},
		{"file not clean", `{"files":[{"path":"a//b"}]}`, "files[0].path", `want "a/b"`},
		{"file with a slash after it", `{"files":[{"path":"a/"}]}`, "files[0].path", "not clean"},
		{"file with a dot", `{"files":[{"path":"./a"}]}`, "files[0].path", "not clean"},
		{"file that is a mount", `{"files":[{"path":"/tmp"}]}`, "files[0].path", "there already"},
		{"file that is the workspace", `{"files":[{"path":"."}]}`, "files[0].path", "there already"},
		{"file with NUL", `{"files":[{"path":"a\u0000b"}]}`, "files[0].path", "NUL"},
		{"file twice", `{"files":[{"path":"a"},{"path":"/workspace/a"}]}`, "files[1].path", "files[0].path"},
		{"file and directory", `{"files":[{"path":"a"}],"directories":["a"]}`, "directories[0]", "files[0].path"},
		{"file below a file", `{"files":[{"path":"a/b/c"},{"path":"a-b"},{"path":"a"}]}`, "files[0].path", "below the file of files[2].path"},
		{"directory below a file", `{"files":[{"path":"a"}],"directories":["a-b","a/b"]}`, "directories[1]", "below the file"},
		{"directory twice", `{"directories":["a","b","a"]}`, "directories[2]", "directories[0]"},
		{"directory that is a mount", `{"directories":["/home/jail"]}`, "directories[0]", "there already"},
		{"directory elsewhere", `{"directories":["/home/other"]}`, "directories[0]", "not below"},
		{"file encoding", `{"files":[{"path":"a","content":"x","encoding":"` + strings.Repeat("utf-16", 100) + `"}]}`, "files[0].encoding", "utf-16"},
		{"file base64", `{"files":[{"path":"a","content":"c2VjcmV0","encoding":"base64"},{"path":"b","content":"*","encoding":"base64"}]}`, "files[1].content", "base64"},
		{"file base64 with a line break", `{"files":[{"path":"a","content":"c2Vj\ncmV0","encoding":"base64"}]}`, "files[0].content", "line break"},
		{"file mode over", `{"files":[{"path":"a","mode":"4755"}]}`, "files[0].mode", "0777"},
		{"file mode decimal", `{"files":[{"path":"a","mode":"0789"}]}`, "files[0].mode", "octal"},
		{"file mode as a number", `{"files":[{"path":"a","mode":420}]}`, "files[0].mode", ""},
		{"file mode too short", `{"files":[{"path":"a","mode":"7"}]}`, "files[0].mode", "octal"},
		{"file mode with a sign", `{"files":[{"path":"a","mode":"+755"}]}`, "files[0].mode", "octal"},
		{"file mode with a prefix", `{"files":[{"path":"a","mode":"0o75"}]}`, "files[0].mode", "octal"},
		{"file content null", `{"files":[{"path":"a","content":null}]}`, "files[0].content", ""},
		{"files as an object", `{"files":{"a":"x"}}`, "files", ""},
		{"bad UTF-8", "{\"argv\":[\"\xff\"]}", "", "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := jailer.ParseRequest([]byte(c.in))
			e, ok := errors.AsType[*jailer.Error](err)
			if !ok {
				t.Fatalf("got %v, want a *jailer.Error", err)
			}
			if e.Code != jailer.CodeInvalidRequest {
				t.Errorf("code is %q", e.Code)
			}
			if !strings.HasPrefix(e.Path, c.field) || !strings.Contains(e.Message, c.msg) {
				t.Errorf("got path %q, message %q, want %q, %q", e.Path, e.Message, c.field, c.msg)
			}
			if len(e.Error()) > 600 {
				t.Errorf("the message has %d bytes", len(e.Error()))
			}
		})
	}
}

func TestCheckBounds(t *testing.T) {
	many := map[string]string{}
	for i := range jailer.MaxLabels + 1 {
		many[fmt.Sprint("l", i)] = ""
	}
	fits := strings.Repeat("x", jailer.MaxArgBytes)
	for _, c := range []struct {
		name string
		r    jailer.Request
		ok   bool
	}{
		{"labels", jailer.Request{Labels: many}, false},
		{"longest argument", jailer.Request{Argv: []string{"a", fits}}, true},
		{"longer argument", jailer.Request{Argv: []string{"a", fits + "x"}}, false},
		{"longest variable", jailer.Request{Env: map[string]string{"A": fits[2:]}}, true},
		{"longer variable", jailer.Request{Env: map[string]string{"A": fits}}, false},
		{"all together", jailer.Request{Argv: []string{"a", fits, fits, fits, fits, fits, fits, fits, fits}}, false},
		{"label not UTF-8", jailer.Request{Labels: map[string]string{"a": "\xff"}}, false},
		{"negative limit", jailer.Request{Limits: jailer.RequestLimits{Pids: -1}}, false},
		{"bytes in argv", jailer.Request{Argv: []string{"a", "\xff\n"}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.r.Check(); (err == nil) != c.ok {
				t.Fatalf("error %v", err)
			}
		})
	}
}

// TestEmptyCapabilitiesStay: a list that vanished in JSON would ask for all.
func TestEmptyCapabilitiesStay(t *testing.T) {
	doc, err := json.Marshal(jailer.Request{Capabilities: []string{}})
	if err != nil || string(doc) != `{"capabilities":[]}` {
		t.Fatalf("got %s, %v", doc, err)
	}
	r, err := jailer.ParseRequest(doc)
	if err != nil || r.Capabilities == nil {
		t.Fatalf("got %#v, %v, want an empty list", r, err)
	}
}

// TestRequestLimitsHaveFields: each member has a field of the same name in the
// table, or it would be accepted and not enforced.
func TestRequestLimitsHaveFields(t *testing.T) {
	names := map[string]bool{}
	for _, f := range limits.Fields() {
		names[f.JSON] = true
	}
	typ := reflect.TypeFor[jailer.RequestLimits]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "cpuset" { // a list and no number, which Limits checks
			continue
		}
		if !names[name] {
			t.Errorf("%s is in no field of limits", name)
		}
		var q jailer.RequestLimits
		reflect.ValueOf(&q).Elem().Field(i).SetInt(1)
		if l, err := q.Limits(); err != nil || l == (limits.Limits{}) {
			t.Errorf("%s has no effect: %v, %v", name, l, err)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	for _, s := range []string{
		goodRequest, `{"files":[{"path":"a"},{"path":"a/b"}]}`, `{"directories":["../a"]}`, `{}`, `null`, `{"argv":["a"],"Argv":["b"]}`, `{"limits":{"memoryBytes":1e400}}`,
		`{"cwd":"/proc/self/fd/7"}`, `{"capabilities":[]}`, `{"env":{"a":"1","A":"2"}}`, "{\"stdin\":\"\\ud800\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := jailer.ParseRequest(data)
		if err != nil {
			if e, ok := errors.AsType[*jailer.Error](err); !ok || e.Code != jailer.CodeInvalidRequest || r != nil {
				t.Fatalf("got %v, %#v", r, err)
			}
			return
		}
		doc, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := jailer.ParseRequest(doc)
		if err != nil {
			if len(doc) > jailer.MaxRequestBytes {
				return // escapes made it longer
			}
			t.Fatalf("%s: %v", doc, err)
		}
		// Empty maps and lists may vanish, but for the one that has a meaning.
		if !slices.Equal(r.Argv, again.Argv) || !maps.Equal(r.Env, again.Env) || r.Limits != again.Limits ||
			!maps.Equal(r.Labels, again.Labels) || r.Cwd != again.Cwd || !slices.Equal(r.Files, again.Files) || !slices.Equal(r.Directories, again.Directories) ||
			(r.Capabilities == nil) != (again.Capabilities == nil) || !slices.Equal(r.Capabilities, again.Capabilities) {
			t.Fatalf("%s reads as %#v", doc, again)
		}
	})
}
