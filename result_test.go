package jailer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jailer-project/jailer"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fullResult has every member of the result set.
func fullResult() jailer.Result {
	return jailer.Result{
		V: 1, SessionID: "s1", ExecID: "e1", Profile: "default", Tenant: "acme", Labels: map[string]string{"job": "42"},
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Status:      jailer.StatusTimedOut, ExitCode: new(0), Signal: new("SIGKILL"), Limit: new(jailer.LimitWall),
		LimitsHit: []string{"pids"},
		StartedAt: time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC), DurationMs: 812, SetupMs: new(int64(14)),
		Stdout: new("é\n"), StdoutEncoding: "utf-8", StdoutBytes: 14, StdoutTruncated: true,
		Stderr: new("/w=="), StderrEncoding: "base64", StderrBytes: 1,
		Usage: jailer.Usage{
			CPUUserMs: new(int64(610)), CPUSystemMs: new(int64(40)), MemoryPeakBytes: new(int64(73400320)),
			PidsPeak: new(int64(5)), OOMKills: new(int64(0)), ThrottledMs: new(int64(0)), WorkspaceBytes: new(int64(4096)),
		},
		LeftoverKilled: new(int64(0)),
		Artifacts:      []jailer.Artifact{{Path: "out/r.pdf", Bytes: 1234, SHA256: "ab"}},
		Isolation: jailer.Isolation{
			UserNS: true, NetNS: true, Seccomp: "default", AppArmor: "jailer-default", LandlockABI: 6,
			Limits:      map[string]string{"memory": "cgroup2", "workspace": "tmpfs"},
			NotEnforced: []string{"cpus"},
		},
		InitLost: true,
		Error:    &jailer.Error{Code: jailer.CodeNoSpace, Message: "the export failed", Op: "export"},
	}
}

func TestResultGolden(t *testing.T) {
	for name, r := range map[string]jailer.Result{
		"full": fullResult(),
		// What a run without cgroups and without capture knows.
		"least": {SessionID: "s1", ExecID: "e1", Profile: "default", Status: jailer.StatusExited, ExitCode: new(7)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(r, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			file := "testdata/result-" + name + ".json"
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got; go test -run Golden -update .)\n%s", diff)
			}
		})
	}
}

func TestParseResult(t *testing.T) {
	doc, err := json.Marshal(fullResult())
	if err != nil {
		t.Fatal(err)
	}
	// A newer program may say more.
	doc = bytes.Replace(doc, []byte(`{"v":1,`), []byte(`{"v":1,"later":{"a":[1]},`), 1)
	r, err := jailer.ParseResult(doc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullResult(), *r); diff != "" {
		t.Error(diff)
	}
	if b, err := r.StdoutData(); err != nil || string(b) != "é\n" {
		t.Errorf("stdout %q, %v", b, err)
	}
	if b, err := r.StderrData(); err != nil || string(b) != "\xff" {
		t.Errorf("stderr %q, %v", b, err)
	}
	if b, err := new(jailer.Result).StdoutData(); err != nil || b != nil {
		t.Errorf("stdout that was not captured: %q, %v", b, err)
	}
}

func TestParseResultRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in string
		code     jailer.Code
		msg      string
	}{
		{"version", `{"v":2,"status":"exited"}`, jailer.CodeInternal, "version 2"},
		{"no version", `{"status":"exited"}`, jailer.CodeInternal, "version none"},
		{"error document", `{"v":1,"error":{"code":"policy_denied","message":"no","retryable":false}}`, jailer.CodePolicyDenied, "no"},
		{"neither", `{"v":1}`, jailer.CodeInternal, "neither"},
		{"cut", `{"v":1,"status":"exi`, jailer.CodeInternal, "not readable"},
		{"wrong type", `{"v":1,"status":"exited","exitCode":"7"}`, jailer.CodeInternal, "not readable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := jailer.ParseResult([]byte(c.in))
			e, ok := errors.AsType[*jailer.Error](err)
			if !ok || r != nil || e.Code != c.code || !strings.Contains(e.Error(), c.msg) {
				t.Fatalf("got %v, %#v", r, err)
			}
		})
	}
}

func TestError(t *testing.T) {
	e := &jailer.Error{
		Code: jailer.CodeIsolationUnavailable, Message: "can't enable the controller", Hint: "loginctl enable-linger",
		Op: "cgroup.delegate", Path: "/sys/fs/cgroup", Retryable: true, Reason: "cgroup.cpu", Err: fs.ErrPermission,
	}
	if got, want := e.Error(), "/sys/fs/cgroup: can't enable the controller: permission denied"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(e, fs.ErrPermission) {
		t.Error("the cause is lost")
	}
	doc, err := e.Document()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"v":1,"error":{"code":"isolation_unavailable","message":"/sys/fs/cgroup: can't enable the controller: permission denied",` +
		`"hint":"loginctl enable-linger","op":"cgroup.delegate","retryable":true,"details":{"reason":"cgroup.cpu"}}}`
	if string(doc) != want {
		t.Errorf("got  %s\nwant %s", doc, want)
	}
	_, err = jailer.ParseResult(doc)
	again, ok := errors.AsType[*jailer.Error](err)
	if !ok || again.Error() != e.Error() || again.Code != e.Code || again.Hint != e.Hint || again.Op != e.Op ||
		again.Reason != e.Reason || !again.Retryable {
		t.Errorf("read back as %#v", err)
	}
	if got := (&jailer.Error{Code: jailer.CodeInternal}).Error(); got != "internal" {
		t.Errorf("an error without a message is %q", got)
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct{ in, text, encoding string }{
		{"", "", "utf-8"},
		{"é", "é", "utf-8"},
		{"a\x00b", "a\x00b", "utf-8"},
		{"\xff", "/w==", "base64"},
		{"\xc3", "ww==", "base64"},
	} {
		text, encoding := jailer.EncodeText([]byte(c.in))
		if text != c.text || encoding != c.encoding {
			t.Errorf("%q is %q in %s", c.in, text, encoding)
		}
		if b, err := jailer.DecodeText(text, encoding); err != nil || string(b) != c.in {
			t.Errorf("%q comes back as %q, %v", c.in, b, err)
		}
	}
	for _, c := range [][2]string{{"x", "latin-1"}, {"x", "base64"}, {"/w=\n=", "base64"}, {"/x==", "base64"}} {
		if b, err := jailer.DecodeText(c[0], c[1]); err == nil {
			t.Errorf("%q in %s is %q", c[0], c[1], b)
		}
	}
}

func FuzzParseResult(f *testing.F) {
	doc, err := json.Marshal(fullResult())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(doc)
	f.Add([]byte(`{"v":1,"error":{"code":"internal"}}`))
	f.Add([]byte(`{"v":1,"status":"exited","error":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := jailer.ParseResult(data)
		if (r == nil) == (err == nil) {
			t.Fatalf("result %v, error %v", r, err)
		}
		if r == nil {
			return
		}
		if _, err := json.Marshal(r); err != nil {
			// Only a year beyond 9999 has no form in RFC 3339.
			if !strings.Contains(err.Error(), "Time.MarshalJSON") {
				t.Fatal(err)
			}
		}
	})
}
