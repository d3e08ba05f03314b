package policy

import (
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
)

func TestArgvRules(t *testing.T) {
	push := []string{"git", "push"}
	for _, c := range []struct {
		argv string // words at |
		want bool
	}{
		{"git|push", true},
		{"git|push|origin|main", true},
		{"/usr/bin/git|push", true},
		{"./git|push", true},
		{"../usr/bin/git|push", true},
		{"/usr/bin/../bin//git|push", true},
		{"/proc/1/root/usr/bin/git|push", true},
		{"git|-C|/workspace/x|push", true},
		{"git|--no-pager|-c|a.b=c|push|--force", true},
		{"git|-c|alias.p=push|p", true},
		{"git|-calias.p=push|p", true},
		{"git-push|origin", true},
		{"/usr/lib/git-core/git-push", true},
		{"env|git|push", true},
		{"/usr/bin/env|git|push", true},
		{"env|-i|A=b|/usr/bin/git|push", true},
		{"env|-S|git push", true},
		{"env|-Sgit\\_push", true},
		{"env|-vSgit\\_push", true},
		{"env|--split-string=git\\_push", true},
		{"nice|-n|5|git|push", true},
		{"timeout|5|nice|env|git|push", true},
		{"timeout|--signal|KILL|5|git-push", true},
		{"xargs|git", true},
		{"xargs", true},
		{"find|.|-exec|git|push|;", true},
		{"sh|-c|git push", true},
		{"sh|-c|g=gi; ${g}t pu\"\"sh", true},
		{"bash|script", true},
		{"env|sh", true},
		{"nohup|setsid|bash|-c|id", true},
		{"busybox|sh", true},
		{"busybox|env|git|push", true},
		{"/lib64/ld-linux-x86-64.so.2|/usr/bin/git|push", true},
		{"python3|-c|import os", true},
		{"python3.12|-c|import os", true},
		{"python3|-W|ignore|-c|import os", true},
		{"python3|-Wignore|-Ic|import os", true},
		{"python3", true},
		{"python3|-", true},
		{"perl|-ne|exec", true},
		{"node|--eval|x", true},
		{"env|-u|python3|perl", true},
		{"awk|BEGIN{system(\"git push\")}", true},
		{"time|git|push", true},
		{"flock|/tmp/l|git|push", true},

		{"git|status", false},
		{"git|log", false},
		{"git|commit|-m|push it", false}, // no word, nor an option
		{"ls|git|push", false},
		{"echo|sh", false},
		{"git|", false},
		{"gitk|push", false},
		{"env|git|status", false},
		{"python3|/workspace/x.py", false}, // what a program does, no rule on words can tell
		{"timeout|5|make-something", false},
		{"env|A=b|ls", false},
	} {
		argv := strings.Split(c.argv, "|")
		if got := matchArgv(push, argv); got != c.want {
			t.Errorf("%q: %v, want %v", argv, got, c.want)
		}
	}
	if matchArgv(push, nil) {
		t.Error("no command matches")
	}
	if !matchArgv([]string{"/usr/bin/curl"}, []string{"curl"}) || matchArgv([]string{"curl"}, []string{"curl-config"}) {
		t.Error("a rule of one word is its program and no other")
	}
}

// TestArgvRuleIsBounded: words are a stranger's, and many.
func TestArgvRuleIsBounded(t *testing.T) {
	for _, w := range []string{"git", "python3", "x"} {
		argv := []string{"env"}
		for range 300_000 {
			argv = append(argv, w)
		}
		matchArgv([]string{"git", "push", "x", "y"}, argv) // quadratic, it would take minutes
	}
}

func TestPathRules(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{".git/hooks", ".git/hooks/pre-commit", true},
		{".git/hooks", "/workspace/.git/hooks/pre-commit", true},
		{".git/hooks", "a/b/.git/hooks/x", true},
		{".git/hooks", "a/./b/../.git/hooks/x", true},
		{".git/hooks", ".git", true}, // it is in there
		{".git/hooks", "a/.git", true},
		{".git/hooks", ".", true},
		{".git/hooks", "/workspace", true},
		{".git/hooks", ".git/config", false},
		{".envrc", "x/.envrc", true},
		{".envrc", "x/envrc", false},
		{"*.service", "u/a.service", true},
		{"/workspace/deploy", "deploy/x", true},
		{"/workspace/deploy", "a/deploy/x", false},
		{"/workspace/deploy", "/workspace", true},
		{"/tmp/x", "/tmp/x", true},
		{"/tmp/x", "x", false},
	} {
		if got := matchPath(c.pattern, c.path); got != c.want {
			t.Errorf("%s and %s: %v, want %v", c.pattern, c.path, got, c.want)
		}
	}
}

func TestNeedsApproval(t *testing.T) {
	p, err := Parse("p", []byte(`
version = 1
extends = "builtin"
[approve]
rules = [{ argv = ["git", "push"] }, { paths = [".git/hooks"] }, { capabilities = ["export"] }]
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a    Action
		rule int
	}{
		{Action{Argv: []string{"git", "push"}, Capabilities: []string{jailer.CapExec}}, 0},
		{Action{Paths: []string{".git/hooks/x"}, Capabilities: []string{jailer.CapFSWrite}}, 1},
		{Action{AnyPath: true, Capabilities: []string{jailer.CapImport}}, 1},
		{Action{Capabilities: []string{jailer.CapExport}}, 2},
		{Action{Argv: []string{"ls"}, Paths: []string{"x"}, Capabilities: []string{jailer.CapExec}}, -1},
	} {
		rule, ok := p.NeedsApproval(c.a)
		if ok != (c.rule >= 0) || ok && rule != c.rule {
			t.Errorf("%+v: rule %d, %v", c.a, rule, ok)
		}
	}
}

func FuzzRules(f *testing.F) {
	f.Add("git\npush", "env\n-S\ngit push", ".git/*", "a/../.git/x")
	f.Fuzz(func(t *testing.T, rule, argv, pattern, name string) {
		r, a := strings.Split(rule, "\n"), strings.Split(argv, "\n")
		got := matchArgv(r, a)
		if whole := append([]string{"/usr/bin/env", "nice"}, a...); got && !matchArgv(r, whole) {
			t.Errorf("%q is asked for, and not within wrappers", a)
		}
		if matchArgv(r, r) != (r[0] != "") && checkPattern(r[0]) == nil {
			t.Errorf("rule %q doesn't match itself", r)
		}
		if checkPattern(pattern) == nil {
			matchPath(pattern, name)
			if !strings.ContainsAny(pattern, `*?[\`) && !matchPath(pattern, pattern) {
				t.Errorf("%q doesn't match itself", pattern)
			}
		}
	})
}
