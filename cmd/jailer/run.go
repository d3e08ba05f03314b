package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/stream"
	"github.com/jailer-project/jailer/internal/terminal"
	"github.com/jailer-project/jailer/policy"
)

type runFlags struct {
	requestFlags
	id       string
	pidFile  string
	ownerPID int
	exports  []string
	output   outputFlags
}

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG…]",
		Short: "Run one command in a throw-away jail",
		Long: `Run one command in a jail that is made for it and removed after it.

The command's standard output and error pass through as they are, up to
--max-output each; its exit status is jailer's. --json prints one result
instead, --ndjson a stream of events.

Exit status: 0-123 the command's own; 124 a deadline ended it; 125 jailer or
the host failed, and the reason is on standard error; 126 refused by policy, or
not executable; 127 not found in the jail; 128+n ended by signal n. The command
may itself exit with 124 to 127: the status in the result is the truth.`,
		Example: `  jailer run -- python3 -c 'print(6*7)'
  jailer run --memory 64M --timeout 5s --json -- python3 -c 'bytearray(1 << 28)'
  jailer run --stdin - -- sort < names.txt`,
		RunE: func(_ *cobra.Command, args []string) error { return a.run(f, args) },
	}
	c.Flags().SetInterspersed(false) // the first word that is no flag begins the command
	f.register(c.Flags())
	f.output.register(c.Flags())
	a.tokenFlag(c.Flags())
	a.dataFlag(c.Flags())
	c.Flags().StringArrayVar(&f.exports, "export", nil, "at the end, however it came, copy what `GLOB=DEST` matches in /workspace to a directory, or a file that ends in .tar (repeatable)")
	c.Flags().StringVar(&f.id, "id", "", "session `ID` (default random)")
	c.Flags().StringVar(&f.pidFile, "pid-file", "", "write the jail's PID 1, as the host sees it, to `FILE`")
	c.Flags().IntVar(&f.ownerPID, "owner-pid", 0, "end the run when process `PID` ends")
	return c
}

func (a *app) run(f *runFlags, argv []string) error {
	return a.deliver(&f.output, func(sink *sink) (*launch.Outcome, error) { return a.launch(f, argv, sink) })
}

// deliver runs a command and gives its result, or why it never ran, to whom the flags
// say.
func (a *app) deliver(f *outputFlags, run func(*sink) (*launch.Outcome, error)) error {
	sink, err := a.openSink(f)
	if err != nil {
		return err
	}
	out, err := run(sink)
	if err != nil {
		return errors.Join(err, sink.failed(err))
	}
	if err := sink.done(out); err != nil {
		return err
	}
	if out.Result.Error != nil {
		a.explain(out.Result.Error)
	}
	a.code = exitResult(out.Result, out.Interrupt)
	return nil
}

func (a *app) launch(f *runFlags, argv []string, sink *sink) (*launch.Outcome, error) {
	o, err := a.launchOptions(&f.requestFlags, argv)
	if err != nil {
		return nil, err
	}
	defer o.Seed.Close()
	if f.ownerPID < 0 || f.ownerPID == 0 && f.set.Changed("owner-pid") {
		return nil, usagef("--owner-pid %d: must be a process id", f.ownerPID)
	}
	o.ID, o.OwnerPID, o.PIDFile = f.id, f.ownerPID, f.pidFile
	var done func()
	if o.Exports, done, err = exports(f.exports); err != nil {
		return nil, err
	}
	defer done()
	return a.attend(&f.requestFlags, o, sink, func(o launch.Options) (*launch.Outcome, error) {
		return launch.Run(context.Background(), o)
	})
}

