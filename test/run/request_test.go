package run

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

// request is a run by a request document on standard input. Were it accepted in
// spite of its fault, the job would say so.
func request(doc string) jail.Job {
	return jail.Job{Flags: []string{"--request", "-", "--id", requestID()}, Input: doc}
}

func requestID() string { return fmt.Sprintf("request-%d", os.Getpid()) }

const ran = `"argv":["sh","-c","echo RAN"]`

// Each fault is told with the field that has it, before there is any side effect.
func TestRequestRefused(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, doc, field string }{
		{"unknown key", `{` + ran + `,"memory":"1G"}`, "memory"},
		{"unknown key inside", `{` + ran + `,"limits":{"ram":1}}`, "limits.ram"},
		{"a host path", `{` + ran + `,"rootfs":"/"}`, "rootfs"},
		{"a policy", `{` + ran + `,"policy":"/tmp/p"}`, "policy"},
		{"a mount", `{` + ran + `,"mounts":[{"source":"/etc","target":"/x"}]}`, "mounts"},
		{"a user", `{` + ran + `,"user":0}`, "user"},
		{"duplicate key", `{` + ran + `,"profile":"default","profile":"default"}`, "profile"},
		{"duplicate key inside", `{` + ran + `,"limits":{"pids":4,"pids":400}}`, "limits.pids"},
		{"duplicate by escape", `{` + ran + `,"limits":{"pids":4,"pid\u0073":400}}`, "limits.pids"},
		{"odd case", `{` + ran + `,"Argv":["sh"]}`, "Argv"},
		{"odd case inside", `{` + ran + `,"limits":{"memorybytes":67108864}}`, "limits.memorybytes"},
		{"folded letter", `{` + ran + `,"limit` + "\u017f" + `":{}}`, "limit"},
		{"trailing data", `{` + ran + `} {}`, "request"},
		{"trailing garbage", `{` + ran + `}x`, "request"},
		{"two documents by lines", "{" + ran + "}\n{" + ran + "}\n", "request"},
		{"10 MiB", `{` + ran + `,"stdin":"` + strings.Repeat("x", 10<<20) + `"}`, "request"},
		{"10 MiB of space", `{` + ran + strings.Repeat(" ", 10<<20) + `}`, "request"},
		{"depth 10 000", `{` + ran + `,"labels":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, "labels"},
		{"depth 10 000 of objects", strings.Repeat(`{"limits":`, 10_000) + "1" + strings.Repeat("}", 10_000), "limits"},
		{"-1", `{` + ran + `,"limits":{"memoryBytes":-1}}`, "limits.memoryBytes"},
		{"0", `{` + ran + `,"limits":{"pids":0}}`, "limits.pids"},
		{"1e400", `{` + ran + `,"limits":{"memoryBytes":1e400}}`, "limits.memoryBytes"},
		{"2^64", `{` + ran + `,"limits":{"memoryBytes":18446744073709551616}}`, "limits.memoryBytes"},
		{"1.5", `{` + ran + `,"limits":{"pids":1.5}}`, "limits.pids"},
		{"a number as text", `{` + ran + `,"limits":{"timeoutMs":"1000"}}`, "limits.timeoutMs"},
		{"null", `null`, "request"},
		{"a list", `[` + `]`, "request"},
		{"empty", " ", "request"},
		{"no JSON", `argv: [sh]`, "request"},
		{"cut short", `{` + ran, "request"},
		{"version 2", `{"v":2,` + ran + `}`, "v"},
		{"argv as text", `{"argv":"echo RAN"}`, "argv"},
		{"argv empty", `{"argv":[]}`, "argv"},
		{"NUL in argv", `{"argv":["echo","\u0000"]}`, "argv[1]"},
		{"bad UTF-8", "{\"argv\":[\"echo\",\"\xff\"]}", "UTF-8"},
		{"relative cwd", `{` + ran + `,"cwd":"tmp"}`, "cwd"},
		{"cwd in proc", `{` + ran + `,"cwd":"/proc/self/fd/9"}`, "cwd"},
		{"= in a name", `{` + ran + `,"env":{"A=B":"c"}}`, "env"},
		{"a path as tenant", `{` + ran + `,"tenant":"../x"}`, "tenant"},
		{"encoding", `{` + ran + `,"stdin":"%%%","stdinEncoding":"base64"}`, "stdin"},
	}
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				o := c.Run(t, request(tc.doc))
				o.Refused(t, 125, jailer.CodeInvalidRequest, tc.field)
				if strings.Contains(o.Stdout+o.Stderr, "RAN\n") {
					t.Errorf("the command ran:\n%s", o)
				}
				if len(o.Stderr) > 4<<10 {
					t.Errorf("%d bytes of error", len(o.Stderr))
				}
			})
		}
		// Not so much as the state directory was made.
		if _, err := os.Stat(c.StateDir()); err == nil {
			t.Errorf("%s exists", c.StateDir())
		}
		c.NothingLeft(t, requestID())

		c.Run(t, request(`{`+ran+`}`)).Said(t, "RAN\n") // the control
	})
}

// What goes over the policy is refused by the policy's own code.
func TestRequestDenied(t *testing.T) {
	denied := func(words ...string) func(*testing.T, *jail.Caller, *jail.Outcome) {
		return func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
			o.Refused(t, 126, jailer.CodePolicyDenied, words...)
		}
	}
	invalid := func(words ...string) func(*testing.T, *jail.Caller, *jail.Outcome) {
		return func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
			o.Refused(t, 125, jailer.CodeInvalidRequest, words...)
		}
	}
	file := func(doc string, flags ...string) jail.Job {
		return jail.Job{Flags: append([]string{"--request", "-"}, flags...), Input: doc}
	}
	each(t, []row{
		{"memory over the ceiling", file(`{` + ran + `,"limits":{"memoryBytes":1099511627776}}`), denied("memory", "16")},
		{"timeout over the ceiling", file(`{` + ran + `,"limits":{"timeoutMs":300001}}`), denied("timeout", "5m0")},
		{"a profile that is not there", file(`{` + ran + `,"profile":"nosuch"}`), denied("profile", "nosuch")},
		{"no exec", file(`{` + ran + `,"capabilities":["fs.read"]}`), denied("exec")},
		{"limit given twice", file(`{`+ran+`,"limits":{"pids":9}}`, "--pids", "9"), invalid("limits.pids", "both")},
		{"command given twice", jail.Job{Flags: []string{"--request", "-"}, Input: `{` + ran + `}`, Sh: "echo RAN"}, invalid("argv", "both")},
		{"label given twice", file(`{`+ran+`,"labels":{"a":"1"}}`, "--label", "a=2"), invalid("labels", "both")},
		{"stdin given twice", file(`{`+ran+`,"stdin":"x"}`, "--stdin", "/etc/passwd"), invalid("stdin", "both")},
	})
}

// A whole request, and what comes back of it.
func TestRequestAccepted(t *testing.T) {
	doc, err := json.Marshal(map[string]any{
		"v": 1, "profile": "default", "tenant": "acme", "labels": map[string]string{"job": "42"},
		"argv": []string{"sh", "-c", `pwd; echo "$A"; cat; ulimit -n >/dev/null; head -c 100 /dev/zero | tr '\0' x >&2`},
		"env":  map[string]string{"A": "b c"}, "cwd": "/tmp",
		"stdin": base64.StdEncoding.EncodeToString([]byte("in\n")), "stdinEncoding": "base64",
		"limits":     map[string]int64{"timeoutMs": 60000, "memoryBytes": 128 << 20, "pids": 16, "cpuMilli": 500, "outputBytes": 50},
		"outputKeep": "tail", "capabilities": []string{"exec"},
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
		r := o.Exited(t, 0)
		if o.Out() != "/tmp\nb c\nin\n" || len(o.ErrOut()) != 50 || !r.StderrTruncated || r.Tenant != "acme" || r.Labels["job"] != "42" || r.Profile != "default" {
			t.Error(o)
		}
	}
	each(t, []row{
		{"a whole one", jail.Job{Flags: []string{"--request", "-"}, Input: string(doc)}, check},
		{"with space around", jail.Job{Flags: []string{"--request", "-"}, Input: "\n " + string(bytes.TrimSpace(doc)) + "\n\n"}, check},
		{
			"beside flags",
			jail.Job{Flags: []string{"--request", "-", "--label", "a=1", "--env", "B=2", "--timeout", "20s"}, Input: `{"argv":["sh","-c","echo $A $B"],"env":{"A":"1"},"labels":{"b":"2"}}`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				if r := o.Said(t, "1 2\n"); r.Labels["a"] != "1" || r.Labels["b"] != "2" {
					t.Error(o)
				}
			},
		},
		{"the command beside it", jail.Job{Flags: []string{"--request", "-"}, Input: `{"env":{"A":"1"}}`, Sh: "echo $A"}, says("1\n")},
	})
}
