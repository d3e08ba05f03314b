package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/policy"
)

func (a *app) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Check a policy, or show what it makes of a request",
		Args:  noVerb,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.policyValidateCommand(), a.policyShowCommand(), a.policyPresetCommand())
	return c
}

func (a *app) policyValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Read a policy file as strictly as a run would",
		Args:  exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := policy.LoadFile(args[0])
			if err != nil {
				return err
			}
			for _, name := range p.SeccompFiles() {
				if _, err := seccompProfile(p, name); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(a.out, "%s: valid\n", args[0])
			return err
		},
	}
}

func (a *app) policyShowCommand() *cobra.Command {
	f := &requestFlags{}
	c := &cobra.Command{
		Use:   "show [flags] [-- COMMAND [ARG…]]",
		Short: "Print the effective plan of a profile and a request, as JSON",
		Long: `Print the effective plan of a profile and a request, as JSON. Its member "origins" says
of each value where it comes from: a line of the policy, "request", "command line", or
"default". Nothing is run, and nobody asked for an approval.`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && f.request == "" {
				args = []string{"true"} // the plan of any command
			}
			o, err := a.launchOptions(f, args)
			if err != nil {
				return err
			}
			plan, err := launch.Plan(o)
			if err != nil {
				return err
			}
			var q *jailer.Request
			if o.Request != nil {
				if q, err = jailer.ParseRequest(o.Request); err != nil {
					return err
				}
			}
			b, err := plan.JSON(o.Policy.Origins(q, o.Overrides, plan))
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
