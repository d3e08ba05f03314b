package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/profiles"
)

func (a *app) policyPresetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "preset [NAME]",
		Short: "Print a policy to start from; without NAME, which there are",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, name := range profiles.Presets() {
					text, err := profiles.Preset(name)
					if err != nil {
						return err
					}
					// The first sentence of its comment, which begins with its name.
					about, _, _ := strings.Cut(strings.ReplaceAll(string(text), "\n# ", " "), ".")
					about = strings.TrimPrefix(about, "# "+name+": ")
					if _, err := fmt.Fprintf(a.out, "%-8s %s\n", name, about); err != nil {
						return err
					}
				}
				return nil
			}
			text, err := profiles.Preset(args[0])
			if err != nil {
				return &jailer.Error{
					Code: jailer.CodeNotFound, Message: fmt.Sprintf("there is no preset %.64q", args[0]),
					Hint: "there are " + strings.Join(profiles.Presets(), ", "),
				}
			}
			_, err = a.out.Write(text)
			return err
		},
	}
}
