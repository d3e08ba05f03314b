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

// Line is one rule about a call, for people.
type Line struct {
	Action  string // allow, errno EPERM, kill-process
	Args    string // "" when the arguments do not matter
	Comment string
	Because string
}

// Explain gives the rules that are about a call, or the default action with its
// reason where there is none.
func (p *Profile) Explain(syscall string) []Line {
	var lines []Line
	for i := range p.Rules {
		r := &p.Rules[i]
		if !slices.Contains(r.Names, syscall) {
			continue
		}
		var conds []string
		for j := range r.Args {
			conds = append(conds, r.Args[j].String())
		}
		lines = append(lines, Line{actionText(r.Action, r.Errno), strings.Join(conds, ", "), r.Comment, r.Because})
	}
	if lines == nil {
		lines = []Line{{actionText(p.DefaultAction, p.DefaultErrno), "", "no rule names this call", p.Because}}
	}
	return lines
}

func actionText(a specs.LinuxSeccompAction, errno string) string {
	s := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(string(a), "SCMP_ACT_")), "_", "-")
	return strings.TrimSpace(s + " " + errno)
}

// String gives the condition as a person would write it.
func (a *Arg) String() string {
	s := fmt.Sprintf("arg %d", a.Index)
	if a.Mask != nil {
		s += " & (" + strings.Join(a.Mask, "|") + ")"
	}
	if a.In32 != nil {
		return s + " in {" + strings.Join(a.In32, ", ") + "}"
	}
	return s + " not in {" + strings.Join(a.NotIn32, ", ") + "}"
}
