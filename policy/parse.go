package policy

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
	"github.com/jailer-project/jailer/profiles"
)

// BuiltinName is the name of the built-in policy, in messages and for extends.
const BuiltinName = "builtin"

// Builtin is the built-in policy: profiles/policy/builtin.toml.
func Builtin() *Policy {
	c := *builtin()
	return &c
}

// builtin can fail only when the binary was built from a broken file, which a
// test of this package would have found.
var builtin = sync.OnceValue(func() *Policy {
	data, err := profiles.FS.ReadFile("policy/builtin.toml")
	if err != nil {
		panic(err)
	}
	f, err := decode(BuiltinName, data)
	if err != nil {
		panic(err)
	}
	p, err := compile(BuiltinName, f, nil)
	if err != nil {
		panic(err)
	}
	p.source = &source{name: BuiltinName, data: data, file: f}
	return p
})

// Parse reads a policy; name is for messages. Unknown keys, keys in capitals
// and values out of range are errors, also in profiles that nobody asks for.
// The error is a *jailer.Error with the code invalid_policy.
func Parse(name string, data []byte) (*Policy, error) {
	f, err := decode(name, data)
	if err != nil {
		return nil, located(err, data)
	}
	p, err := compile(name, f, builtin())
	if err != nil {
		return nil, located(err, data)
	}
	p.source = &source{name: name, data: data, file: f}
	if f.Extends != nil {
		p.source.base = builtin().source
	}
	return p, nil
}

func located(err error, data []byte) error {
	if e, ok := errors.AsType[*jailer.Error](err); ok {
		return show(e, data)
	}
	return err
}

