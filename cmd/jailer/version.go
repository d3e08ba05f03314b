package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/container"
)

// version is set by the Makefile.
var version = "devel"

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version and what is built in",
		Args:  exactly(0),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return writeJSON(a.out, map[string]any{
					"v": jailer.ProtocolVersion, "version": version, "seccomp": container.SeccompBuilt,
					"go": runtime.Version(), "arch": runtime.GOARCH, "protocol": jailer.ProtocolVersion,
				})
			}
			built := "no: `jailer run` will refuse"
			if container.SeccompBuilt {
				built = "yes"
			}
			_, err := fmt.Fprintf(a.out, "jailer %s\nprotocol %d\nseccomp filter and PID 1 built in: %s\n%s %s/%s\n",
				version, jailer.ProtocolVersion, built, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) completionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a shell completion script",
		Example:   "  jailer completion bash > /etc/bash_completion.d/jailer",
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args:      exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(a.out, true)
			case "zsh":
				return c.Root().GenZshCompletion(a.out)
			case "fish":
				return c.Root().GenFishCompletion(a.out, true)
			}
			return &usageError{err: fmt.Errorf("unknown shell %q", args[0]), command: c.CommandPath()}
		},
	}
	return c
}
