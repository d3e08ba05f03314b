package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/container"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/seccomp"
	"github.com/jailer-project/jailer/seccomp/bpf"
)

func (a *app) seccompCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "seccomp",
		Short: "Say what the system-call filter of a profile allows",
		Args:  noVerb,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.seccompExplainCommand())
	return c
}

type explainFlags struct {
	policy, profile, seccomp string
	json                     bool
}

func (a *app) seccompExplainCommand() *cobra.Command {
	f := &explainFlags{}
	c := &cobra.Command{
		Use:   "explain [flags] [SYSCALL]",
		Short: "Say what the filter answers to a system call, by which rule, and why",
		Long: `Say what the filter of a profile answers to a system call: by which rule, under
which conditions on its arguments, and for which reason. Without a SYSCALL, all
of its rules. SYSCALL is a name or a number of this machine's architecture.

Conditions compare the low 32 bits of an argument, which is all that the kernel
looks at in it.

Exit status: 0 done, whatever the answer; 1 no such system call or profile, or
one that can't be used; 2 usage.`,
		Example: `  jailer seccomp explain ptrace
  jailer seccomp explain openat --seccomp strict
  jailer seccomp explain --profile agent --policy agent.toml`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &usageError{err: fmt.Errorf("takes one system call, %d given", len(args)), command: c.CommandPath()}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			for _, name := range []string{"policy", "profile", "seccomp"} {
				if fl := c.Flags().Lookup(name); fl.Changed && fl.Value.String() == "" {
					return &usageError{err: fmt.Errorf("--%s: empty", name), command: c.CommandPath()}
				}
			}
			if f.profile != "" && f.seccomp != "" {
				return &usageError{err: fmt.Errorf("--profile and --seccomp: choose one"), command: c.CommandPath()}
			}
			return a.explainSeccomp(f, args)
		},
	}
	c.Flags().StringVar(&f.policy, "policy", "", "operator's policy `FILE` (default /etc/jailer/policy.toml, else the built-in one)")
	c.Flags().StringVar(&f.profile, "profile", "", "the filter of profile `NAME` of the policy (default \"default\")")
	c.Flags().StringVar(&f.seccomp, "seccomp", "", "the seccomp profile `NAME`: default, strict, or one of the policy")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON document")
	return c
}

// explanation is the answer, as the document of --json.
type explanation struct {
	V       int           `json:"v"`
	Profile string        `json:"profile,omitempty"` // of the policy; absent with --seccomp
	Seccomp string        `json:"seccomp"`
	Path    string        `json:"path,omitempty"` // of a profile that the policy brings
	Arch    string        `json:"arch"`
	Syscall *syscallName  `json:"syscall,omitempty"`
	Verdict string        `json:"verdict,omitempty"` // of the call: allowed, refused, killed or depends
	Rules   []ruleOf      `json:"rules"`
	Default *seccomp.Line `json:"default,omitempty"` // of the whole profile
	Foreign string        `json:"foreignAbi"`        // what meets calls of another ABI
	about   string        // comment of the profile
}

type syscallName struct {
	Name   string `json:"name,omitempty"`   // absent where nobody knows the number
	Number *int   `json:"number,omitempty"` // absent where this architecture has no such call

	elsewhere bool // another architecture has it
}

type ruleOf struct {
	seccomp.Line
	Names []string `json:"names,omitempty"` // in the whole profile
}

func (a *app) explainSeccomp(f *explainFlags, args []string) error {
	p, err := policy.Load(f.policy)
	if err != nil {
		return err
	}
	e := explanation{V: jailer.ProtocolVersion, Seccomp: f.seccomp, Arch: runtime.GOARCH, Foreign: seccomp.Kill, Rules: []ruleOf{}}
	if f.seccomp == "" {
		e.Profile = f.profile
		if e.Profile == "" {
			e.Profile = policy.DefaultProfile
		}
		if e.Seccomp, err = p.Seccomp(e.Profile); err != nil {
			return err
		}
	}
	profile, err := seccompProfile(p, e.Seccomp)
	if err != nil {
		return err
	}
	e.Path, _ = p.SeccompPath(e.Seccomp)
	e.about = profile.Comment
	if len(args) == 1 {
		if e.Syscall, err = findCall(args[0], profile); err != nil {
			return err
		}
		for _, l := range profile.Explain(e.Syscall.Name) {
			e.Rules = append(e.Rules, ruleOf{Line: l})
		}
		e.Verdict = verdict(e.Rules)
	} else {
		for i, r := range profile.Rules {
			e.Rules = append(e.Rules, ruleOf{profile.Describe(i), r.Names})
		}
		e.Default = &profile.Explain("")[0]
	}
	if f.json {
		return writeJSON(a.out, e)
	}
	_, err = fmt.Fprint(a.out, e.text())
	return err
}

// seccompProfile reads a profile and, in a program that can, compiles it: what a
// run would refuse is refused.
func seccompProfile(p *policy.Policy, name string) (*seccomp.Profile, error) {
	profile, err := launch.SeccompProfile(p, name)
	if err == nil && container.SeccompBuilt {
		_, err = launch.Filter(p, name)
	}
	return profile, err
}

// findCall looks a system call up by its name or number.
func findCall(word string, profile *seccomp.Profile) (*syscallName, error) {
	calls := seccomp.Newer()
	maps.Copy(calls, bpf.Calls(runtime.GOARCH))
	if nr, err := strconv.ParseUint(word, 0, 32); err == nil {
		n := int(nr)
		for name, m := range calls {
			if n == m {
				return &syscallName{Name: name, Number: &n}, nil
			}
		}
		if bpf.Calls(runtime.GOARCH) == nil {
			return nil, noCall(word, "can't be looked up: this jailer was built without libseccomp", "build it with `make build`, or give a name")
		}
		// x32 calls have a bit of their own (asm/unistd.h), and another ABI.
		if nr >= x32Bit {
			return nil, noCall(word, "is no system call's number", "")
		}
		return &syscallName{Number: &n}, nil
	}
	if n, ok := calls[word]; ok {
		return &syscallName{Name: word, Number: &n}, nil
	}
	known := slices.Collect(maps.Keys(calls))
	for _, r := range profile.Rules {
		known = append(known, r.Names...)
	}
	if slices.Contains(known, word) || bpf.Elsewhere(word) {
		return &syscallName{Name: word, elsewhere: bpf.Elsewhere(word)}, nil
	}
	slices.Sort(known)
	hint := "see syscalls(2)"
	if near := seccomp.Close(word, slices.Compact(known)); near != nil {
		hint = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return nil, noCall(word, "there is no such system call", hint)
}

const x32Bit = 1 << 30

func noCall(word, message, hint string) *jailer.Error {
	return &jailer.Error{Code: jailer.CodeNotFound, Op: "seccomp.explain", Path: fmt.Sprintf("%.64q", word), Message: message, Hint: hint}
}

// verdict sums the rules about a call up.
func verdict(rules []ruleOf) string {
	of := map[string]string{seccomp.Allow: "allowed", seccomp.Deny: "refused", seccomp.Kill: "killed"}
	v := of[rules[0].Action]
	for _, r := range rules[1:] {
		if of[r.Action] != v {
			return "depends"
		}
	}
	return v
}
