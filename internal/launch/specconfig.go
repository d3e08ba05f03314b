package launch

import (
	"context"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/netns"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/rootfs"
	"github.com/jailer-project/jailer/spec"
)

func (r *run) specConfig(layout rootfs.Layout) (spec.Config, error) {
	network, err := netns.For(netns.Mode(r.plan.Network))
	if err != nil {
		return spec.Config{}, err
	}
	c := spec.Config{
		Network: network,
		Args:    r.plan.Argv, Env: r.environment(), Cwd: r.plan.Cwd,
		Root:      layout,
		Workspace: spec.Tmpfs{Bytes: r.plan.Limits.Workspace, Inodes: r.plan.Limits.WorkspaceInodes},
		Tmp:       spec.Tmpfs{Bytes: r.plan.Limits.TmpSize, Inodes: r.plan.Limits.TmpInodes},
		IDs:       r.ids.spec(),
		Rlimits:   r.rlimits(),
	}
	if r.armor {
		c.AppArmor = apparmor.Default
	}
	if tty := r.o.TTY; tty != nil {
		c.Terminal = &spec.Terminal{Cols: tty.Size.Cols, Rows: tty.Size.Rows}
	}
	return c, nil
}

// Plan does the first two steps alone: what a run would be.
func Plan(o Options) (*policy.Plan, error) {
	r := newRun(context.Background(), o)
	for _, s := range []step{{"request", r.readRequest}, {"resolve", r.resolve}} {
		if err := r.do(s); err != nil {
			return nil, err
		}
	}
	return r.plan, nil
}

// Spec builds the spec of a run without starting it. The root is assembled, to
// see that it can be, and removed again.
func Spec(o Options) (*specs.Spec, error) {
	r := newRun(context.Background(), o)
	defer r.undoAll()
	for _, s := range []step{
		{"request", r.readRequest},
		{"resolve", r.resolve},
		{"probe", r.probe},
		{"state", r.makeState},
		{"root", r.assembleRoot},
		{"spec", r.buildSpec},
		{"filter", r.withFilter},
	} {
		if err := r.do(s); err != nil {
			return nil, err
		}
	}
	return r.spec, nil
}
