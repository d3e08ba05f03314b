package presets

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/profiles"
	"github.com/jailer-project/jailer/test/jail"
)

// An agent's day: a session with the tenant's workspace, files in, a command that works on
// them, a process that stays, files out; and what it must not do.
func TestAgent(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		python := program(t, "python3")
		programs := []string{python, "/bin/sh", program(t, "cat"), program(t, "mkdir"), program(t, "sleep")}
		trees, err := filepath.Glob("/usr/lib/python3.*/[a-z_]*.py")
		if err != nil {
			t.Fatal(err)
		}
		for _, tree := range []string{"collections", "encodings", "importlib", "json", "re", "lib-dynload"} {
			m, _ := filepath.Glob("/usr/lib/python3.*/" + tree)
			trees = append(trees, m...)
		}
		c = preset(t, c, "agent", root(t, c, programs, trees))
		dir := c.DataDir(t)
		do := func(input string, args ...string) *jail.Outcome {
			t.Helper()
			return c.Do(t, jail.Job{Raw: true, Input: input}, args...)
		}
		ok := func(o *jail.Outcome) *jail.Outcome {
			t.Helper()
			if o.Code != 0 {
				t.Fatal(o)
			}
			return o
		}
		ok(do("", "create", "--id", "day", "--workspace", "acme/site", "--data-dir", dir))
		ok(do(`import json, sys; n = [len(l) for l in open("in.txt")]; json.dump(n, open("out.json", "w")); print(sum(n))`, "fs", "put", "day", "count.py"))
		ok(do("one\nthree\n", "fs", "put", "day", "in.txt"))
		if o := ok(do("", "exec", "day", "--", "python3", "count.py")); o.Stdout != "10\n" {
			t.Errorf("%s", o)
		}
		if o := ok(do("", "fs", "cat", "day", "out.json")); o.Stdout != "[4, 6]" {
			t.Errorf("%s", o)
		}
		ok(do("", "start", "day", "--name", "server", "--", "sleep", "300"))
		if o := ok(do("", "export", "day", "*.json")); !strings.Contains(o.Stdout, "[4, 6]") {
			t.Errorf("%.200q", o.Stdout)
		}

		refused := func(o *jail.Outcome, code int, word string) {
			t.Helper()
			if o.Code != code || !strings.Contains(o.Stderr, word) {
				t.Errorf("want %d and %q: %s", code, word, o)
			}
		}
		ok(do("", "exec", "day", "--", "sh", "-c", "mkdir -p .Git/Hooks; echo evil > .Git/Hooks/post-commit; echo evil > .envrc"))
		refused(do("", "export", "day", "**"), 1, "protected")
		refused(do("", "exec", "day", "--env", "GIT_SSH_COMMAND=id", "--", "true"), 126, "GIT_SSH_COMMAND")
		refused(do("", "exec", "day", "--env", "LD_PRELOAD=/workspace/x.so", "--", "true"), 126, "LD_PRELOAD")
		refused(do("", "create", "--rootfs", "host"), 1, "rootfs")
		o := do("", "exec", "day", "--", "python3", "-c", "import socket; socket.create_connection(('192.0.2.1', 80), 5)")
		refused(o, 1, "unreachable")
		ok(do("", "delete", "day"))
		// The project is there tomorrow.
		if o := ok(do("", "run", "--workspace", "acme/site", "--data-dir", dir, "--", "cat", "out.json")); o.Stdout != "[4, 6]" {
			t.Errorf("%s", o)
		}
	})
}

// A preset says what it is, in a sentence, and of each of its choices why.
func TestPresetsExplain(t *testing.T) {
	c := jail.User(t)
	o := c.Do(t, jail.Job{Raw: true}, "policy", "preset")
	for _, name := range profiles.Presets() {
		if !strings.Contains(o.Stdout, name+" ") {
			t.Errorf("%s", o)
		}
		text, err := profiles.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Do(t, jail.Job{Raw: true}, "policy", "preset", name); p.Stdout != string(text) {
			t.Errorf("%s", p)
		}
		v := c.Do(t, jail.Job{Raw: true}, "policy", "validate", c.File(t, name+".toml", string(text)))
		if v.Code != 0 || strings.Count(string(text), "because") < 8 {
			t.Errorf("%s: %d times because: %s", name, strings.Count(string(text), "because"), v)
		}
	}
	o = c.Do(t, jail.Job{Raw: true}, "policy", "preset", "../policy/builtin")
	if o.Code != 1 || !strings.Contains(o.Stderr, "agent, ci, judge, node, python") {
		t.Errorf("%s", o)
	}
}
