package main

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/session"
	"github.com/jailer-project/jailer/internal/state"
)

// ofSession are flags that were settled when the session was created. They are
// known, so that they can be refused with that reason.
var ofSession = map[string]bool{
	"workspace": true,
	"policy":    true, "profile": true, "tenant": true, "rootfs": true, "label": true, "tmp-size": true, "ttl": true,
	"file": true, "dir": true,
}

// hideSession keeps them out of the help.
func hideSession(fs *pflag.FlagSet) {
	for name := range ofSession {
		if fs.Lookup(name) != nil {
			_ = fs.MarkHidden(name)
		}
	}
}

func refuseSession(fs *pflag.FlagSet) error {
	for _, name := range slices.Sorted(maps.Keys(ofSession)) {
		if fs.Changed(name) {
			return usagef("--%s: belongs to the session: give it to `jailer create`", name)
		}
	}
	return nil
}

// client speaks to the sessions of the state directory.
func (a *app) client() (*session.Client, error) {
	dir, err := state.Open(a.stateDir, a.xdg)
	if _, other := errors.AsType[*state.OwnerError](err); other {
		return nil, &jailer.Error{
			Code: jailer.CodeUnauthorized, Op: "state", Reason: "state.dir", Message: "the sessions are another user's", Err: err,
		}
	}
	if err != nil {
		return nil, &jailer.Error{Code: jailer.CodeInternal, Op: "state", Reason: "state.dir", Err: err}
	}
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	return &session.Client{Dir: dir, Program: version, Token: token}, nil
}

// sessionID is an argument as the id of a session.
func sessionID(arg string) (string, error) {
	if err := state.CheckID(arg); err != nil {
		return "", usagef("%v", err)
	}
	return arg, nil
}

// ofID is the client, and the session that an argument names.
func (a *app) ofID(arg string) (client *session.Client, id string, err error) {
	if id, err = sessionID(arg); err != nil {
		return nil, "", err
	}
	client, err = a.client()
	return client, id, err
}

// inSession takes "ID [flags] -- COMMAND…" apart. Flags may stand on both sides of the
// id, and so the command must have its --: no word of it may be taken for a flag.
func inSession(c *cobra.Command, args []string) (id string, argv []string, err error) {
	switch dash := c.ArgsLenAtDash(); {
	case len(args) == 0 || dash == 0:
		return "", nil, usagef("no session given: its id comes before --")
	case dash < 0 && len(args) > 1, dash > 1:
		return "", nil, usagef("put the command after --")
	}
	if err := refuseSession(c.Flags()); err != nil {
		return "", nil, err
	}
	id, err = sessionID(args[0])
	return id, args[1:], err
}

type execFlags struct {
	requestFlags
	output outputFlags
}

func (a *app) execCommand() *cobra.Command {
	f := &execFlags{}
	c := &cobra.Command{
		Use:   "exec ID [flags] -- COMMAND [ARG…]",
		Short: "Run a command in a session",
		Long: `Run one command in a session, in a cgroup of its own, beside what else runs
there. What it leaves in /workspace, /tmp and $HOME the next one finds.

Output, result and exit status are those of ` + "`jailer run`" + `. When the command ends,
by itself or at a limit, so do all its processes, and no others. When jailer exec
itself is killed the command is aborted.

Exit status: 0-123 the command's own; 124 a deadline ended it, or the session's
time to live or idle time did; 125 jailer or the host failed, or there is no such session; 126 refused by
policy, or not executable; 127 not found in the jail; 128+n ended by signal n. The
command may itself exit with 124 to 127: the status in the result is the truth.`,
		Example: `  jailer exec build7 --timeout 60s -- make -C /workspace
  jailer exec build7 --json -- sh -c 'ls -l /workspace'
  jailer exec build7 --tty -- sh`,
		RunE: func(c *cobra.Command, args []string) error {
			id, argv, err := inSession(c, args)
			if err != nil {
				return err
			}
			return a.exec(f, id, argv)
		},
	}
	f.register(c.Flags())
	hideSession(c.Flags())
	a.tokenFlag(c.Flags())
	f.output.register(c.Flags())
	return c
}

func (a *app) exec(f *execFlags, id string, argv []string) error {
	return a.deliver(&f.output, func(sink *sink) (*launch.Outcome, error) {
		if f.request == "" && len(argv) == 0 {
			return nil, noCommand
		}
		o, err := a.commandOptions(&f.requestFlags, argv)
		if err != nil {
			return nil, err
		}
		client, err := a.client()
		if err != nil {
			return nil, err
		}
		return a.attend(&f.requestFlags, o, sink, func(o launch.Options) (*launch.Outcome, error) {
			return client.Exec(context.Background(), id, o)
		})
	})
}
