package policy

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
)

// defaultCwd is where a command starts unless it says otherwise.
const defaultCwd = "/workspace"

// Resolve makes the plan of a run from the policy, a request (nil is an empty
// one) and the command line. The plan is never wider than the profile: what
// goes over a ceiling is refused, not cut. Errors are *jailer.Error with the
// code invalid_request for what is wrong by itself and policy_denied for what
// the policy doesn't grant.
//
// Resolve is pure. Nothing of the caller's environment enters the plan.
func Resolve(p *Policy, r *jailer.Request, o Overrides) (*Plan, error) {
	if r == nil {
		r = new(jailer.Request)
	}
	q, given, err := combine(r, o)
	if err != nil {
		return nil, err
	}
	if err := command(q, o.Session); err != nil {
		return nil, err
	}
	name := q.Profile
	if name == "" {
		name = DefaultProfile
	}
	f := p.profiles[name]
	if f == nil {
		return nil, noProfile(p, name)
	}

	n := &Plan{
		Profile: name, Tenant: q.Tenant, Labels: maps.Clone(q.Labels), TraceParent: q.TraceParent,
		Argv: slices.Clone(q.Argv), Cwd: defaultCwd,
		Enforce: p.Enforce, IDs: f.ids, UIDRange: p.UIDRange,
		Seccomp: f.seccomp, SeccompPath: p.filters[f.seccomp], AppArmor: f.apparmor, Network: f.networks[0],
		Require:    slices.Clone(f.require),
		OutputKeep: f.keep, OnOutputLimit: f.onLimit,
		Mounts:    slices.Clone(f.mounts),
		Exec:      f.exec,
		Protected: slices.Clone(f.protected), OnProtected: f.onProtected,
	}
	if n.Workspace, err = workspace(p, f, q); err != nil {
		return nil, err
	}
	if n.Workspace != nil {
		n.Tenant, _, _ = jailer.ParseWorkspace(n.Workspace.Name)
	}
	if q.Cwd != "" {
		n.Cwd = path.Clean(q.Cwd)
	}
	if q.OutputKeep != "" {
		n.OutputKeep = q.OutputKeep
	}
	if n.OnOutputLimit, err = onOutputLimit(p, f, q.OnOutputLimit); err != nil {
		return nil, err
	}
	if o.AppArmorRequired {
		n.AppArmor = AppArmorRequired
	}
	if n.Capabilities, err = grant(p, f, q.Capabilities); err != nil {
		return nil, err
	}
	if n.Files, n.Directories, err = files(p, f, q, n.Capabilities); err != nil {
		return nil, err
	}
	if n.Env, err = environ(p, f, q.Env); err != nil {
		return nil, err
	}
	if n.Rootfs, err = p.rootfs(f, o.Rootfs); err != nil {
		return nil, err
	}
	if n.Limits, err = f.limit(p, given, o.HostCPUs, n.Workspace != nil); err != nil {
		return nil, err
	}
	if n.CPUSet, err = f.cpus(p, q.Limits.CPUSet); err != nil {
		return nil, err
	}
	n.HasStdin = q.Stdin != nil
	if n.Stdin, err = q.StdinData(); err != nil {
		return nil, err
	}
	return n, nil
}

// command refuses a run without a command, and a session with one.
func command(q *jailer.Request, session bool) error {
	switch {
	case !session && len(q.Argv) == 0:
		e := refuse("argv", "no command given")
		e.Hint = "put it after --"
		return e
	case session && len(q.Argv) > 0:
		e := refuse("argv", "a session has no command of its own")
		e.Hint = "create it, then `jailer exec ID -- CMD [ARG…]`"
		return e
	case session && q.Stdin != nil:
		return refuse("stdin", "a session reads nothing; a command in it may")
	}
	return nil
}

// workspace is the persistent workspace that was asked for, with what the profile lets
// it be used for.
func workspace(p *Policy, f *profile, q *jailer.Request) (*Workspace, error) {
	if q.Workspace == "" {
		return nil, nil
	}
	tenant, _, err := jailer.ParseWorkspace(q.Workspace)
	switch {
	case err != nil:
		return nil, err
	case q.Tenant != "" && q.Tenant != tenant:
		return nil, refuse("workspace", fmt.Sprintf("is tenant %q's, and the tenant is %q", tenant, q.Tenant))
	case f.workspaces == WorkspaceNone:
		return nil, deny(p, "workspace", "the profile has no persistent workspaces (workspace.access)")
	case f.ids == IDsRange:
		return nil, deny(p, "workspace", `the profile has ids = "range", and the files of a persistent workspace are one user's`)
	}
	return &Workspace{Name: q.Workspace, ReadOnly: f.workspaces == WorkspaceRead}, nil
}

// onOutputLimit: kill is the narrower of the two, so a profile that kills can't
// be asked to let the flood go on.
func onOutputLimit(p *Policy, f *profile, asked string) (string, error) {
	if asked == "" {
		return f.onLimit, nil
	}
	if asked == jailer.OnLimitTruncate && f.onLimit == jailer.OnLimitKill {
		return "", deny(p, "onOutputLimit", "truncate asked, and the profile says kill")
	}
	return asked, nil
}

