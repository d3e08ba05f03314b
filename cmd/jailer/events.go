package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/policy"
)

type eventsFlags struct {
	policy, session string
	types           []string
	since           int64
	follow          bool
}

func (a *app) eventsCommand() *cobra.Command {
	f := &eventsFlags{}
	c := &cobra.Command{
		Use:   "events [flags]",
		Short: "Print the event log",
		Long: `Print the events that runs and collections have recorded, one JSON object in
one line each.

What is no record (half a line, of a launcher that was killed as it wrote) is
left out, with a warning.

Exit status: 0 done; 1 the log can't be read; 2 usage.`,
		Example: `  jailer events --type policy.denied
  jailer events --follow --since 1200`,
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error { return a.events(f, c.Flags().Changed("policy")) },
	}
	c.Flags().StringVar(&f.policy, "policy", "", "the log of this policy `FILE` (default /etc/jailer/policy.toml, else the built-in one)")
	c.Flags().Int64Var(&f.since, "since", 0, "only events whose seq is greater than `SEQ`")
	c.Flags().BoolVar(&f.follow, "follow", false, "go on with what is recorded later, until interrupted")
	c.Flags().StringVar(&f.session, "session", "", "only events of the session `ID`")
	c.Flags().StringArrayVar(&f.types, "type", nil, "only events of type `TYPE` (repeatable)")
	return c
}

func (f *eventsFlags) check(policyGiven bool) error {
	usage := func(format string, args ...any) error {
		return &usageError{err: fmt.Errorf(format, args...), command: "jailer events"}
	}
	if f.policy == "" && policyGiven {
		return usage("--policy: empty")
	}
	if f.since < 0 {
		return usage("--since %d: must be a seq", f.since)
	}
	if f.session != "" {
		if err := state.CheckID(f.session); err != nil {
			return usage("--session: %v", err)
		}
	}
	for _, t := range f.types {
		if !slices.Contains(audit.Types(), audit.Type(t)) {
			var known []string
			for _, k := range audit.Types() {
				known = append(known, string(k))
			}
			return usage("--type %q: want one of: %s", t, strings.Join(known, " "))
		}
	}
	return nil
}

func (f *eventsFlags) wants(h audit.Head) bool {
	return h.Seq > f.since && (f.session == "" || h.SessionID == f.session) &&
		(len(f.types) == 0 || slices.Contains(f.types, string(h.Type)))
}

func (a *app) events(f *eventsFlags, policyGiven bool) error {
	if err := f.check(policyGiven); err != nil {
		return err
	}
	path, err := a.eventsPath(f.policy)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	out := bufio.NewWriter(a.out)
	err = audit.Read(ctx, path, f.follow, func(l audit.Line) error {
		if l.Damage != "" {
			a.warn("%s: %s", escaped(path), l.Damage)
			return nil
		}
		if !f.wants(l.Head) {
			return nil
		}
		out.Write(l.Text)
		err := out.WriteByte('\n') // an error sticks
		if f.follow {
			err = out.Flush()
		}
		return err
	})
	err = errors.Join(err, out.Flush())
	if errors.Is(err, unix.EPIPE) {
		return nil // the reader has had enough: head(1)
	}
	if e, ok := errors.AsType[*jailer.Error](err); ok {
		return e
	}
	if err != nil {
		return &jailer.Error{Code: jailer.CodeInternal, Op: "events", Err: err}
	}
	return nil
}

// eventsPath is where a run with this policy would write.
func (a *app) eventsPath(file string) (string, error) {
	p, err := policy.Load(file)
	if err != nil {
		return "", err
	}
	if p.Events.Path != "" {
		return p.Events.Path, nil
	}
	path, err := state.FindEvents(a.stateDir, a.xdg)
	if err != nil {
		return "", &jailer.Error{Code: jailer.CodeInternal, Op: "state", Err: err}
	}
	return path, nil
}
