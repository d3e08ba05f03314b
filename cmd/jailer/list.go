package main

import (
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/jailer-project/jailer/internal/session"
)

func (a *app) listCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:         "list",
		Annotations: oneDocument,
		Short:       "List the sessions",
		Long: `List the sessions of the state directory, those of ` + "`jailer run`" + ` among them.

STATUS is creating, created (no command has run yet), running, or stopped: the
supervisor is gone, and ` + "`jailer delete` or `jailer gc`" + ` removes what is left.

Exit status: 0 done; 1 failed; 2 usage.`,
		Args: exactly(0),
		RunE: func(*cobra.Command, []string) error { return a.list(asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print an array of state documents")
	a.tokenFlag(c.Flags())
	return c
}

func (a *app) list(asJSON bool) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	states, err := client.List()
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(a.out, states)
	}
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tPID\tPROFILE\tCREATED\tEXPIRES\tCOMMANDS\tPROCESSES")
	for _, s := range states {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.Status, number(s.PID), text(s.Profile),
			moment(s.CreatedAt), moment(s.ExpiresAt), count(s.Commands), processes(s))
	}
	return w.Flush()
}

// text, number, moment and count show what is not known as a dash.
func text(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func count(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

func processes(s session.State) string {
	if s.Processes == nil {
		return "-"
	}
	return strconv.Itoa(len(s.Processes))
}

func (a *app) stateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:         "state ID",
		Annotations: oneDocument,
		Short:       "Print the state of a session",
		Long: `Print the state of a session as one JSON document: the OCI runtime
specification's state, with createdAt, expiresAt, idleAfterMs, the number of
commands that run and the managed processes besides.

Exit status: 0 done; 1 failed, or there is no such session; 2 usage.`,
		Args: exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			client, id, err := a.ofID(args[0])
			if err != nil {
				return err
			}
			st, err := client.State(id)
			if err != nil {
				return err
			}
			return writeJSON(a.out, st)
		},
	}
	c.Flags().Bool("json", false, "print one JSON document, as without it")
	a.tokenFlag(c.Flags())
	return c
}
