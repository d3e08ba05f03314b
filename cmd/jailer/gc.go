package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/internal/workspace"
)

func (a *app) gcCommand() *cobra.Command {
	var check, dryRun, asJSON bool
	c := &cobra.Command{
		Use:   "gc",
		Short: "Remove what crashed launchers left behind",
		Long: `Remove the processes, cgroups and directories of jails whose launcher is gone,
and write into the event log what the launcher could not.

A live jail holds a lock that dies with its launcher; only what nobody holds is
touched, and only cgroups that a jail's own record names.

Exit status: 0 done; 1 something could not be removed, or, with --check,
something is leaked.`,
		Args: exactly(0),
		RunE: func(*cobra.Command, []string) error { return a.gc(check, dryRun, asJSON) },
	}
	c.Flags().BoolVar(&check, "check", false, "remove nothing; exit 1 if something is leaked")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "remove nothing; say what would be")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	a.dataFlag(c.Flags())
	return c
}

// gcWait bounds one collection.
const gcWait = 30 * time.Second

func (a *app) gc(check, dryRun, asJSON bool) error {
	if a.stateDir != "" && !filepath.IsAbs(a.stateDir) {
		return &usageError{err: fmt.Errorf("--state-dir %q: must be an absolute path", a.stateDir), command: "jailer gc"}
	}
	dir, err := state.Open(a.stateDir, a.xdg)
	if err != nil {
		return &jailer.Error{Code: jailer.CodeInternal, Op: "state", Err: err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), gcWait)
	defer cancel()
	leaks, err := dir.Reap(ctx, check || dryRun)
	if err != nil {
		return &jailer.Error{Code: jailer.CodeInternal, Op: "gc", Err: err}
	}
	left, lerr := a.sweep(ctx, check || dryRun)
	if asJSON {
		if leaks == nil {
			leaks = []state.Leak{}
		}
		if err := writeJSON(a.out, map[string]any{"v": jailer.ProtocolVersion, "leaked": leaks, "workspaces": left}); err != nil {
			return err
		}
	} else {
		for _, p := range left {
			word := "removed"
			if _, err := os.Lstat(p); err == nil {
				word = "left" // it was only looked for, or can't be removed
			}
			fmt.Fprintf(a.out, "%s %s\n", word, printable(p))
		}
	}
	if lerr != nil {
		return lerr
	}
	failed := false
	for _, l := range leaks {
		failed = failed || l.Err != ""
		if !asJSON {
			a.printLeak(l)
		}
	}
	switch {
	case failed:
		return &jailer.Error{Code: jailer.CodeInternal, Op: "gc", Message: "not everything could be removed", Retryable: true}
	case check && len(leaks)+len(left) > 0:
		return errors.New("leaked jails found; `jailer gc` removes them")
	}
	return nil
}

// sweep removes what removals of persistent workspaces have left, where there are any.
func (a *app) sweep(ctx context.Context, dryRun bool) ([]string, error) {
	left := []string{}
	if !workspace.There(a.data()) {
		return left, nil
	}
	s, err := workspace.Open(a.data())
	if err != nil {
		return left, err
	}
	found, err := s.Sweep(ctx, dryRun)
	return append(left, found...), err
}

func (a *app) printLeak(l state.Leak) {
	word := "leaked"
	switch {
	case l.Err != "":
		word = "stuck"
	case l.Removed:
		word = "removed"
	}
	fmt.Fprintf(a.out, "%s %s (since %s)", word, l.ID, l.Since.Format(time.RFC3339))
	if l.Err != "" {
		fmt.Fprintf(a.out, ": %s", escaped(l.Err))
	}
	fmt.Fprintln(a.out)
	if l.Warning != "" {
		a.warn("%s", escaped(l.Warning))
	}
}
