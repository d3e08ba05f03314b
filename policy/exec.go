package policy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
)

// ofSession are the limits that a session has as a whole; its commands have none of
// their own.
var ofSession = map[string]bool{
	"ttl": true, "idle": true, "workspace": true, "workspace_inodes": true, "tmp_size": true, "tmp_inodes": true, "file": true,
}

// byClock are the limits of a command that start anew with each: the session's are
// defaults, and the profile's ceilings hold. In every other one a command may ask for
// less than its session has, never for more.
var byClock = map[string]bool{"timeout": true, "cpu_time": true, "output": true}

// ResolveExec makes the plan of a command in a session whose plan is s. It is never
// wider than the profile, nor, but for its clocks and its output, than the session.
// Errors are those of Resolve.
func ResolveExec(p *Policy, s *Plan, r *jailer.Request, o Overrides) (*Plan, error) {
	if r == nil {
		r = new(jailer.Request)
	}
	q, given, err := combine(r, o)
	if err != nil {
		return nil, err
	}
	if err := command(q, false); err != nil {
		return nil, err
	}
	if err := sessionOwns(s, q, o, given); err != nil {
		return nil, err
	}
	f := p.profiles[s.Profile]
	if f == nil {
		return nil, noProfile(p, s.Profile)
	}
	n := new(Plan)
	*n = *s
	n.Labels, n.Require = maps.Clone(s.Labels), slices.Clone(s.Require)
	n.Argv, n.TraceParent = slices.Clone(q.Argv), q.TraceParent
	if q.Cwd != "" {
		n.Cwd = path.Clean(q.Cwd)
	}
	if q.OutputKeep != "" {
		n.OutputKeep = q.OutputKeep
	}
	if n.OnOutputLimit, err = onOutputLimit(p, &profile{onLimit: s.OnOutputLimit}, q.OnOutputLimit); err != nil {
		return nil, err
	}
	if n.Capabilities, err = grant(p, &profile{capabilities: s.Capabilities}, q.Capabilities); err != nil {
		return nil, err
	}
	if n.Env, err = f.more(p, s.Env, q.Env); err != nil {
		return nil, err
	}
	if n.Limits, err = f.within(p, s.Limits, given, o.HostCPUs); err != nil {
		return nil, err
	}
	if o.Service && given.Timeout == 0 {
		n.Limits.Timeout = n.Limits.TTL
	}
	if o.Service && given.CPUTime == 0 {
		n.Limits.CPUTime = n.Limits.CPUs.Time(n.Limits.Timeout)
	}
	if q.Limits.CPUSet != "" {
		if n.CPUSet, err = (&profile{maxCPUSet: s.CPUSet}).cpus(p, q.Limits.CPUSet); err != nil {
			return nil, err
		}
	}
	n.HasStdin = q.Stdin != nil
	if n.Stdin, err = q.StdinData(); err != nil {
		return nil, err
	}
	return n, nil
}

// sessionOwns refuses what was settled when the session was made.
func sessionOwns(s *Plan, q *jailer.Request, o Overrides, given limits.Limits) error {
	for _, x := range []struct {
		field string
		other bool
	}{
		{"profile", q.Profile != "" && q.Profile != s.Profile},
		{"tenant", q.Tenant != "" && q.Tenant != s.Tenant},
		{"labels", len(q.Labels) > 0},
		{"workspace", q.Workspace != "" && (s.Workspace == nil || q.Workspace != s.Workspace.Name)},
		{firstFile(q), firstFile(q) != ""},
		{"rootfs", o.Rootfs != "" && o.Rootfs != s.Rootfs.Name},
	} {
		if x.other {
			return settled(x.field)
		}
	}
	for _, x := range limits.Fields() {
		if ofSession[x.Name] && x.Get(given) != 0 {
			return settled("limits." + x.JSON)
		}
	}
	return nil
}

func settled(field string) *jailer.Error {
	e := refuse(field, "is the session's, and was settled when it was created")
	e.Hint = "leave it out, or create another session"
	return e
}

// more are the session's variables, and over them the command's.
func (f *profile) more(p *Policy, session []string, asked map[string]string) ([]string, error) {
	own, err := environ(p, &profile{envSet: f.envSet, envAllow: f.envAllow}, asked)
	if err != nil {
		return nil, err
	}
	vars := map[string]string{}
	for _, kv := range session {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	for _, kv := range own {
		k, v, _ := strings.Cut(kv, "=")
		if _, named := asked[k]; named {
			vars[k] = v
		}
	}
	env := make([]string, 0, len(vars))
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, k+"="+vars[k])
	}
	return env, nil
}

// within fills in the session's limits, and refuses more than they allow.
func (f *profile) within(p *Policy, s, given limits.Limits, hostCPUs int) (limits.Limits, error) {
	ceiling, l := f.ceiling(hostCPUs), s
	for _, x := range limits.Fields() {
		asked, top, whose := x.Get(given), x.Get(s), "the session has"
		if byClock[x.Name] {
			top, whose = x.Get(ceiling), "the ceiling is"
		}
		v, ok := x.Narrow(asked, x.Get(s), top)
		if !ok {
			return l, deny(p, "limits."+x.Name, fmt.Sprintf("%s asked, %s %s", x.Format(asked), whose, x.Format(top)))
		}
		x.Set(&l, v)
	}
	if l.Memory < minMemory {
		return l, refuse("limits.memory", fmt.Sprintf("%s given, a jail needs at least %s", limits.FormatSize(l.Memory), limits.FormatSize(minMemory)))
	}
	if given.CPUTime == 0 && (given.Timeout != 0 || given.CPUs != 0) {
		l.CPUTime = min(l.CPUs.Time(l.Timeout), ceiling.CPUTime)
	}
	return l, nil
}
