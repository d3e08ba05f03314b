package seccomp

import (
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		profile, call string
		want          []string // action, errno and condition of each line
	}{
		{"default", "bpf", []string{"errno EPERM "}},
		{"default", "clone3", []string{"errno ENOSYS "}},
		{"default", "read", []string{"allow  "}},
		{"default", "prlimit64", []string{"allow  pid is not 1", "errno EPERM pid is 1"}},
		{"default", "mknodat", []string{"allow  mode & S_IFMT is one of 0, S_IFREG, S_IFIFO, S_IFSOCK", "errno EPERM mode & S_IFMT is none of 0, S_IFREG, S_IFIFO, S_IFSOCK"}},
		{"default", "not_invented_yet", []string{"errno ENOSYS "}},
		{"strict", "socket", []string{"allow  domain is AF_UNIX", "errno EPERM domain is not AF_UNIX"}},
		{"strict", "fchmod", []string{"allow  mode & S_IXUGO is 0", "errno EPERM mode & S_IXUGO is not 0"}},
		{"strict", "openat", []string{
			"allow  flags & (O_CREAT|__O_TMPFILE) is 0",
			"allow  flags & (O_CREAT|__O_TMPFILE) is not 0 and mode & S_IXUGO is 0",
			"errno EPERM flags & (O_CREAT|__O_TMPFILE) is not 0 and mode & S_IXUGO is not 0",
		}},
	} {
		t.Run(c.profile+" "+c.call, func(t *testing.T) {
			got := loadNamed(t, c.profile).Explain(c.call)
			var text []string
			for _, l := range got {
				text = append(text, strings.Join([]string{l.Action, l.Errno, l.When}, " "))
				if l.Because == "" || l.Comment == "" || (l.Rule == DefaultRule) != (l.Line == 0) {
					t.Errorf("%+v", l)
				}
			}
			if strings.Join(text, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(text, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestExplainIsComplete: what the rules of a call leave open gets the default
// action, and Explain says so; those of the built-in profiles leave nothing.
func TestExplainIsComplete(t *testing.T) {
	for _, name := range Builtin() {
		p := loadNamed(t, name)
		for _, r := range p.Rules {
			for _, call := range r.Names {
				for _, l := range p.Explain(call) {
					if l.Rule == DefaultRule {
						t.Errorf("%s: the rules of %s leave arguments to the default action", name, call)
					}
					for _, a := range l.Args {
						if a.Name == "" {
							t.Errorf("%s: argument %d of %s has no name", name, a.Index, call)
						}
					}
				}
			}
		}
	}
	for _, c := range []struct {
		args string
		open bool
	}{
		{`{"index":0,"in32":["1"]}`, true},
		{`{"index":0,"mask":["1"],"in32":["1"]}`, true},
		{`{"index":0,"mask":["1"],"in32":["0","1"]}`, false},
		{`{"index":0,"notIn32":["1"]}`, true},
		{`{"index":0,"mask":["3"],"in32":["0","1","2","3"]},{"index":1,"mask":["0x80000000"],"in32":["0","0x80000000"]}`, false},
		{`{"index":0,"mask":["3"],"in32":["0","1","2","3"]},{"index":1,"mask":["0x80000000"],"in32":["0"]}`, true},
	} {
		p, err := Parse([]byte(doc(rule("read", "SCMP_ACT_ALLOW", `,"args":[`+c.args+`]`))))
		if err != nil {
			t.Fatal(err)
		}
		lines := p.Explain("read")
		last := lines[len(lines)-1]
		if (last.Rule == DefaultRule) != c.open || last.Action == Deny && last.Errno != "ENOSYS" {
			t.Errorf("%s: %+v, open %t", c.args, last, c.open)
		}
	}
}
