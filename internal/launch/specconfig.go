package launch

import (
	"context"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/internal/terminal"
	"github.com/jailer-project/jailer/netns"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/rootfs"
	"github.com/jailer-project/jailer/spec"
)

func (j *Jail) specConfig(layout rootfs.Layout) (spec.Config, error) {
	network, err := netns.For(netns.Mode(j.plan.Network))
	if err != nil {
		return spec.Config{}, err
	}
	c := spec.Config{
		Network: network,
		Args:    j.plan.Argv, Env: environment(j.plan, j.o.TTY), Cwd: j.plan.Cwd,
		Root:       layout,
		Persistent: j.persistentDir(),
		Workspace:  spec.Tmpfs{Bytes: j.plan.Limits.Workspace, Inodes: j.plan.Limits.WorkspaceInodes},
		Tmp:        spec.Tmpfs{Bytes: j.plan.Limits.TmpSize, Inodes: j.plan.Limits.TmpInodes},
		NoExec:     j.executables != nil,
		IDs:        j.ids.spec(),
		Rlimits:    j.rlimits(j.plan),
	}
	if j.armor {
		c.AppArmor = apparmor.Default
	}
	if j.hasTerminal() {
		size := terminal.Default
		if j.o.TTY != nil {
			size = j.o.TTY.Size
		}
		c.Terminal = &spec.Terminal{Cols: size.Cols, Rows: size.Rows}
	}
	if len(c.Args) == 0 { // a session: PID 1 alone, until there is a command
		c.Args = initArgs
	}
	return c, nil
}

// Plan does the first two steps alone: what a run would be.
func Plan(o Options) (*policy.Plan, error) {
	j := newJail(context.Background(), o)
	j.only, j.looks = j.newCommand(context.Background(), o.command()), true
	if err := j.do(step{"request", j.readRequest}, step{"resolve", j.resolve}); err != nil {
		return nil, err
	}
	return j.plan, nil
}

// Spec builds the spec of a run without starting it. The root is assembled, to
// see that it can be, and removed again.
func Spec(o Options) (*specs.Spec, error) {
	j := newJail(context.Background(), o)
	defer j.undoAll()
	j.only, j.looks = j.newCommand(context.Background(), o.command()), true
	if err := j.do([]step{
		{"request", j.readRequest},
		{"resolve", j.resolve},
		{"probe", j.probe},
		{"state", j.makeState},
		{"root", j.assembleRoot},
		{"spec", j.buildSpec},
		{"filter", j.withFilter},
	}...); err != nil {
		return nil, err
	}
	return j.spec, nil
}
