package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
)

// Overrides is what the command line sets beside a request; a zero field is
// not given. It narrows as a request does. A field that both set is an error,
// so that nobody has to know which one wins; variables and labels are fields
// each of their own.
type Overrides struct {
	Profile string
	Tenant  string
	Labels  map[string]string
	// TraceParent is that of the caller's environment. It is inherited, not said, so
	// that the request's goes before it.
	TraceParent string
	Argv        []string
	Env         map[string]string
	Cwd         string

	Workspace string // persistent, TENANT/RESOURCE

	// Rootfs is a name from the policy. A profile on the host's view may be
	// moved to a directory that the policy names; a profile on a directory
	// stays there.
	Rootfs string

	Limits           limits.Limits
	CPUSet           string
	AppArmorRequired bool
	Capabilities     []string // nil: not given
	OutputKeep       string
	OnOutputLimit    string
	Stdin            bool // stdin comes from the command line

	// Session: the plan is of a session, which has no command of its own.
	Session bool
	// Service: nobody waits for the command (ResolveExec alone). Its clocks are the
	// session's, unless they are given.
	Service bool

	// HostCPUs is the number of CPUs of this host, the ceiling where the
	// policy says cpus = "host"; 0 counts as 1. It is here since Resolve asks
	// the host nothing.
	HostCPUs int
}

// combine lays o over r and checks the outcome. given says which limits were
// given by either.
func combine(r *jailer.Request, o Overrides) (q *jailer.Request, given limits.Limits, err error) {
	c := *r
	for _, s := range []struct {
		field string
		into  *string
		flag  string
	}{
		{"profile", &c.Profile, o.Profile},
		{"tenant", &c.Tenant, o.Tenant},
		{"cwd", &c.Cwd, o.Cwd},
		{"workspace", &c.Workspace, o.Workspace},
		{"outputKeep", &c.OutputKeep, o.OutputKeep},
		{"onOutputLimit", &c.OnOutputLimit, o.OnOutputLimit},
		{"limits.cpuset", &c.Limits.CPUSet, o.CPUSet},
	} {
		if s.flag == "" {
			continue
		}
		if *s.into != "" {
			return nil, given, both(s.field)
		}
		*s.into = s.flag
	}
	c.TraceParent = cmp.Or(c.TraceParent, o.TraceParent)
	if len(o.Argv) > 0 { // a command line without a command has an empty one
		if c.Argv != nil {
			return nil, given, both("argv")
		}
		c.Argv = o.Argv
	}
	if o.Capabilities != nil {
		if c.Capabilities != nil {
			return nil, given, both("capabilities")
		}
		c.Capabilities = o.Capabilities
	}
	if o.Stdin && c.Stdin != nil {
		return nil, given, both("stdin")
	}
	for _, m := range []struct {
		field string
		into  *map[string]string
		flag  map[string]string
	}{{"labels", &c.Labels, o.Labels}, {"env", &c.Env, o.Env}} {
		if len(m.flag) == 0 {
			continue
		}
		*m.into = maps.Clone(*m.into)
		if *m.into == nil {
			*m.into = map[string]string{}
		}
		for _, k := range slices.Sorted(maps.Keys(m.flag)) {
			if _, ok := (*m.into)[k]; ok {
				return nil, given, both(fmt.Sprintf("%s.%.64q", m.field, k))
			}
			(*m.into)[k] = m.flag[k]
		}
	}
	if err := c.Check(); err != nil {
		return nil, given, err
	}

	if given, err = c.Limits.Limits(); err != nil {
		return nil, given, err
	}
	if err := o.Limits.Check(); err != nil {
		return nil, given, refuse("limits", err.Error())
	}
	for _, f := range limits.Fields() {
		v := f.Get(o.Limits)
		if v == 0 {
			continue
		}
		if f.Get(given) != 0 {
			return nil, given, both("limits." + f.JSON)
		}
		f.Set(&given, v)
	}
	return &c, given, nil
}

func both(field string) *jailer.Error {
	return refuse(field, "given both on the command line and in the request")
}

// refuse is for what is wrong by itself, deny for what the policy doesn't grant.
func refuse(field, msg string) *jailer.Error {
	return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "policy.resolve", Path: field, Message: msg}
}

func deny(p *Policy, field, msg string) *jailer.Error {
	return &jailer.Error{
		Code: jailer.CodePolicyDenied, Op: "policy.resolve", Path: field, Message: msg,
		Hint: fmt.Sprintf("the policy is %s", p.where()),
	}
}

func noProfile(p *Policy, name string) *jailer.Error {
	return deny(p, "profile", fmt.Sprintf("there is no profile %q", name))
}

func (p *Policy) where() string {
	if p.Name == BuiltinName {
		return "the built-in one (jailer policy show)"
	}
	return p.Name
}
