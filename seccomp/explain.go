package seccomp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Verdict is what a profile says about one call.
type Verdict struct {
	Action specs.LinuxSeccompAction
	Errno  uint // with SCMP_ACT_ERRNO
}

// Evaluate says what the profile answers to a call by name with the given
// arguments, on the native architecture. It reads the rules as they are written,
// and not by way of their expansion: tests hold the compiled filter to it.
func (p *Profile) Evaluate(name string, args [6]uint64) Verdict {
	for i := range p.Rules {
		r := &p.Rules[i]
		if slices.Contains(r.Names, name) && r.matches(args) {
			return Verdict{r.Action, errnos[r.Errno]}
		}
	}
	return Verdict{p.DefaultAction, errnos[p.DefaultErrno]}
}

func (r *Rule) matches(args [6]uint64) bool {
	for i := range r.Args {
		a := &r.Args[i]
		if slices.Contains(a.values, uint32(args[a.Index])&a.mask) != (a.In32 != nil) {
			return false
		}
	}
	return true
}

// Actions of a Line.
const (
	Allow = "allow"
	Deny  = "errno"
	Kill  = "kill"
)

// Line is one rule about a call, for people. "default" as the rule is the
// profile's default action, which meets what no rule names.
type Line struct {
	Rule    string `json:"rule"` // its place in the file, as syscalls[3], or "default"
	Line    int    `json:"line,omitempty"`
	Action  string `json:"action"`          // Allow, Deny or Kill
	Errno   string `json:"errno,omitempty"` // with Deny
	When    string `json:"when,omitempty"`  // the condition on the arguments; "" when they do not matter
	Args    []Cond `json:"args,omitempty"`  // the same, for programs
	Comment string `json:"comment"`         // what the calls of the rule are
	Because string `json:"because"`         // why they get this action
}

// Cond is one condition of a rule: (argument & Mask), on its low 32 bits, is, or
// is not, one of the values.
type Cond struct {
	Arg
	Name string `json:"name,omitempty"` // of the argument, in the call's manual page
}

// DefaultRule is the Rule of a Line that no rule is behind.
const DefaultRule = "default"

// Explain gives the rules that are about a call, or the default action with its
// reason where there is none. The rules of a call don't overlap (Check), and what
// none of them meets gets the default action, which is then the last line.
func (p *Profile) Explain(syscall string) []Line {
	var lines []Line
	whole := false // one of the rules meets every call
	for i := range p.Rules {
		r := &p.Rules[i]
		if !slices.Contains(r.Names, syscall) {
			continue
		}
		lines = append(lines, r.explain(i, syscall))
		whole = whole || len(r.Args) == 0
	}
	def := Line{
		Rule: DefaultRule, Action: actionText(p.DefaultAction), Errno: p.DefaultErrno,
		Comment: "no rule names this call", Because: p.Because,
	}
	switch {
	case lines == nil:
		lines = append(lines, def)
	case !whole && !p.covers(syscall):
		def.Comment, def.When = "no rule has these arguments", "none of these conditions holds"
		lines = append(lines, def)
	}
	return lines
}

// covers says whether the rules of a call meet all of its arguments. They don't
// overlap, so that the parts of all argument vectors that their patterns make up
// can be added: a pattern with n fixed bits is one in 2ⁿ.
func (p *Profile) covers(syscall string) bool {
	left := map[int]int{} // fixed bits to number of patterns
	for i := range p.Rules {
		if r := &p.Rules[i]; slices.Contains(r.Names, syscall) {
			for _, pat := range r.patterns() {
				left[pat.fixed()]++
			}
		}
	}
	for n := 6 * 32; n > 0; n-- {
		if left[n]%2 != 0 {
			return false
		}
		left[n-1] += left[n] / 2
	}
	return left[0] > 0
}

// Describe is one rule as Explain gives it, with its arguments named as those of
// its first call.
func (p *Profile) Describe(i int) Line { return p.Rules[i].explain(i, p.Rules[i].Names[0]) }

func (r *Rule) explain(i int, syscall string) Line {
	l := Line{
		Rule: at(i), Line: r.line, Action: actionText(r.Action), Errno: r.Errno,
		Comment: r.Comment, Because: r.Because,
	}
	var when []string
	for j := range r.Args {
		a := &r.Args[j]
		l.Args = append(l.Args, Cond{*a, argumentName(syscall, a.Index)})
		when = append(when, a.text(argumentLabel(syscall, a.Index)))
	}
	l.When = strings.Join(when, " and ")
	return l
}

func actionText(a specs.LinuxSeccompAction) string {
	switch a {
	case specs.ActAllow:
		return Allow
	case specs.ActErrno:
		return Deny
	case specs.ActKillProcess:
		return Kill
	}
	return string(a) // Parse lets no other through
}

// text gives the condition as a person would write it.
func (a *Arg) text(name string) string {
	if a.Mask != nil {
		mask := strings.Join(a.Mask, "|")
		if len(a.Mask) > 1 {
			mask = "(" + mask + ")"
		}
		name += " & " + mask
	}
	list, is := a.In32, "is"
	if a.In32 == nil {
		list, is = a.NotIn32, "is not"
	}
	if len(list) > 1 {
		if is == "is" {
			is = "is one of"
		} else {
			is = "is none of"
		}
	}
	return fmt.Sprintf("%s %s %s", name, is, strings.Join(list, ", "))
}