// grant narrows the profile's capabilities to what was asked for. A run needs
// exec, whatever else there is.
func grant(p *Policy, f *profile, asked []string) ([]string, error) {
	granted := f.capabilities
	if asked != nil {
		for _, c := range asked {
			if !slices.Contains(f.capabilities, c) {
				return nil, deny(p, "capabilities", fmt.Sprintf("%q is not granted by the profile", c))
			}
		}
		granted = slices.Compact(slices.Sorted(slices.Values(asked)))
	}
	if !slices.Contains(granted, jailer.CapExec) {
		if slices.Contains(f.capabilities, jailer.CapExec) {
			return nil, deny(p, "capabilities", `a run needs "exec", which was not asked for`)
		}
		return nil, deny(p, "capabilities", `a run needs "exec", which the profile does not grant`)
	}
	return slices.Clone(granted), nil
}

// environ is the policy's own variables and those that were asked for and are
// allowed. "*" allows every name but those that the policy sets itself: to
// change these, they must be in the list by name.
func environ(p *Policy, f *profile, asked map[string]string) ([]string, error) {
	vars := map[string]string{}
	maps.Copy(vars, f.envSet)
	for _, k := range slices.Sorted(maps.Keys(asked)) {
		_, set := f.envSet[k]
		if !slices.Contains(f.envAllow, k) && (set || !slices.Contains(f.envAllow, "*")) {
			return nil, deny(p, "env", fmt.Sprintf("%.64q is not allowed by the profile", k))
		}
		vars[k] = asked[k]
	}
	env := make([]string, 0, len(vars))
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, k+"="+vars[k])
	}
	return env, nil
}

// Roots are the [rootfs.NAME] tables: name to absolute path.
func (p *Policy) Roots() map[string]string { return maps.Clone(p.roots) }

func (p *Policy) rootfs(f *profile, asked string) (Rootfs, error) {
	name := f.rootfs
	if asked != "" && asked != name {
		dir, ok := p.roots[asked]
		if !ok && asked != RootfsHost {
			return Rootfs{}, deny(p, "rootfs", fmt.Sprintf("there is no rootfs %.64q", asked))
		}
		if name != RootfsHost || dir == "" {
			return Rootfs{}, deny(p, "rootfs", fmt.Sprintf("%q asked, and the profile says %q", asked, name))
		}
		name = asked
	}
	return Rootfs{Name: name, Path: p.roots[name]}, nil
}

// limit fills in the defaults, and refuses what goes over a ceiling.
func (f *profile) limit(p *Policy, given limits.Limits, hostCPUs int, persistent bool) (limits.Limits, error) {
	ceiling := f.ceiling(hostCPUs)
	l := given
	for _, x := range limits.Fields() {
		top, asked := x.Get(ceiling), x.Get(given)
		v, ok := x.Narrow(asked, x.Get(f.defaults), top)
		if !ok {
			return l, deny(p, "limits."+x.Name, fmt.Sprintf("%s asked, the ceiling is %s", x.Format(asked), x.Format(top)))
		}
		x.Set(&l, v)
	}
	if l.Memory < minMemory {
		return l, refuse("limits.memory", fmt.Sprintf("%s given, a jail needs at least %s", limits.FormatSize(l.Memory), limits.FormatSize(minMemory)))
	}
	if l.Swap > math.MaxInt64-l.Memory {
		return l, refuse("limits.swap", fmt.Sprintf("%s of swap and %s of memory are together more bytes than the kernel counts (8E less one)",
			limits.FormatSize(l.Swap), limits.FormatSize(l.Memory)))
	}
	if l.CPUTime == 0 {
		l.CPUTime = min(l.CPUs.Time(l.Timeout), ceiling.CPUTime)
	}
	fit := fitTmpfs
	if persistent {
		fit = fitTmp
	}
	if msg := fit(&l, given); msg != "" {
		return l, refuse("limits", msg)
	}
	return l, nil
}

// cpus is the set of CPUs: "" where neither request nor profile names one.
func (f *profile) cpus(p *Policy, asked string) (limits.CPUSet, error) {
	if asked == "" {
		return cmp.Or(f.cpuset, f.maxCPUSet), nil
	}
	set, err := limits.ParseCPUSet(asked)
	if err != nil {
		return "", refuse("limits.cpuset", err.Error())
	}
	if f.maxCPUSet != "" && !set.Within(f.maxCPUSet) {
		return "", deny(p, "limits.cpuset", fmt.Sprintf("%s asked, the ceiling is %s", set, f.maxCPUSet))
	}
	return set, nil
}

// ceiling is the profile's, with what depends on the host and on other ceilings.
func (f *profile) ceiling(hostCPUs int) limits.Limits {
	c := f.max
	if f.maxHostCPUs {
		c.CPUs = limits.CPUs(1000 * min(max(hostCPUs, 1), int(limits.MaxCPUs)/1000))
	}
	if c.CPUTime == 0 {
		c.CPUTime = c.CPUs.Time(c.Timeout)
	}
	return c
}
