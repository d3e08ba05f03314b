package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/jailer-project/jailer/internal/jailpath"
)

// A Rule says what waits for an approval. It has one of the three.
type Rule struct {
	Argv         []string // a program, and words after it, in this order
	Paths        []string // that a verb writes
	Capabilities []string // that an operation uses
}

// An Action is what is compared with the rules.
type Action struct {
	Capabilities []string // that it uses
	Argv         []string // of a command; nil for none
	Paths        []string // that it writes: of the jail, or relative to the workspace
	AnyPath      bool     // it writes, and where is not known beforehand
}

// NeedsApproval gives the number of the first rule, from 0, that an action falls under.
func (p *Policy) NeedsApproval(a Action) (rule int, ok bool) {
	for i, r := range p.Access.Rules {
		if r.matches(a) {
			return i, true
		}
	}
	return 0, false
}

// PathRules says whether there is a rule on paths.
func (p *Policy) PathRules() bool {
	return slices.ContainsFunc(p.Access.Rules, func(r Rule) bool { return r.Paths != nil })
}

func (r Rule) matches(a Action) bool {
	switch {
	case r.Argv != nil:
		return matchArgv(r.Argv, a.Argv)
	case r.Paths != nil:
		return a.AnyPath || slices.ContainsFunc(a.Paths, func(p string) bool {
			return slices.ContainsFunc(r.Paths, func(pattern string) bool { return matchPath(pattern, p) })
		})
	}
	return slices.ContainsFunc(r.Capabilities, func(c string) bool { return slices.Contains(a.Capabilities, c) })
}

// matchArgv compares words, never a shell's text. It errs towards asking: a program is
// known by the last part of its path, wherever that leads; the words after it may have
// any others between them; each word of a wrapper is taken for the program that it may
// run; and a shell counts as anything, as does an interpreter that is given code as an
// argument or on its standard input.
func matchArgv(rule, argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	name := path.Base(argv[0])
	if matchWords(rule, name, argv[1:]) || hides(name, argv[1:]) {
		return true
	}
	if !is(wrappers, name) && !isLoader(name) {
		return false
	}
	looks := 0
	for i, w := range argv[1:] {
		// env -S takes one word apart into many, with escapes of its own; others do it
		// at spaces.
		if strings.ContainsFunc(w, unicode.IsSpace) || strings.HasPrefix(w, "--s") ||
			strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "S") {
			return true
		}
		// Which word is the program, the wrapper's own options say, and they differ from
		// one to the next. That of an option may be in its word: --exec=git.
		_, value, _ := strings.Cut(w, "=")
		for _, w := range []string{path.Base(w), path.Base(value)} {
			if !begins(rule, w) && !is(interpreters, w) && !is(shells, w) && !is(runners, w) {
				continue
			}
			if looks++; looks > maxLooks || matchWords(rule, w, argv[i+2:]) || hides(w, argv[i+2:]) {
				return true
			}
		}
	}
	return false
}

// maxLooks bounds the programs within a program that are looked at with all their
// arguments: these may be a megabyte of a stranger's. More of them count as hidden.
const maxLooks = 64

// begins says whether a program may be the rule's.
func begins(rule []string, name string) bool {
	program := path.Base(rule[0])
	return name == program || len(rule) > 1 && strings.HasPrefix(name, program+"-")
}

// matchWords says whether a program and its arguments are the rule's. git-push is git
// push, too.
func matchWords(rule []string, name string, args []string) bool {
	joined := path.Base(rule[0])
	for i := 1; ; i++ {
		if name == joined && inOrder(rule[i:], args) {
			return true
		}
		if i == len(rule) {
			return false
		}
		joined += "-" + rule[i]
	}
}

// inOrder says whether all words are there, in their order. One in an option or a
// setting counts: -c alias.p=push.
func inOrder(words, args []string) bool {
	for _, a := range args {
		if len(words) == 0 {
			break
		}
		w := words[0]
		if a == w || strings.Contains(a, w) && (strings.HasPrefix(a, "-") || strings.Contains(a, "=")) {
			words = words[1:]
		}
	}
	return len(words) == 0
}

