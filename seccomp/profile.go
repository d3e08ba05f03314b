// Package seccomp holds jailer's system call filters as data: it reads a
// profile, checks it against the list of what is never allowed, explains it, and
// writes it in OCI form. It is pure; compiling needs libseccomp and is the
// business of seccomp/bpf.
//
// A profile is a list of rules, each with its reason. Arguments are compared on
// their low 32 bits only, because that is all the kernel looks at where jailer
// filters: flags, families, ioctl requests and pids are int. A filter that
// compared 64 bits would let ioctl(0, 0x1_0000_5412) pass for something else
// than TIOCSTI, and the kernel would still do TIOCSTI (CVE-2019-10063).
package seccomp

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jailer-project/jailer/internal/strictjson"
	"github.com/jailer-project/jailer/profiles"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// Profile is a filter as its file states it. Rules for one system call never
// overlap (Check holds that), so that their order means nothing.
type Profile struct {
	Comment       string                   `json:"comment"`
	DefaultAction specs.LinuxSeccompAction `json:"defaultAction"`
	DefaultErrno  string                   `json:"defaultErrno"`
	BadArchAction specs.LinuxSeccompAction `json:"badArchAction"` // for a foreign ABI; OCI has no word for it
	Because       string                   `json:"because"`       // of the default action
	Rules         []Rule                   `json:"syscalls"`
}

// Rule is one action for calls by name, and for those arguments only that meet
// every one of Args.
type Rule struct {
	Comment string                   `json:"comment"` // what the calls are
	Because string                   `json:"because"` // why they get this action
	Names   []string                 `json:"names"`
	Action  specs.LinuxSeccompAction `json:"action"`
	Errno   string                   `json:"errno,omitempty"`
	Args    []Arg                    `json:"args,omitempty"`

	line int // of the file; 0 where it came from none
}

// Arg is a condition on the low 32 bits of one argument: (arg & Mask) is, or is
// not, one of the values. Exactly one of In32 and NotIn32 is given. The values
// are names (AF_UNIX) or numbers ("0x5412"); Mask is the union of its elements,
// without it all 32 bits count.
type Arg struct {
	Index   uint     `json:"index"`
	Mask    []string `json:"mask,omitempty"`
	In32    []string `json:"in32,omitempty"`
	NotIn32 []string `json:"notIn32,omitempty"`

	mask   uint32
	values []uint32
}

// Bounds of a profile, far above what a sensible one needs.
const (
	MaxBytes    = 256 << 10 // of the file
	maxDepth    = 8
	maxRules    = 512
	maxNames    = 1024 // in one rule
	maxValues   = 64   // in one condition
	maxPatterns = 1024 // that one rule may expand to
)

// Load reads a profile that is built into the program, by name.
func Load(name string) (*Profile, error) {
	if !profileName.MatchString(name) {
		return nil, fmt.Errorf("seccomp profile %q: not a profile name", name)
	}
	data, err := profiles.FS.ReadFile("seccomp/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("seccomp profile %q: not built in", name)
	}
	p, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("seccomp profile %q: %w", name, err)
	}
	return p, nil
}

// Builtin gives the names of the profiles that are built into the program,
// sorted.
func Builtin() []string { return profiles.Seccomp() }

