package policy

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
)

// source is the text that a policy came from.
type source struct {
	name string
	data []byte
	file *file
	base *source // what extends = "builtin" starts from
}

// at says where a path stands, "" where it doesn't.
func (s *source) at(path string) string {
	spot, ok := locate(s.data, path, true)
	if !ok || spot.depth < len(elements(path)) {
		return ""
	}
	name := s.name
	if name == BuiltinName {
		name = "the built-in policy"
	}
	return fmt.Sprintf("%s:%d", name, 1+bytes.Count(s.data[:spot.from], []byte("\n")))
}

// key finds where a profile has a key from: its own table, that of a profile that it
// extends, or the built-in one.
func (s *source) key(profile, key string) string {
	for seen := map[string]bool{}; s != nil && !seen[profile]; {
		seen[profile] = true
		if at := s.at("profiles." + profile + "." + key); at != "" {
			return at + " profiles." + profile + "." + key
		}
		t, here := s.file.Profiles[profile]
		switch {
		case here && t.Extends != nil && *t.Extends != profile:
			profile = *t.Extends
			delete(seen, profile)
			if _, there := s.file.Profiles[profile]; !there {
				s = s.base
			}
		default: // the built-in one of that name
			s = s.base
			delete(seen, profile)
		}
	}
	return ""
}

// Origins says of each value of a plan where it comes from: "request", "command line", a
// line of the policy, or "default" for what the program does where nobody says anything.
// Its keys are the members of the plan's document.
func (p *Policy) Origins(q *jailer.Request, o Overrides, n *Plan) map[string]string {
	if q == nil {
		q = new(jailer.Request)
	}
	out := map[string]string{}
	asked := func(member string, byRequest, byFlag bool) bool {
		switch {
		case byRequest && byFlag:
			out[member] = "request, command line"
		case byRequest:
			out[member] = "request"
		case byFlag:
			out[member] = "command line"
		}
		return byRequest || byFlag
	}
	said := func(member, key string) {
		if out[member] = "default"; p.source != nil {
			if at := p.source.key(n.Profile, key); at != "" {
				out[member] = at
			}
		}
	}
	top := func(member, path string) {
		out[member] = "default"
		for s := p.source; s != nil; s = s.base {
			if at := s.at(path); at != "" {
				out[member] = at + " " + path
				return
			}
		}
	}
	for _, m := range []struct {
		member           string
		byRequest, bFlag bool
		key              string
	}{
		{"profile", q.Profile != "", o.Profile != "", ""},
		{"tenant", q.Tenant != "" || q.Workspace != "", o.Tenant != "" || o.Workspace != "", ""},
		{"labels", len(q.Labels) > 0, len(o.Labels) > 0, ""},
		{"traceparent", q.TraceParent != "", false, ""},
		{"argv", q.Argv != nil, len(o.Argv) > 0, ""},
		{"cwd", q.Cwd != "", o.Cwd != "", ""},
		{"rootfs", false, o.Rootfs != "", "rootfs"},
		{"capabilities", q.Capabilities != nil, o.Capabilities != nil, "capabilities"},
		{"outputKeep", q.OutputKeep != "", o.OutputKeep != "", "output.keep"},
		{"onOutputLimit", q.OnOutputLimit != "", o.OnOutputLimit != "", "output.on_limit"},
		{"workspace", q.Workspace != "", o.Workspace != "", ""},
		{"apparmor", false, o.AppArmorRequired, "apparmor"},
		{"ids", false, false, "ids"},
		{"seccomp", false, false, "seccomp"},
		{"network", false, false, "network.modes"},
		{"require", false, false, "require"},
		{"mounts", false, false, "mounts"},
		{"exec", false, false, "exec"},
		{"protected", false, false, "export.protected"},
		{"onProtected", false, false, "export.on_protected"},
		{"files", len(q.Files) > 0, false, ""},
		{"directories", len(q.Directories) > 0, false, ""},
		{"limits.cpuset", q.Limits.CPUSet != "", o.CPUSet != "", "limits.default.cpuset"},
	} {
		if asked(m.member, m.byRequest, m.bFlag) {
			continue
		}
		if m.key != "" {
			said(m.member, m.key)
		} else {
			out[m.member] = "default"
		}
	}
	top("enforce", "limits.enforce")
	top("uidRange", "root.uid_range")
	p.variables(q, o, n, out)
	given, _ := q.Limits.Limits()
	for _, f := range limits.Fields() {
		member := "limits." + f.JSON
		if f.Get(n.Limits) == 0 || asked(member, f.Get(given) != 0, f.Get(o.Limits) != 0) {
			continue
		}
		said(member, "limits.default."+f.Name)
		if out[member] == "default" { // as with what a profile without parents leaves out
			if at := builtin().source.key(DefaultProfile, "limits.default."+f.Name); at != "" {
				out[member] = at
			}
		}
		switch own := p.profiles[n.Profile]; {
		case own == nil || f.Get(own.defaults) == f.Get(n.Limits):
		case f.Get(own.defaults) == 0 && f.Name == "cpu_time":
			out[member] = "timeout × cpus"
		default:
			out[member] += ", made to fit"
		}
	}
	return out
}

// variables are each one's own.
func (p *Policy) variables(q *jailer.Request, o Overrides, n *Plan, out map[string]string) {
	for _, kv := range n.Env {
		name, _, _ := strings.Cut(kv, "=")
		_, byRequest := q.Env[name]
		_, byFlag := o.Env[name]
		switch {
		case byRequest:
			out["env."+name] = "request"
		case byFlag:
			out["env."+name] = "command line"
		case p.source != nil:
			out["env."+name] = p.source.key(n.Profile, "env.set."+name)
		}
	}
}
