package policy

import (
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
)

// Of each value it is said where it stands.
func TestOrigins(t *testing.T) {
	const text = `version = 1
extends = "builtin"
[limits]
enforce = "best-effort"
[profiles.agent]
extends = "tight"
seccomp = "strict"
env = { set = { A = "1" }, allow = ["*"] }
[profiles.tight]
extends = "default"
[profiles.tight.limits]
default = { memory = "64M", pids = 9 }
`
	p, err := Parse("/etc/p.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	q := &jailer.Request{Cwd: "/tmp", Env: map[string]string{"B": "2"}, Limits: jailer.RequestLimits{TimeoutMs: 1000}}
	o := Overrides{Profile: "agent", Argv: []string{"true"}, Env: map[string]string{"C": "3"}, Limits: limits.Limits{MaxOutput: 1000}, HostCPUs: 4}
	n, err := Resolve(p, q, o)
	if err != nil {
		t.Fatal(err)
	}
	got := p.Origins(q, o, n)
	for member, want := range map[string]string{
		"profile": "command line", "argv": "command line", "cwd": "request",
		"env.A": "/etc/p.toml:8 profiles.agent.env.set.A", "env.B": "request", "env.C": "command line",
		"seccomp":            "/etc/p.toml:7 profiles.agent.seccomp",
		"limits.memoryBytes": "/etc/p.toml:12 profiles.tight.limits.default.memory",
		"limits.pids":        "/etc/p.toml:12 profiles.tight.limits.default.pids",
		"limits.timeoutMs":   "request",
		"limits.cpuTimeMs":   "timeout × cpus",
		"limits.outputBytes": "command line",
		"limits.tmpBytes":    "the built-in policy:*profiles.default.limits.default.tmp_size, made to fit",
		"limits.ttlMs":       "the built-in policy:*profiles.default.limits.default.ttl",
		"enforce":            "/etc/p.toml:4 limits.enforce",
		"uidRange":           "the built-in policy:*root.uid_range",
		"apparmor":           "the built-in policy:*profiles.default.apparmor",
		"capabilities":       "the built-in policy:*profiles.default.capabilities",
		"tenant":             "default",
	} {
		before, after, any := strings.Cut(want, "*")
		if g := got[member]; !any && g != want || any && !(strings.HasPrefix(g, before) && strings.HasSuffix(g, " "+after)) {
			t.Errorf("%s: %q, want %q", member, g, want)
		}
	}
	// A policy that starts from nothing has what it leaves out from the program, or, of
	// limits, from the built-in policy.
	p, err = Parse("p", []byte("version = 1\n[profiles.default]\ncapabilities = [\"exec\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err = Resolve(p, nil, Overrides{Argv: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	got = p.Origins(nil, Overrides{Argv: []string{"true"}}, n)
	if got["capabilities"] != "p:3 profiles.default.capabilities" || got["seccomp"] != "default" || !strings.HasPrefix(got["limits.pids"], "the built-in policy:") {
		t.Errorf("%v", got)
	}
	// Each member of the plan has an origin.
	for _, f := range limits.Fields() {
		if f.Get(n.Limits) != 0 && got["limits."+f.JSON] == "" {
			t.Errorf("limits.%s has none", f.JSON)
		}
	}
}
