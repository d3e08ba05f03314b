package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
)

// with makes a policy whose one profile has these limits.
func with(t *testing.T, head, tables string) (*Policy, error) {
	t.Helper()
	return Parse("test.toml", []byte("version = 1\n"+head+"[profiles.default]\ncapabilities = [\"exec\"]\nlimits = { "+tables+" }\n"))
}

func must(t *testing.T, head, tables string) *Policy {
	t.Helper()
	p, err := with(t, head, tables)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// refusal wants an error with this code and word.
func refusal(t *testing.T, err error, code jailer.Code, word string) {
	t.Helper()
	if e, ok := errors.AsType[*jailer.Error](err); !ok || e.Code != code || !strings.Contains(e.Error(), word) {
		t.Errorf("%v, want %s with %q", err, code, word)
	}
}

const builtinHead = "extends = \"builtin\"\n"

// TestOptional: where nothing is said there is no swap, and no bound on IO; a
// ceiling binds those who ask for nothing too.
func TestOptional(t *testing.T) {
	argv := Overrides{Argv: []string{"true"}}
	plain, built := must(t, "", ""), must(t, builtinHead, "")
	for _, p := range []*Policy{plain, built} {
		n, err := Resolve(p, nil, argv)
		if err != nil || n.Limits.Swap != 0 || n.Limits.IORead != 0 || n.Limits.IOWrite != 0 || n.CPUSet != "" {
			t.Errorf("%+v, %v", n, err)
		}
	}
	ask := func(p *Policy, l limits.Limits) (*Plan, error) {
		o := argv
		o.Limits = l
		return Resolve(p, nil, o)
	}
	if n, err := ask(built, limits.Limits{Swap: 1 << 30, IORead: 5 << 40}); err != nil || n.Limits.Swap != 1<<30 || n.Limits.IORead != 5<<40 {
		t.Errorf("%v, %v", n, err)
	}
	_, err := ask(plain, limits.Limits{Swap: 4096})
	refusal(t, err, jailer.CodePolicyDenied, "limits.swap")

	bound := must(t, "", `default = { io_write = "1M" }, max = { io_read = "10M", io_write = "20M", swap = "1G" }`)
	n, err := ask(bound, limits.Limits{})
	if err != nil || n.Limits.IORead != 10<<20 || n.Limits.IOWrite != 1<<20 || n.Limits.Swap != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	_, err = ask(bound, limits.Limits{IORead: 11 << 20})
	refusal(t, err, jailer.CodePolicyDenied, "ceiling is 10M")
	if _, err := ask(bound, limits.Limits{Swap: 1 << 30, IOWrite: 20 << 20}); err != nil {
		t.Error(err)
	}
	_, err = with(t, "", `default = { swap = "1G" }`)
	refusal(t, err, jailer.CodeInvalidPolicy, "limits.max.swap")
	_, err = with(t, "", `default = { io_read = "2M" }, max = { io_read = "1M" }`)
	refusal(t, err, jailer.CodeInvalidPolicy, "limits.max.io_read")
}

func TestCPUSet(t *testing.T) {
	ask := func(p *Policy, set string) (limits.CPUSet, error) {
		n, err := Resolve(p, nil, Overrides{Argv: []string{"true"}, CPUSet: set})
		if err != nil {
			return "", err
		}
		return n.CPUSet, nil
	}
	for _, c := range []struct {
		tables, asked string
		want          limits.CPUSet
	}{
		{"", "", ""},
		{"", "1,0", "0-1"},
		{`default = { cpuset = "2" }`, "", "2"},
		{`default = { cpuset = "2" }`, "3", "3"},
		{`max = { cpuset = "0-3" }`, "", "0-3"},
		{`max = { cpuset = "0-3" }`, "3", "3"},
		{`default = { cpuset = "1" }, max = { cpuset = "0-3" }`, "", "1"},
	} {
		if got, err := ask(must(t, "", c.tables), c.asked); err != nil || got != c.want {
			t.Errorf("%s, asked %q: %q, %v, want %q", c.tables, c.asked, got, err, c.want)
		}
	}
	_, err := ask(must(t, "", `max = { cpuset = "0-3" }`), "3-4")
	refusal(t, err, jailer.CodePolicyDenied, "3-4 asked, the ceiling is 0-3")
	_, err = ask(must(t, "", ""), "x")
	refusal(t, err, jailer.CodeInvalidRequest, "not a list of CPUs")
	_, err = with(t, "", `default = { cpuset = "4" }, max = { cpuset = "0-3" }`)
	refusal(t, err, jailer.CodeInvalidPolicy, "limits.max.cpuset")
	_, err = with(t, "", `max = { cpuset = "" }`)
	refusal(t, err, jailer.CodeInvalidPolicy, "limits.max.cpuset")
	// A profile that extends another is bound by what it does not say itself.
	p, err := Parse("test.toml", []byte(`version = 1
[profiles.base]
capabilities = ["exec"]
limits = { max = { cpuset = "0-1", io_read = "1M" } }
[profiles.default]
extends = "base"
`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = ask(p, "2")
	refusal(t, err, jailer.CodePolicyDenied, "ceiling is 0-1")
	_, err = Resolve(p, &jailer.Request{Argv: []string{"true"}, Limits: jailer.RequestLimits{CPUSet: "0"}}, Overrides{CPUSet: "0"})
	refusal(t, err, jailer.CodeInvalidRequest, "given both")
}
