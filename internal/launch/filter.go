package launch

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/seccomp"
	"github.com/jailer-project/jailer/seccomp/bpf"
	"github.com/jailer-project/jailer/seccomp/compiled"
)

// loadFilter gets the code that PID 1 will load. That of the built-in profiles
// was compiled at build time; a profile of the policy's is read and compiled for
// each run. There is no cache: whoever could write to it would choose the filter.
func (j *Jail) loadFilter() error {
	filter, err := Filter(j.o.Policy, j.plan.Seccomp)
	if err != nil {
		return err
	}
	j.filter = filter
	return nil
}

// Filter is the compiled filter of a seccomp profile, built in or named by the
// policy, as a run would load it. The error is a *jailer.Error.
func Filter(p *policy.Policy, name string) ([]byte, error) {
	if path, _ := p.SeccompPath(name); path == "" {
		code, err := compiled.Filter(name)
		if err != nil {
			return nil, damaged("the embedded seccomp filter", err)
		}
		return code, nil
	}
	profile, err := SeccompProfile(p, name)
	if err != nil {
		return nil, err
	}
	code, err := bpf.Compile(profile, runtime.GOARCH)
	if err != nil {
		return nil, badProfile(p, name, err)
	}
	return code, nil
}

// SeccompProfile reads a seccomp profile, built in or named by the policy, and
// refuses one that may not be used. The error is a *jailer.Error that names the
// line.
func SeccompProfile(p *policy.Policy, name string) (*seccomp.Profile, error) {
	path, ok := p.SeccompPath(name)
	switch {
	case !ok:
		return nil, &jailer.Error{
			Code: jailer.CodeInvalidPolicy, Op: "policy.seccomp", Reason: "seccomp.profile", Path: p.Name,
			Message: fmt.Sprintf("there is no seccomp profile %.64q", name), Hint: "add [seccomp.NAME] with a path to the policy",
		}
	case path == "":
		profile, err := seccomp.Load(name)
		if err != nil {
			return nil, damaged("the embedded seccomp profile", err)
		}
		return profile, nil
	}
	data, err := p.ReadFile(path, seccomp.MaxBytes)
	if err != nil {
		e := asError(err)
		e.Op, e.Reason = "policy.seccomp", "seccomp.profile"
		e.Hint = cmp.Or(e.Hint, fmt.Sprintf("the policy names it in [seccomp.%s]", name))
		return nil, e
	}
	profile, err := seccomp.Parse(data)
	if err == nil {
		err = profile.Check()
	}
	if err == nil {
		err = startable(profile)
	}
	if err != nil {
		return nil, badProfile(p, name, err)
	}
	return profile, nil
}

// startable: the filter is on when PID 1's child becomes the command.
func startable(p *seccomp.Profile) error {
	if lines := p.Explain("execve"); len(lines) != 1 || lines[0].Action != seccomp.Allow {
		return errors.New("execve: must be allowed, whatever its arguments, or no command can start")
	}
	return nil
}

func badProfile(p *policy.Policy, name string, err error) error {
	path, _ := p.SeccompPath(name)
	return &jailer.Error{
		Code: jailer.CodeInvalidPolicy, Op: "policy.seccomp", Reason: "seccomp.profile", Path: path, Err: err,
		Hint: "mend the profile; `jailer policy validate` tries it without a run",
	}
}

// withFilter adds the filter in OCI form, which a run doesn't need: PID 1 loads
// what was compiled from the same profile.
func (j *Jail) withFilter() error {
	p, err := SeccompProfile(j.o.Policy, j.plan.Seccomp)
	if err != nil {
		return err
	}
	j.spec.Linux.Seccomp, err = p.ToOCI(runtime.GOARCH)
	return err
}
