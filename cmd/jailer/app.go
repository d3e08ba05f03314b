package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/trust"
)

// app is what the commands share.
type app struct {
	streams
	args      []string
	stateDir  string
	tokenFile string
	tok       []byte // read
	dataDir   string
	verbose   bool
	xdg       string
	term      string
	code      int // exit status, where a command decides it itself
}

// run is the whole program but for the re-execution hook: arguments in, exit
// status out.
func run(args []string, s streams) int {
	unix.Umask(0o022) // files of the skeleton must be readable by the jail's uid
	a := &app{args: args, streams: s, xdg: os.Getenv("XDG_RUNTIME_DIR"), term: os.Getenv("TERM")}
	root := a.command()
	root.SetArgs(args)
	root.SetOut(s.out)
	root.SetErr(s.err)
	cmd, err := root.ExecuteC()
	if err == nil {
		return a.code
	}
	if ue, ok := errors.AsType[*usageError](err); ok && ue.command == "" {
		ue.command = cmd.CommandPath()
	}
	a.explain(err)
	if flag := cmd.Flags().Lookup("json"); flag != nil && flag.Changed && cmd.Annotations[answers] != "" {
		if werr := a.errorDocument(err); werr != nil {
			a.warn("%v", werr)
		}
	}
	return exitError(err, cmd.Name() == "run" || cmd.Name() == "exec")
}

// answers marks the verbs that answer with one document under --json, also when they
// fail.
const answers = "answers"

var oneDocument = map[string]string{answers: "json"}

func (a *app) errorDocument(err error) error {
	doc, derr := a.told(err).Document()
	if derr != nil {
		return derr
	}
	return writeJSON(a.out, json.RawMessage(doc))
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "jailer",
		Short: "Run a command that nobody trusts in a jail of its own",
		Long: `jailer runs a command as if on a machine that holds nothing but what the task
needs: a read-only root, own namespaces, a system-call filter, limits on memory,
CPU, processes, time and output, and no network. It needs no daemon and no
privilege. What can't be enforced here is an error before the command starts.`,
		Args:          noVerb,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		// The generated command would add flags and text of its own.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &usageError{err: err, command: c.CommandPath()}
	})
	root.PersistentFlags().StringVar(&a.stateDir, "state-dir", "", "keep the state of live jails in `DIR` (absolute)")
	root.PersistentFlags().BoolVar(&a.verbose, "verbose", false, "log each step on stderr")
	root.SetHelpCommand(a.helpCommand(root))
	root.AddCommand(a.runCommand(), a.createCommand(), a.superviseCommand(), a.execCommand(), a.listCommand(), a.stateCommand(), a.deleteCommand(),
		a.startCommand(), a.psCommand(), a.logsCommand(), a.stopCommand(), a.killCommand(),
		a.fsCommand(), a.workspaceCommand(), a.exportCommand(), a.importCommand(), a.specCommand(), a.policyCommand(), a.seccompCommand(), a.apparmorCommand(), a.gcCommand(), a.eventsCommand(),
		a.doctorCommand(), a.versionCommand(), a.completionCommand())
	return root
}

// noVerb refuses an unknown verb; cobra alone would print help and exit 0.
func noVerb(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{err: fmt.Errorf("unknown command %q", args[0]), command: c.CommandPath()}
	}
	return nil
}

func (a *app) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return &usageError{err: fmt.Errorf("unknown command %q", strings.Join(args, " ")), command: "jailer"}
			}
			return c.Help()
		},
	}
}

// exactly is cobra.ExactArgs with our kind of error.
func exactly(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return &usageError{err: fmt.Errorf("takes %d arguments, %d given", n, len(args)), command: c.CommandPath()}
		}
		return nil
	}
}

// A usageError is a command line that says nothing we understand.
type usageError struct {
	err     error
	command string
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// explain prints what failed and what mends it.
func (a *app) explain(err error) {
	fmt.Fprintf(a.err, "jailer: error: %s\n", escaped(err.Error()))
	var hint string
	var je *jailer.Error
	var ue *usageError
	switch {
	case errors.As(err, &je):
		hint = je.Hint
	case errors.As(err, &ue):
		hint = "see `" + ue.command + " --help`"
	}
	if hint != "" {
		fmt.Fprintf(a.err, "jailer: hint: %s\n", escaped(a.here(hint)))
	}
}

// aboutState are the verbs of a hint that would look into another state directory than
// this program did.
var aboutState = regexp.MustCompile(`\bjailer (gc|list|state|delete|exec|ps|stop|kill)\b`)

// told is the error as this program tells it.
func (a *app) told(err error) *jailer.Error {
	e := *asJailerError(err)
	e.Hint = a.here(e.Hint)
	return &e
}

// here is a hint whose commands look where this program looked.
func (a *app) here(hint string) string {
	if a.stateDir == "" {
		return hint
	}
	return aboutState.ReplaceAllStringFunc(hint, func(m string) string {
		return "jailer --state-dir " + trust.Quote(a.stateDir) + strings.TrimPrefix(m, "jailer")
	})
}

func (a *app) warn(format string, args ...any) {
	fmt.Fprintf(a.err, "jailer: warning: "+format+"\n", args...)
}

func (a *app) logger() *slog.Logger {
	if !a.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