// attend gives a command its streams, its terminal and the caller's signals, and runs
// it.
func (a *app) attend(f *requestFlags, o launch.Options, sink *sink, run func(launch.Options) (*launch.Outcome, error)) (*launch.Outcome, error) {
	o.Stdout, o.Stderr, o.OnStart = sink.stdout, sink.stderr, sink.started
	sink.tty = o.TTY
	stdin, err := a.openStdin(f.stdin)
	if err != nil {
		return nil, err
	}
	if o.TTY != nil {
		s := &ttySession{a: a, fixed: f.ttySize != ""}
		if stdin == nil && f.request != "-" && terminal.Is(a.in) {
			stdin = a.in
		}
		if stdin != nil && terminal.Is(stdin) {
			s.keys = stdin
		}
		defer s.attend(o.TTY)()
		o.TTY.Resized = sink.resized
		o.OnStart = func(st launch.Started) {
			s.begin(st)
			sink.started(st)
		}
	}
	if stdin != nil {
		o.Stdin = stdin
	}
	o.Signals = catchSignals()
	return run(o)
}

// launchOptions reads policy and request, for run and spec alike.
func (a *app) launchOptions(f *requestFlags, argv []string) (o launch.Options, err error) {
	if f.policy == "" && f.policyGiven() {
		return o, usagef("--policy: empty")
	}
	if f.request == "" && len(argv) == 0 {
		return o, noCommand
	}
	if o, err = a.commandOptions(f, argv); err != nil {
		return o, err
	}
	err = f.policyAndSeed(&o)
	return o, err
}

// policyAndSeed reads what a jail is made from, and not a command in one.
func (f *requestFlags) policyAndSeed(o *launch.Options) (err error) {
	if o.Policy, err = policy.Load(f.policy); err != nil {
		return err
	}
	o.Seed, err = f.seedFlags.set()
	return err
}

var noCommand = usagef("no command given: put it after --")

// commandOptions are what the flags say without the policy.
func (a *app) commandOptions(f *requestFlags, argv []string) (o launch.Options, err error) {
	o = launch.Options{StateDir: a.stateDir, XDGRuntimeDir: a.xdg, Began: began, Logger: a.logger()}
	o.Warn = func(s string) { a.warn("%s", escaped(s)) }
	if o.Overrides, err = f.overrides(argv); err != nil {
		return o, err
	}
	// It is for logs, and decides nothing; an invalid one is as good as none (W3C Trace
	// Context, 4.3).
	if span := os.Getenv("TRACEPARENT"); jailer.ValidTraceParent(span) {
		o.Overrides.TraceParent = span
	}
	if o.Request, err = a.readRequest(f); err != nil {
		return o, err
	}
	o.DataDir = a.data()
	if o.TokenHash, err = a.tokenHash(); err != nil {
		return o, err
	}
	o.TTY, err = f.terminal(a)
	return o, err
}

// requestLimit is more, in bytes, than a valid request document can have.
const requestLimit = 2 << 20

func (a *app) readRequest(f *requestFlags) ([]byte, error) {
	if f.request == "" {
		return nil, nil
	}
	var in io.Reader = a.in
	if f.request == "-" {
		if f.stdin == "-" {
			return nil, usagef("--request - and --stdin - both want standard input")
		}
	} else {
		file, err := os.Open(f.request)
		if err != nil {
			return nil, &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "request", Err: err}
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, requestLimit))
	if err != nil {
		return nil, &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "request", Err: err}
	}
	return data, nil
}

func (a *app) openStdin(name string) (*os.File, error) {
	f := a.in
	switch name {
	case "":
		return nil, nil
	case "-":
	default:
		var err error
		// A session leader would get a terminal that it opens as its own.
		if f, err = os.OpenFile(name, os.O_RDONLY|unix.O_NOCTTY, 0); err != nil {
			return nil, &jailer.Error{Code: jailer.CodeInvalidPath, Op: "stdin", Err: err}
		}
	}
	// A directory opens and then can't be read: the command would see an empty input.
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, &jailer.Error{
			Code: jailer.CodeInvalidPath, Op: "stdin", Err: &os.PathError{Op: "read", Path: f.Name(), Err: unix.EISDIR},
		}
	}
	return f, nil
}

// catchSignals takes over the signals that are passed on to the job, but for
// those that the caller had set to be ignored (nohup(1)).
func catchSignals() <-chan os.Signal {
	ch := make(chan os.Signal, 16)
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	return ch
}

// writeJSON writes one line that no byte of a job's can make a terminal act on.
func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", stream.EscapeJSON(b))
	return err
}
