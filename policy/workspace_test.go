package policy

import (
	"slices"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
)

func profileWith(t *testing.T, keys string) *Policy {
	t.Helper()
	p, err := Parse("test.toml", []byte("version = 1\n[profiles.default]\ncapabilities = [\"exec\"]\n"+keys+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A persistent workspace is what the profile makes of it, and its tenant the run's.
func TestWorkspace(t *testing.T) {
	ask := func(p *Policy, r jailer.Request) (*Plan, error) {
		r.Argv = []string{"true"}
		return Resolve(p, &r, Overrides{})
	}
	write := profileWith(t, `workspace = { access = "write" }`)
	n, err := ask(write, jailer.Request{Workspace: "acme/site.1"})
	if err != nil || *n.Workspace != (Workspace{Name: "acme/site.1"}) || n.Tenant != "acme" {
		t.Errorf("%+v %v", n, err)
	}
	if n, err = ask(profileWith(t, `workspace = { access = "read" }`), jailer.Request{Workspace: "acme/x", Tenant: "acme"}); err != nil || !n.Workspace.ReadOnly {
		t.Errorf("%+v %v", n, err)
	}
	if n, err = ask(write, jailer.Request{}); err != nil || n.Workspace != nil {
		t.Errorf("%+v %v", n, err)
	}
	_, err = ask(profileWith(t, ""), jailer.Request{Workspace: "acme/x"})
	refusal(t, err, jailer.CodePolicyDenied, "workspace.access")
	_, err = ask(write, jailer.Request{Workspace: "acme/x", Tenant: "other"})
	refusal(t, err, jailer.CodeInvalidRequest, `tenant "acme"'s`)
	_, err = ask(profileWith(t, "ids = \"range\"\nworkspace = { access = \"write\" }"), jailer.Request{Workspace: "acme/x"})
	refusal(t, err, jailer.CodePolicyDenied, "range")
	_, err = Resolve(write, &jailer.Request{Argv: []string{"true"}, Workspace: "a/b"}, Overrides{Workspace: "a/b"})
	refusal(t, err, jailer.CodeInvalidRequest, "both")
}

// It is no tmpfs, and so not part of the memory; the others still are.
func TestWorkspaceSize(t *testing.T) {
	p := profileWith(t, `workspace = { access = "write" }`)
	for _, c := range []struct {
		given, want limits.Limits
	}{
		{limits.Limits{}, limits.Limits{Workspace: 256 << 20, TmpSize: 64 << 20}},
		{limits.Limits{Memory: 1 << 20}, limits.Limits{Workspace: 256 << 20, TmpSize: 172032}},
		{limits.Limits{Workspace: 8 << 30}, limits.Limits{Workspace: 8 << 30, TmpSize: 64 << 20}},
	} {
		n, err := Resolve(p, nil, Overrides{Argv: []string{"true"}, Workspace: "a/b", Limits: c.given})
		if err != nil || n.Limits.Workspace != c.want.Workspace || n.Limits.TmpSize != c.want.TmpSize {
			t.Errorf("%+v: %+v %v", c.given, n, err)
		}
	}
	_, err := Resolve(p, nil, Overrides{Argv: []string{"true"}, Workspace: "a/b", Limits: limits.Limits{TmpSize: 512 << 20}})
	refusal(t, err, jailer.CodeInvalidRequest, "half of memory")
}

// A command in a session has the session's workspace, and can't have another.
func TestWorkspaceOfSession(t *testing.T) {
	p := profileWith(t, `workspace = { access = "write" }`)
	s, err := Resolve(p, nil, Overrides{Session: true, Workspace: "a/b"})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := ResolveExec(p, s, nil, Overrides{Argv: []string{"true"}, Workspace: "a/b"}); err != nil || n.Workspace == nil {
		t.Errorf("%+v %v", n, err)
	}
	_, err = ResolveExec(p, s, nil, Overrides{Argv: []string{"true"}, Workspace: "a/c"})
	refusal(t, err, jailer.CodeInvalidRequest, "the session's")
}

func TestProtected(t *testing.T) {
	p := profileWith(t, `export = { protected = [".envrc", ".git/hooks"], on_protected = "refuse" }`)
	n, err := Resolve(p, nil, Overrides{Argv: []string{"true"}})
	if err != nil || !slices.Equal(n.Protected, []string{".envrc", ".git/hooks"}) || n.OnProtected != ProtectedRefuse {
		t.Errorf("%+v %v", n, err)
	}
	for _, bad := range []string{`""`, `"/etc"`, `"../x"`, `"a/"`, `"*.sh"`, `"."`, `"a//b"`} {
		_, err := Parse("test.toml", []byte("version = 1\n[profiles.default]\ncapabilities = [\"exec\"]\nexport = { protected = ["+bad+"] }\n"))
		refusal(t, err, jailer.CodeInvalidPolicy, "export.protected")
	}
}
