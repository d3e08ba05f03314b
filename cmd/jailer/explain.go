package main

import (
	"fmt"
	"strings"

	"github.com/jailer-project/jailer/seccomp"
)

// text is an explanation for people.
func (e *explanation) text() string {
	var b strings.Builder
	from := "built in"
	if e.Path != "" {
		from = printable(e.Path)
	}
	in := fmt.Sprintf("seccomp profile %s (%s)", printable(e.Seccomp), from)
	if e.Profile != "" {
		in += fmt.Sprintf(", of profile %s", printable(e.Profile))
	}
	if e.Syscall != nil {
		fmt.Fprintf(&b, "%s: %s\n%s\n", e.Syscall, verdictText[e.Verdict], in)
		for _, r := range e.Rules {
			b.WriteString("\n" + r.text())
		}
		return b.String()
	}
	fmt.Fprintf(&b, "%s\n", in)
	wrap(&b, "", e.about)
	for _, r := range e.Rules {
		b.WriteByte('\n')
		wrap(&b, "", strings.Join(r.Names, " "))
		b.WriteString(r.text())
	}
	fmt.Fprintf(&b, "\nevery other call\n%s", ruleOf{Line: *e.Default}.text())
	fmt.Fprintf(&b, "\ncalls of another ABI (32-bit, x32)\n  kill the process\n")
	return b.String()
}

var verdictText = map[string]string{
	"allowed": "allowed", "refused": "refused", "killed": "kills the process", "depends": "depends on its arguments",
}

// String is "ptrace (call 101)".
func (s *syscallName) String() string {
	switch {
	case s.elsewhere:
		return s.Name + " (not a call of this architecture)"
	case s.Number == nil:
		return s.Name
	case s.Name == "":
		return fmt.Sprintf("call %d", *s.Number)
	}
	return fmt.Sprintf("%s (call %d)", s.Name, *s.Number)
}

// text is the action and its condition, and below it what the rule is and why.
func (r ruleOf) text() string {
	var b strings.Builder
	action := "kills the process"
	switch r.Action {
	case seccomp.Allow:
		action = "allowed"
	case seccomp.Deny:
		action = "fails with " + r.Errno
		if r.Errno == "ENOSYS" {
			action += ", as if the kernel had no such call"
		}
	}
	if r.When != "" {
		action += " where " + r.When
	}
	wrap(&b, "  ", action)
	place := r.Rule
	if r.Line.Line > 0 {
		place += fmt.Sprintf(", line %d", r.Line.Line)
	}
	wrap(&b, "    ", fmt.Sprintf("%s (%s)", r.Comment, place))
	wrap(&b, "    ", "because: "+r.Because)
	return b.String()
}

// wrap writes text in lines of at most 80 columns, each after indent.
func wrap(b *strings.Builder, indent, text string) {
	column := 0
	for word := range strings.FieldsSeq(printable(text)) {
		switch {
		case column == 0:
			b.WriteString(indent)
			column = len(indent)
		case column+1+len(word) > 80:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteByte('\n')
}