var (
	shells = words("sh ash bash dash zsh ksh ksh93 mksh lksh oksh pdksh yash fish csh tcsh rc es elvish nu pwsh xonsh " +
		"rbash rksh rzsh")

	// Each takes what it runs, or a part of it, from elsewhere than its own words.
	runners = words("xargs parallel find make gmake ninja script expect awk gawk mawk nawk original-awk ed sed vi vim ex emacs " +
		"ssh su runuser sudo doas at batch crontab watch entr eval source command exec builtin tmux screen")

	// Each runs what its words name.
	wrappers = words("env nice nohup timeout setsid stdbuf ionice chrt taskset time setarch linux32 linux64 i386 x86_64 uname26 " +
		"busybox toybox unshare nsenter setpriv capsh chroot prlimit flock strace ltrace gdb valgrind perf faketime fakeroot " +
		"unbuffer pkexec systemd-run systemd-inhibit dbus-run-session xvfb-run rlwrap softlimit chpst choom coresched catchsegv " +
		"proot bwrap firejail tini dumb-init catatonit sshpass torsocks proxychains cgexec numactl hyperfine direnv")

	interpreters = words("python pypy perl ruby node nodejs deno bun lua luajit php tclsh wish guile racket rscript julia java jshell " +
		"groovy erl elixir ghc runghc ocaml scheme clisp sbcl r octave gdbserver sqlite psql mysql")
)

func words(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

// is says whether a name, or it without its version (python3.12), is in the set.
func is(set map[string]bool, name string) bool {
	return set[name] || set[strings.TrimRight(name, "0123456789.-")]
}

// isLoader: the dynamic loader runs the program that its words name.
func isLoader(name string) bool {
	return strings.HasPrefix(name, "ld-") || strings.HasPrefix(name, "ld.so")
}

// hides says whether a program may run what its words don't show.
func hides(name string, args []string) bool {
	switch {
	case is(shells, name), is(runners, name):
		return true
	case !is(interpreters, name):
		return false
	}
	script := false
	for _, a := range args {
		switch {
		case a == "-":
			return true
		case !strings.HasPrefix(a, "-"):
			script = true
		case strings.HasPrefix(a, "--e"), strings.HasPrefix(a, "--p"), strings.HasPrefix(a, "--c"), strings.HasPrefix(a, "--r"):
			return true // --eval, --print, --command, --run, --require
		case !strings.HasPrefix(a, "--") && strings.ContainsAny(a, "ceEprRMmx"):
			return true // -c, -e, -ne, -r, -m
		}
	}
	return !script
}

// checkPattern judges a pattern of a paths rule.
func checkPattern(p string) error {
	if path.Clean(p) != p || p == "." || p == "/" || slices.Contains(strings.Split(p, "/"), "..") || strings.IndexByte(p, 0) >= 0 {
		return fmt.Errorf("paths: %q is no clean path below a directory", p)
	}
	if _, err := path.Match(p, ""); err != nil {
		return errors.New("paths: " + fmt.Sprintf("%q: %v", p, err))
	}
	return nil
}

// matchPath says whether a pattern names a path, something above it, or something below
// it, which goes when the path does. A pattern that doesn't begin with / may begin at
// any directory, as a name of export.protected; * and ? stand for what is within one.
func matchPath(pattern, p string) bool {
	if !path.IsAbs(p) {
		p = jailpath.Workspace + "/" + p
	}
	if slices.Contains(strings.Split(p, "/"), "..") {
		return true // refused later on; where it leads is not for us to say
	}
	have := strings.Split(strings.TrimPrefix(path.Clean(p), "/"), "/")
	want := strings.Split(strings.TrimPrefix(pattern, "/"), "/")
	if path.IsAbs(pattern) {
		return along(want, have)
	}
	for i := range have {
		if along(want, have[i:]) {
			return true
		}
	}
	return path.Clean(p) == jailpath.Workspace || len(have) == 0 // all of it
}

// along compares what both have.
func along(want, have []string) bool {
	for i := range min(len(want), len(have)) {
		if ok, err := path.Match(want[i], have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
