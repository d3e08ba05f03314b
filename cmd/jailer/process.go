package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/session"
	"github.com/jailer-project/jailer/limits"
)

func (a *app) startCommand() *cobra.Command {
	f := &requestFlags{}
	var name string
	c := &cobra.Command{
		Use:         "start ID [flags] -- COMMAND [ARG…]",
		Annotations: oneDocument,
		Short:       "Start a managed process in a session",
		Long: `Start a process that goes on when jailer has returned, and print it as one JSON
document. It has a cgroup of its own and no deadline but the session's. It does
not keep the session from being idle: that only commands do.

The last 1 MiB of each output stream is kept for ` + "`jailer logs`" + `. A session may have
` + strconv.Itoa(session.MaxProcesses) + ` managed processes; finished ones count, with their logs, until
` + "`jailer ps --prune`" + `.

Exit status: 0 it runs; 1 failed; 2 usage.`,
		Example: `  jailer start build7 --name web -- python3 -m http.server --bind 127.0.0.1
  jailer logs build7 web --follow`,
		RunE: func(c *cobra.Command, args []string) error {
			id, argv, err := inSession(c, args)
			if err != nil {
				return err
			}
			return a.start(f, id, name, argv)
		},
	}
	f.register(c.Flags())
	hideSession(c.Flags())
	a.tokenFlag(c.Flags())
	for flag := range ofCommand {
		_ = c.Flags().MarkHidden(flag)
	}
	for flag := range ofOutput {
		_ = c.Flags().MarkHidden(flag)
	}
	c.Flags().Bool("json", false, "print one JSON document, as without it")
	c.Flags().StringVar(&name, "name", "", "`NAME` for the other verbs, beside its id")
	return c
}

// ofOutput are flags for output under a cap, which a log is not.
var ofOutput = map[string]bool{"max-output": true, "output-keep": true, "on-output-limit": true}

func (a *app) start(f *requestFlags, id, name string, argv []string) error {
	for flag := range ofCommand {
		if f.set.Changed(flag) {
			return usagef("--%s: a managed process has no terminal, and no input but a request's inline stdin", flag)
		}
	}
	for flag := range ofOutput {
		if f.set.Changed(flag) {
			return usagef("--%s: the log of a managed process is a ring of 1 MiB for each stream", flag)
		}
	}
	if f.request == "" && len(argv) == 0 {
		return noCommand
	}
	o, err := a.commandOptions(f, argv)
	if err != nil {
		return err
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	p, err := client.Start(id, session.ProcessRequest{Name: name, Request: o.Request, Overrides: o.Overrides})
	if err != nil {
		return err
	}
	return writeJSON(a.out, p)
}

func (a *app) psCommand() *cobra.Command {
	var prune, asJSON bool
	c := &cobra.Command{
		Use:         "ps ID",
		Annotations: oneDocument,
		Short:       "List a session's managed processes",
		Long: `List the managed processes of a session, those that have ended with how.

Exit status: 0 done; 1 failed; 2 usage.`,
		Args: exactly(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.ps(args[0], prune, asJSON) },
	}
	c.Flags().BoolVar(&prune, "prune", false, "show those that have ended a last time: they are forgotten, and their logs")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	a.tokenFlag(c.Flags())
	return c
}

func (a *app) ps(arg string, prune, asJSON bool) error {
	client, id, err := a.ofID(arg)
	if err != nil {
		return err
	}
	ps, err := client.Processes(id, prune)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(a.out, ps)
	}
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tSTATUS\tSTARTED\tFINISHED\tEND\tSTDOUT\tSTDERR")
	for _, p := range ps {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\n", p.ID, text(p.Name), p.Status, moment(p.StartedAt), moment(p.FinishedAt),
			ending(p), p.StdoutBytes, p.StderrBytes)
	}
	return w.Flush()
}

// ending is how a process ended, in a word or two.
func ending(p session.Process) string {
	var words []string
	if p.Result != "" && p.Result != jailer.StatusExited && p.Result != jailer.StatusSignaled {
		words = append(words, string(p.Result))
	}
	switch {
	case p.ExitCode != nil:
		words = append(words, strconv.Itoa(*p.ExitCode))
	case p.Signal != nil:
		words = append(words, *p.Signal)
	}
	return text(strings.Join(words, " "))
}