var (
	profileName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	callName    = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,63}$`)
)

// Parse reads a profile strictly. It says whether the document is well formed;
// whether it is safe is for Check. The error names the line.
func Parse(data []byte) (*Profile, error) {
	p := new(Profile)
	if err := strictjson.Decode(data, p, strictjson.Options{MaxBytes: MaxBytes, MaxDepth: maxDepth}); err != nil {
		return nil, err
	}
	lines := strictjson.Lines(data)
	if err := p.parse(); err != nil {
		return nil, located(err, lines)
	}
	for i := range p.Rules {
		p.Rules[i].line = lines[at(i)]
	}
	return p, nil
}

// located adds the line: that of the field, or of the innermost thing around it
// that is there.
func located(err error, lines map[string]int) error {
	e, ok := errors.AsType[*strictjson.Error](err)
	for field := e.Path; ok; field = field[:max(strings.LastIndexAny(field, ".["), 0)] {
		if e.Line = lines[field]; e.Line > 0 || field == "" {
			break
		}
	}
	return err
}

// at is the path of a rule.
func at(rule int) string { return fmt.Sprintf("syscalls[%d]", rule) }

// Place is where a rule is, for errors about it: its line, if the profile came
// from a file, and its path.
func (p *Profile) Place(rule int) string {
	if line := p.Rules[rule].line; line > 0 {
		return fmt.Sprintf("line %d: %s", line, at(rule))
	}
	return at(rule)
}

func (p *Profile) parse() error {
	if err := checkAction("defaultAction", p.DefaultAction, p.DefaultErrno); err != nil {
		return err
	}
	if p.BadArchAction != specs.ActKillProcess {
		return bad("badArchAction", "must be %s", specs.ActKillProcess)
	}
	if len(p.Rules) == 0 || len(p.Rules) > maxRules {
		return bad("syscalls", "must have 1 to %d rules", maxRules)
	}
	for i := range p.Rules {
		if err := p.Rules[i].parse(at(i)); err != nil {
			return err
		}
	}
	return nil
}

func bad(path, format string, a ...any) error {
	return &strictjson.Error{Path: path, Msg: fmt.Sprintf(format, a...)}
}

// checkAction lets three actions through. SCMP_ACT_LOG would allow the call,
// TRACE and NOTIFY hand the decision to a process that may be gone, TRAP to a
// handler of the job's own.
func checkAction(path string, a specs.LinuxSeccompAction, errno string) error {
	switch a {
	case specs.ActErrno:
		if _, ok := errnos[errno]; !ok {
			return bad(path, "action %s needs an errno by name, such as EPERM; got %q", a, errno)
		}
	case specs.ActAllow, specs.ActKillProcess:
		if errno != "" {
			return bad(path, "action %s takes no errno", a)
		}
	default:
		return bad(path, "action %q: want %s, %s or %s", a, specs.ActAllow, specs.ActErrno, specs.ActKillProcess)
	}
	return nil
}

func (r *Rule) parse(path string) error {
	if err := checkAction(path+".action", r.Action, r.Errno); err != nil {
		return err
	}
	if len(r.Names) == 0 || len(r.Names) > maxNames {
		return bad(path+".names", "must have 1 to %d names", maxNames)
	}
	for i, n := range r.Names {
		if !callName.MatchString(n) {
			return bad(fmt.Sprintf("%s.names[%d]", path, i), "%q is not a system call's name", n)
		}
	}
	seen := map[uint]bool{}
	for i := range r.Args {
		at := fmt.Sprintf("%s.args[%d]", path, i)
		if seen[r.Args[i].Index] {
			// libseccomp refuses such a rule; runc and crun would turn it into
			// two rules, and AND into OR.
			return bad(at, "a second condition on argument %d", r.Args[i].Index)
		}
		seen[r.Args[i].Index] = true
		if err := r.Args[i].parse(at); err != nil {
			return err
		}
	}
	if n := r.count(); n > maxPatterns {
		return bad(path, "expands to %d comparisons, more than %d", n, maxPatterns)
	}
	return nil
}

func (a *Arg) parse(path string) error {
	if a.Index > 5 {
		return bad(path+".index", "a system call has arguments 0 to 5")
	}
	a.mask = ^uint32(0)
	if a.Mask != nil {
		a.mask = 0
		for i, s := range a.Mask {
			v, err := value(s)
			if err != nil {
				return bad(fmt.Sprintf("%s.mask[%d]", path, i), "%v", err)
			}
			a.mask |= v
		}
		if a.mask == 0 {
			return bad(path+".mask", "is zero")
		}
	}
	list, name := a.In32, ".in32"
	if a.In32 == nil {
		list, name = a.NotIn32, ".notIn32"
	}
	if (a.In32 == nil) == (a.NotIn32 == nil) || len(list) == 0 || len(list) > maxValues {
		return bad(path, "needs one of in32 and notIn32, with 1 to %d values", maxValues)
	}
	seen := map[uint32]bool{}
	for i, s := range list {
		at := fmt.Sprintf("%s%s[%d]", path, name, i)
		v, err := value(s)
		switch {
		case err != nil:
			return bad(at, "%v", err)
		case v&^a.mask != 0:
			return bad(at, "%s has bits outside the mask", s)
		case seen[v]:
			return bad(at, "%s is there already", s)
		}
		seen[v] = true
		a.values = append(a.values, v)
	}
	return nil
}
