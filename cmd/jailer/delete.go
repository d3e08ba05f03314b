package main

import (
	"context"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
)

func (a *app) deleteCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "delete ID",
		Short: "End a session, with everything that runs in it",
		Long: `End a session and remove it. When it returns, no process, cgroup, mount or file of
it is left. What a supervisor that was killed has left is removed too.

A session that isn't there is no error: its end is what was asked for.

Exit status: 0 nothing is left; 1 something could not be removed, or ID is a
` + "`jailer run`" + `, which ends with its launcher; 2 usage.`,
		Args: exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			client, id, err := a.ofID(args[0])
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
			defer stop()
			if err := client.Delete(ctx, id); err != nil || !asJSON {
				return err
			}
			return writeJSON(a.out, struct {
				V  int    `json:"v"`
				ID string `json:"id"`
			}{jailer.ProtocolVersion, id})
		},
		Annotations: oneDocument,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document: the id, or what failed")
	a.tokenFlag(c.Flags())
	return c
}