// inProcess is what the verbs for one process have in common.
func (a *app) inProcess(args []string) (client *session.Client, id, process string, err error) {
	if args[1] == "" {
		return nil, "", "", usagef("no process given")
	}
	client, id, err = a.ofID(args[0])
	return client, id, args[1], err
}

func (a *app) logsCommand() *cobra.Command {
	r := session.LogRequest{Stream: "stdout"}
	var tail string
	var stderr bool
	c := &cobra.Command{
		Use:         "logs ID PROCESS",
		Annotations: oneDocument,
		Short:       "Print the output of a managed process",
		Long: `Print what is kept of a managed process's standard output: the last 1 MiB. How
much is lost before it is said on standard error.

The bytes are a stranger's: on a terminal they may do anything that a terminal
can be told to.

Exit status: 0 done; 1 failed; 2 usage.`,
		Args: exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			if stderr {
				r.Stream = "stderr"
			}
			if c.Flags().Changed("tail") {
				n, err := limits.ParseSize(tail)
				if err != nil || n <= 0 {
					return usagef("--tail %q: must be a size, as 4K", tail)
				}
				r.Tail = int(min(n, session.LogSize))
			}
			return a.logs(r, args)
		},
	}
	c.Flags().StringVar(&tail, "tail", "", "the last `SIZE` alone, as 4K")
	c.Flags().BoolVar(&r.Follow, "follow", false, "go on with what it writes, until it ends or an interrupt")
	c.Flags().BoolVar(&stderr, "stderr", false, "standard error instead")
	a.tokenFlag(c.Flags())
	return c
}

func (a *app) logs(r session.LogRequest, args []string) error {
	client, id, process, err := a.inProcess(args)
	if err != nil {
		return err
	}
	r.Process = process
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	err = client.Logs(ctx, id, r, a.out, func(n int64) { a.warn("%d bytes of %s are lost here", n, r.Stream) })
	if errors.Is(err, unix.EPIPE) || ctx.Err() != nil {
		return nil // the reader has had enough
	}
	return err
}

func (a *app) stopCommand() *cobra.Command {
	var grace time.Duration
	c := &cobra.Command{
		Use:         "stop ID PROCESS",
		Annotations: oneDocument,
		Short:       "End a managed process",
		Long: `Send TERM to a managed process, and end it with everything that it started after
the grace. Print it as one JSON document, when nothing of it runs any more. One
that has ended already is no error.

Exit status: 0 it has ended; 1 failed; 2 usage.`,
		Args: exactly(2),
		RunE: func(_ *cobra.Command, args []string) error {
			client, id, process, err := a.inProcess(args)
			if err != nil {
				return err
			}
			if grace < 0 {
				return usagef("--grace %v: must not be negative", grace)
			}
			p, err := client.Stop(id, process, grace)
			if err != nil {
				return err
			}
			return writeJSON(a.out, p)
		},
	}
	c.Flags().Bool("json", false, "print one JSON document, as without it")
	c.Flags().DurationVar(&grace, "grace", session.StopGrace, "`DURATION` between TERM and the end; 0s is at once")
	a.tokenFlag(c.Flags())
	return c
}

func (a *app) killCommand() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:         "kill ID PROCESS",
		Annotations: oneDocument,
		Short:       "Send a signal to a managed process",
		Long: `Send a signal to the main process of a managed process. When that ends, so does
everything that it started. A second INT or TERM ends it whatever it does.

Exit status: 0 sent; 1 failed; 2 usage.`,
		Args: exactly(2),
		RunE: func(_ *cobra.Command, args []string) error {
			sig, err := parseSignal(name)
			if err != nil {
				return err
			}
			client, id, process, err := a.inProcess(args)
			if err != nil {
				return err
			}
			p, err := client.Kill(id, process, sig)
			if err != nil {
				return err
			}
			return writeJSON(a.out, p)
		},
	}
	c.Flags().Bool("json", false, "print one JSON document, as without it")
	c.Flags().StringVar(&name, "signal", "KILL", "`SIGNAL` by name or number, as TERM, SIGTERM or 15")
	a.tokenFlag(c.Flags())
	return c
}

func parseSignal(s string) (unix.Signal, error) {
	if n, err := strconv.Atoi(s); err == nil && n > 0 && n <= 64 {
		return unix.Signal(n), nil
	}
	if sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")); sig != 0 {
		return sig, nil
	}
	return 0, usagef("--signal %q: is no signal", s)
}
