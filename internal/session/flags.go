package session

import (
	"fmt"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/wire"
	"github.com/jailer-project/jailer/limits"
	"github.com/jailer-project/jailer/policy"
)

// flagsOf is the part of o that a command in a session may say: the rest is the
// session's, and has no place in the protocol.
func flagsOf(o policy.Overrides) *wire.Flags {
	f := &wire.Flags{
		Cwd: []byte(o.Cwd), Labels: o.Labels, TraceParent: o.TraceParent, CPUSet: o.CPUSet,
		OutputKeep: o.OutputKeep, OnOutputLimit: o.OnOutputLimit, Stdin: o.Stdin,
		Capabilities: o.Capabilities, AppArmor: o.AppArmorRequired,
	}
	for _, a := range o.Argv {
		f.Argv = append(f.Argv, []byte(a))
	}
	if len(o.Env) > 0 {
		f.Env = make(map[string][]byte, len(o.Env))
	}
	for k, v := range o.Env {
		f.Env[k] = []byte(v)
	}
	for _, x := range limits.Fields() {
		if v := x.Get(o.Limits); v != 0 {
			if f.Limits == nil {
				f.Limits = map[string]int64{}
			}
			f.Limits[x.Name] = v
		}
	}
	return f
}

// overridesOf is the reverse. A limit that is not known here can't be held, and so is
// no limit to leave out in silence.
func overridesOf(f *wire.Flags) (policy.Overrides, error) {
	if f == nil {
		return policy.Overrides{}, nil
	}
	o := policy.Overrides{
		Cwd: string(f.Cwd), Labels: f.Labels, TraceParent: f.TraceParent, CPUSet: f.CPUSet,
		OutputKeep: f.OutputKeep, OnOutputLimit: f.OnOutputLimit, Stdin: f.Stdin,
		Capabilities: f.Capabilities, AppArmorRequired: f.AppArmor,
	}
	for _, a := range f.Argv {
		o.Argv = append(o.Argv, string(a))
	}
	if len(f.Env) > 0 {
		o.Env = make(map[string]string, len(f.Env))
	}
	for k, v := range f.Env {
		o.Env[k] = string(v)
	}
	for name, v := range f.Limits {
		x, ok := limits.ByName(name)
		if !ok || v <= 0 {
			return o, &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "exec", Path: fmt.Sprintf("limits.%.40q", name), Message: "is no limit, or not positive"}
		}
		x.Set(&o.Limits, v)
	}
	return o, nil
}