var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// compile turns the file into a Policy. base is the built-in policy: what
// extends starts from, and where a limit that is set nowhere comes from. It is
// nil for the built-in policy itself.
func compile(name string, f *file, base *Policy) (*Policy, error) {
	c := compiler{name: name, file: f, base: base, done: map[string]*profile{}}
	p := &Policy{Name: name, Locked: f.Locked, Enforce: EnforceRequired, Events: Events{OnError: SinkFail}, roots: map[string]string{}, filters: map[string]string{}}
	if base != nil {
		p.UIDRange, p.Retention = base.UIDRange, base.Retention
	}
	if f.Extends != nil {
		if *f.Extends != BuiltinName || base == nil {
			return nil, bad(name, "extends", fmt.Sprintf("%q given, want %q", *f.Extends, BuiltinName))
		}
		c.extends = true
		p.Enforce, p.Events = base.Enforce, base.Events
		maps.Copy(c.done, base.profiles)
	}
	if e := f.Limits.Enforce; e != nil {
		if err := oneOf(*e, EnforceRequired, EnforceBestEffort); err != "" {
			return nil, bad(name, "limits.enforce", err)
		}
		p.Enforce = *e
	}
	if r := f.Root.UIDRange; r != nil {
		ids, err := parseUIDRange(*r)
		if err != nil {
			return nil, bad(name, "root.uid_range", err.Error())
		}
		p.UIDRange = ids
	}
	if e := f.Events.Path; e != nil {
		if err := checkPath(e); err != "" {
			return nil, bad(name, "events.path", err)
		}
		p.Events.Path = *e
	}
	if e := f.Events.SinkOnError; e != nil {
		if err := oneOf(*e, SinkFail, SinkLog); err != "" {
			return nil, bad(name, "events.sink_on_error", err)
		}
		p.Events.OnError = *e
	}
	if r := f.Workspaces.Retention; r != nil {
		d, err := limits.ParseDuration(*r)
		if err == nil && d <= 0 {
			err = errors.New("must be positive")
		}
		if err != nil {
			return nil, bad(name, "workspaces.retention", err.Error())
		}
		p.Retention = d
	}
	for _, n := range slices.Sorted(maps.Keys(f.Rootfs)) {
		if err := checkRootfs(n, f.Rootfs[n]); err != "" {
			return nil, bad(name, "rootfs."+n, err)
		}
		p.roots[n] = *f.Rootfs[n].Path
	}
	for _, n := range slices.Sorted(maps.Keys(f.Seccomp)) {
		if err := checkSeccomp(n, f.Seccomp[n]); err != "" {
			return nil, bad(name, "seccomp."+n, err)
		}
		p.filters[n] = *f.Seccomp[n].Path
	}
	for _, n := range slices.Sorted(maps.Keys(f.Profiles)) {
		if !plainName.MatchString(n) {
			return nil, bad(name, "profiles", fmt.Sprintf("%q is no name (a-z 0-9 _ -, at most 63)", n))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(f.Profiles)) {
		if _, err := c.profile(n, nil); err != nil {
			return nil, err
		}
	}
	p.profiles = c.done
	if err := p.access(name, f); err != nil {
		return nil, err
	}
	return p, nil
}

func checkRootfs(name string, t rootfsTable) string {
	switch {
	case !plainName.MatchString(name):
		return "is no name (a-z 0-9 _ -, at most 63)"
	case name == RootfsHost:
		return "the name is taken by the built-in view of the host"
	}
	if err := checkPath(t.Path); err != "" {
		return err
	}
	if *t.Path == "/" {
		return "path \"/\" is the host itself; rootfs = \"host\" is its safe view"
	}
	return ""
}

// checkSeccomp judges the name and the path alone. The file is read when a run,
// or doctor, needs it.
func checkSeccomp(name string, t seccompTable) string {
	switch {
	case !plainName.MatchString(name):
		return "is no name (a-z 0-9 _ -, at most 63)"
	case builtinSeccomp(name):
		return "the name is taken by a built-in profile"
	}
	return checkPath(t.Path)
}

func checkPath(p *string) string {
	switch {
	case p == nil:
		return "path is missing"
	case !path.IsAbs(*p):
		// Relative to what? The working directory of whoever starts jailer.
		return fmt.Sprintf("path %q is not absolute", *p)
	case path.Clean(*p) != *p:
		return fmt.Sprintf("path %q is not clean, want %q", *p, path.Clean(*p))
	case strings.IndexByte(*p, 0) >= 0:
		return "path contains a NUL byte"
	}
	return ""
}

// compiler merges profiles with what they extend, each once.
type compiler struct {
	name    string
	file    *file
	base    *Policy
	extends bool
	done    map[string]*profile // of the built-in policy at first, if it is extended
	own     []string            // names that this file has compiled
}

// profile compiles one profile. path holds the names that led here.
func (c *compiler) profile(name string, via []string) (*profile, error) {
	key := "profiles." + name
	if slices.Contains(via, name) {
		return nil, bad(c.name, "profiles."+via[0]+".extends", "is a cycle: "+strings.Join(append(via, name), " → "))
	}
	t, here := c.file.Profiles[name]
	if p, ok := c.done[name]; ok && (!here || slices.Contains(c.own, name)) {
		return p, nil
	}
	if !here {
		return nil, bad(c.name, "profiles."+via[len(via)-1]+".extends", fmt.Sprintf("there is no profile %q", name))
	}
	p := &profile{
		rootfs: RootfsHost, networks: []string{NetworkNone}, seccomp: "default",
		apparmor: AppArmorAuto, ids: IDsSingle,
		keep: jailer.KeepHead, onLimit: jailer.OnLimitTruncate,
		workspaces: WorkspaceNone, onProtected: ProtectedMark,
	}
	switch parent := t.Extends; {
	case parent != nil && *parent != name:
		from, err := c.profile(*parent, append(via, name))
		if err != nil {
			return nil, err
		}
		*p = *from
	case c.extends && c.base.profiles[name] != nil:
		// The file starts from the built-in policy, so a profile of the same
		// name starts from the built-in one. It may say so itself.
		*p = *c.base.profiles[name]
	case parent != nil:
		return nil, bad(c.name, key+".extends", "is a cycle: "+name+" → "+name)
	}
	if err := c.merge(p, t, key); err != nil {
		return nil, err
	}
	c.done[name] = p
	c.own = append(c.own, name)
	return p, nil
}

// merge lays the keys of t over p, which shares its maps and slices with a
// parent and so replaces them.
func (c *compiler) merge(p *profile, t profileTable, key string) error {
	fail := func(sub, msg string) error { return bad(c.name, key+"."+sub, msg) }
	if r := t.Rootfs; r != nil {
		if _, ok := c.file.Rootfs[*r]; !ok && *r != RootfsHost {
			return fail("rootfs", fmt.Sprintf("there is no rootfs %q (add [rootfs.NAME] with a path)", *r))
		}
		p.rootfs = *r
	}
	if l := t.Capabilities; l != nil {
		if msg := knownOnce(*l, jailer.Capabilities()); msg != "" {
			return fail("capabilities", msg)
		}
		p.capabilities = slices.Sorted(slices.Values(*l))
	}
	if t.Env.Set != nil {
		p.envSet = maps.Clone(p.envSet)
		if p.envSet == nil {
			p.envSet = map[string]string{}
		}
		for _, k := range slices.Sorted(maps.Keys(t.Env.Set)) {
			if msg := jailer.CheckEnv(k, t.Env.Set[k]); msg != "" {
				return fail("env.set", msg)
			}
			p.envSet[k] = t.Env.Set[k]
		}
	}
	if l := t.Env.Allow; l != nil {
		for _, k := range *l {
			if msg := jailer.CheckEnv(k, ""); msg != "" {
				return fail("env.allow", msg)
			}
			if k != "*" && strings.ContainsAny(k, "*?[") {
				return fail("env.allow", fmt.Sprintf("%q: patterns are not supported, only exact names and \"*\" alone", k))
			}
		}
		p.envAllow = slices.Clone(*l)
	}
	if l := t.Network.Modes; l != nil {
		if msg := knownOnce(*l, []string{NetworkNone}); msg != "" {
			return fail("network.modes", msg)
		}
		if len(*l) == 0 {
			return fail("network.modes", "is empty, and a jail needs one (none is a network without anything)")
		}
		p.networks = slices.Clone(*l)
	}
	if s := t.Seccomp; s != nil {
		if _, ok := c.file.Seccomp[*s]; !ok && !builtinSeccomp(*s) {
			return fail("seccomp", fmt.Sprintf("there is no seccomp profile %q (built in: %s; add [seccomp.NAME] with a path)", *s, strings.Join(profiles.Seccomp(), " ")))
		}
		p.seccomp = *s
	}
	for _, e := range []struct {
		key   string
		given *string
		into  *string
		known []string
	}{
		{"apparmor", t.AppArmor, &p.apparmor, []string{AppArmorRequired, AppArmorAuto, AppArmorOff}},
		{"ids", t.IDs, &p.ids, []string{IDsSingle, IDsRange}},
		{"output.keep", t.Output.Keep, &p.keep, []string{jailer.KeepHead, jailer.KeepTail, jailer.KeepBoth}},
		{"workspace.access", t.Workspace.Access, &p.workspaces, []string{WorkspaceNone, WorkspaceRead, WorkspaceWrite}},
		{"export.on_protected", t.Export.OnProtected, &p.onProtected, []string{ProtectedMark, ProtectedRefuse}},
		{"output.on_limit", t.Output.OnLimit, &p.onLimit, []string{jailer.OnLimitTruncate, jailer.OnLimitKill}},
	} {
		if e.given == nil {
			continue
		}
		if msg := oneOf(*e.given, e.known...); msg != "" {
			return fail(e.key, msg)
		}
		*e.into = *e.given
	}
	if l := t.Export.Protected; l != nil {
		for _, name := range *l {
			if msg := checkProtected(name); msg != "" {
				return fail("export.protected", msg)
			}
		}
		p.protected = slices.Clone(*l)
	}
	if t.Exec != nil {
		e, msg := t.Exec.exec()
		if msg != "" {
			return fail("exec", msg)
		}
		p.exec = e
	}
	if l := t.Mounts; l != nil {
		list, i, msg := mounts(*l)
		if msg != "" {
			return fail(fmt.Sprintf("mounts[%d]", i), msg)
		}
		p.mounts = list
	}
	if l := t.Require; l != nil {
		if msg := knownOnce(*l, Requirements()); msg != "" {
			return fail("require", msg)
		}
		p.require = slices.Sorted(slices.Values(*l))
	}
	if sub, msg := mergeLimits(p, t.Limits, c.base); msg != "" {
		return fail("limits"+sub, msg)
	}
	return nil
}

// checkProtected judges a protected name: elements of a path, at any depth.
func checkProtected(name string) string {
	switch {
	case name == "" || len(name) > 255:
		return fmt.Sprintf("%.40q: want 1 to 255 bytes", name)
	case strings.ContainsAny(name, "\x00*?[\\"):
		return fmt.Sprintf("%q: patterns are not supported, only names", name)
	case path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../"):
		return fmt.Sprintf("%q is not a clean relative path", name)
	}
	return ""
}

// builtinSeccomp says whether the program has a seccomp profile of that name.
func builtinSeccomp(name string) bool { return slices.Contains(profiles.Seccomp(), name) }

// mergeLimits lays the two tables over p. A limit that is set nowhere is the
// built-in one, so that no policy leaves a limit open. It returns the key and
// what is wrong with it.
func mergeLimits(p *profile, t limitTables, base *Policy) (key, msg string) {
	if base != nil {
		from := base.profiles[DefaultProfile]
		fill(&p.defaults, from.defaults)
		if p.max.CPUs == 0 && !p.maxHostCPUs {
			p.max.CPUs, p.maxHostCPUs = from.max.CPUs, from.maxHostCPUs
		}
		fill(&p.max, from.max)
	}
	given, maxima := t.Default.byName(), t.Max.byName()
	for _, f := range limits.Fields() {
		if v := given[f.Name]; v != nil {
			n, err := limitValue(f, v)
			if err != "" {
				return ".default." + f.Name, err
			}
			f.Set(&p.defaults, n)
		}
		v := maxima[f.Name]
		if f.Name == "cpus" && v == "host" {
			p.max.CPUs, p.maxHostCPUs = 0, true
			continue
		}
		if v != nil {
			n, err := limitValue(f, v)
			if err != "" {
				return ".max." + f.Name, err
			}
			f.Set(&p.max, n)
			if f.Name == "cpus" {
				p.maxHostCPUs = false
			}
		}
	}
	for _, f := range limits.Fields() {
		d, m := f.Get(p.defaults), f.Get(p.max)
		if f.Optional() {
			if _, ok := f.Narrow(d, 0, m); !ok {
				return ".max." + f.Name, fmt.Sprintf("is below the default of %s (give limits.max.%s too)", f.Format(d), f.Name)
			}
			continue
		}
		if d == 0 && m == 0 && f.Name != "cpu_time" && (f.Name != "cpus" || !p.maxHostCPUs) {
			return ".default." + f.Name, "is missing"
		}
		if m != 0 && d > m {
			return ".max." + f.Name, fmt.Sprintf("%s is below the default of %s (lower limits.default.%s too)", f.Format(m), f.Format(d), f.Name)
		}
	}
	if p.defaults.Memory < minMemory {
		return ".default.memory", fmt.Sprintf("%s given, a jail needs at least %s", limits.FormatSize(p.defaults.Memory), limits.FormatSize(minMemory))
	}
	return mergeCPUSet(p, t)
}

func mergeCPUSet(p *profile, t limitTables) (key, msg string) {
	for _, c := range []struct {
		key   string
		given *string
		into  *limits.CPUSet
	}{{".default.cpuset", t.Default.CPUSet, &p.cpuset}, {".max.cpuset", t.Max.CPUSet, &p.maxCPUSet}} {
		if c.given == nil {
			continue
		}
		set, err := limits.ParseCPUSet(*c.given)
		if err != nil {
			return c.key, err.Error()
		}
		*c.into = set
	}
	if p.cpuset != "" && p.maxCPUSet != "" && !p.cpuset.Within(p.maxCPUSet) {
		return ".max.cpuset", fmt.Sprintf("%s does not hold the default of %s", p.maxCPUSet, p.cpuset)
	}
	return "", ""
}

// fill sets the fields of l that are not given. Swap is not among them: a policy
// that says nothing of it grants none.
func fill(l *limits.Limits, from limits.Limits) {
	for _, f := range limits.Fields() {
		if f.Get(*l) == 0 && !f.Optional() {
			f.Set(l, f.Get(from))
		}
	}
}

// limitValue reads one value of a limit table. Counts and CPUs may be written
// as numbers; everything else has a unit and is a string.
func limitValue(f limits.Field, v any) (int64, string) {
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case int64:
		if f.Kind != limits.KindCount && f.Kind != limits.KindCPUs {
			return 0, fmt.Sprintf("%d given, want a string with a unit", v)
		}
		s = strconv.FormatInt(v, 10)
	case float64:
		if f.Kind != limits.KindCPUs {
			return 0, "a fraction given, want a whole number"
		}
		s = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return 0, "want a string or a number"
	}
	n, err := f.Parse(s)
	if err != nil {
		return 0, err.Error()
	}
	return n, ""
}

func oneOf(s string, known ...string) string {
	if slices.Contains(known, s) {
		return ""
	}
	return fmt.Sprintf("%q given, want one of: %s", s, strings.Join(known, " "))
}

func knownOnce(list, known []string) string {
	for i, s := range list {
		if !slices.Contains(known, s) {
			return fmt.Sprintf("%q is unknown (known: %s)", s, strings.Join(known, " "))
		}
		if slices.Contains(list[:i], s) {
			return fmt.Sprintf("%q is given twice", s)
		}
	}
	return ""
}
