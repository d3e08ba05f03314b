package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/jailer-project/jailer/internal/launch"
)

func (a *app) specCommand() *cobra.Command {
	f := &requestFlags{}
	c := &cobra.Command{
		Use:   "spec [flags] -- COMMAND [ARG…]",
		Short: "Print the OCI config.json that a run would use",
		Long: `Print the OCI runtime spec of the run that the same flags would make.

Nothing is started. Where jailer puts its own PID 1 in front of the command, the
spec shows the command itself.`,
		RunE: func(_ *cobra.Command, args []string) error {
			o, err := a.launchOptions(f, args)
			if err != nil {
				return err
			}
			s, err := launch.Spec(o)
			if err != nil {
				return err
			}
			b, err := json.MarshalIndent(s, "", "  ")
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s\n", b)
			return err
		},
	}
	c.Flags().SetInterspersed(false)
	f.register(c.Flags())
	return c
}
