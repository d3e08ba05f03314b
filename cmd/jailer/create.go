package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/session"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/limits"
)

// sessionFlags are those of create, and of the supervisor that it starts.
type sessionFlags struct {
	requestFlags
	id       string
	pidFile  string
	ownerPID int
}

func (f *sessionFlags) register(fs *pflag.FlagSet) {
	f.requestFlags.register(fs)
	if idle, ok := limits.ByName("idle"); ok {
		fs.Var(&limitFlag{field: idle, in: &f.limits}, idle.Flag, "end the session when no command has run in it for `DURATION`")
	}
	fs.Lookup("ttl").Usage = "end the session `DURATION` after it was created, whatever it does"
	fs.StringVar(&f.id, "id", "", "session `ID` (default random)")
	fs.StringVar(&f.pidFile, "pid-file", "", "write the jail's PID 1, as the host sees it, to `FILE`")
	fs.IntVar(&f.ownerPID, "owner-pid", 0, "end the session when process `PID` ends")
	fs.Bool("json", false, "print the state as one JSON document, as without it")
	for name := range ofCommand {
		_ = fs.MarkHidden(name) // refused, with the reason
	}
}

// ofCommand are flags that a session as such can't have.
var ofCommand = map[string]bool{"stdin": true, "tty": true, "tty-size": true}

// check refuses what can be seen without a policy.
func (f *sessionFlags) check() error {
	for name := range ofCommand {
		if f.set.Changed(name) {
			return usagef("--%s: belongs to a command: give it to `jailer exec`", name)
		}
	}
	if f.policy == "" && f.policyGiven() {
		return usagef("--policy: empty")
	}
	if f.ownerPID < 0 || f.ownerPID == 0 && f.set.Changed("owner-pid") {
		return usagef("--owner-pid %d: must be a process id", f.ownerPID)
	}
	if f.id == "" && f.set.Changed("id") {
		return usagef("--id: empty")
	}
	if f.id != "" {
		if err := state.CheckID(f.id); err != nil {
			return usagef("--id: %v", err)
		}
	}
	flags := f.requestFlags
	flags.envFiles = nil // read by the supervisor alone: one may be a pipe
	_, err := flags.overrides(nil)
	return err
}

func (a *app) createCommand() *cobra.Command {
	f := &sessionFlags{}
	c := &cobra.Command{
		Use:         "create [flags]",
		Annotations: oneDocument,
		Short:       "Create a session: a jail that stays for several commands",
		Long: `Create a session, a jail in which commands run one after another and side by
side, and print its state as one JSON document.

One small process stays behind, the session's supervisor. The session ends at
--ttl, when no command has run for --idle, when --owner-pid ends, or by
` + "`jailer delete`" + `; if its supervisor is killed the kernel ends it too. What is
asked for here is what its commands can have: limits are each command's own.

Exit status: 0 done; 1 failed, and the reason is on standard error; 2 usage.`,
		Example: `  id=$(jailer create --ttl 1h | jq -r .id)
  jailer exec "$id" -- sh -c 'echo hello > /workspace/greeting'
  jailer exec "$id" -- cat /workspace/greeting
  jailer delete "$id"`,
		Args: exactly(0),
		RunE: func(*cobra.Command, []string) error { return a.create(f) },
	}
	a.registerSession(f, c.Flags())
	return c
}

func (a *app) registerSession(f *sessionFlags, fs *pflag.FlagSet) {
	f.register(fs)
	a.tokenFlag(fs)
	a.dataFlag(fs)
}

// answerLimit is more, in bytes, than a state document ever has.
const answerLimit = 1 << 20

// create starts the supervisor and waits for its answer. Killed meanwhile it leaves
// nothing: the supervisor sees its pipe break.
func (a *app) create(f *sessionFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return createError(err)
	}
	defer r.Close()
	answerFD, err := handOn(w)
	if err != nil {
		return createError(err)
	}
	ar, aw, err := os.Pipe()
	if err != nil {
		unix.Close(answerFD)
		return createError(err)
	}
	defer aw.Close()
	argsFD, err := handOn(ar)
	if err != nil {
		unix.Close(answerFD)
		return createError(err)
	}
	// The program is this very one, whatever lies at its path by now.
	cmd := exec.Command("/proc/self/exe", "supervise", "--answer-fd="+strconv.Itoa(answerFD), "--args-fd="+strconv.Itoa(argsFD))
	cmd.Args[0] = "jailer"
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true} // no terminal's signals reach it
	cmd.Stderr = os.Stderr
	if f.request == "-" {
		cmd.Stdin = a.in
	}
	err = cmd.Start()
	unix.Close(answerFD)
	unix.Close(argsFD)
	if err != nil {
		return createError(err)
	}
	_ = sendArgs(aw, superviseArgs(a.args)) // why it didn't take them, the answer says
	answer, err := io.ReadAll(io.LimitReader(r, answerLimit))
	if err != nil {
		return createError(err)
	}
	var doc struct {
		ID    string
		Error *jailer.Error
	}
	switch err := json.Unmarshal(answer, &doc); {
	case err == nil && doc.Error != nil:
		_ = cmd.Wait() // it has removed what it made
		return doc.Error
	case err != nil || doc.ID == "":
		return createError(fmt.Errorf("the supervisor ended without an answer: %w", cmp.Or(cmd.Wait(), err, io.ErrUnexpectedEOF)))
	}
	if _, err = a.out.Write(answer); err != nil { // nobody would know its id
		return errors.Join(createError(err), cmd.Process.Signal(unix.SIGTERM), cmd.Wait())
	}
	return nil
}

func createError(err error) error {
	return &jailer.Error{Code: jailer.CodeInternal, Op: "create", Err: err, Hint: "`jailer gc` removes what is left"}
}

// handOn duplicates f, which it closes, to a number that is free here: what the
// caller has passed, as in --request /dev/fd/3, keeps its own.
func handOn(f *os.File) (int, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 3)
	return fd, os.NewSyscallError("fcntl", err)
}

// superviseArgs are the arguments of create without the verb.
func superviseArgs(args []string) []string {
	for i, arg := range args {
		// The one flag with a value that may stand before the verb.
		if arg == "create" && (i == 0 || args[i-1] != "--state-dir") {
			return slices.Concat(args[:i], args[i+1:])
		}
	}
	return args
}

// sendArgs passes the supervisor its flags by a pipe. Everybody on the host reads a
// command line, and the supervisor's would show the values of --env for as long as the
// session lives. What is cut off is no JSON: no flag can be lost on the way. The
// arguments need be no UTF-8.
func sendArgs(w *os.File, args []string) error {
	list := make([][]byte, len(args))
	for i, arg := range args {
		list[i] = []byte(arg)
	}
	return errors.Join(json.NewEncoder(w).Encode(list), w.Close())
}

// takeArgs is its other end.
func takeArgs(fd int) ([]string, error) {
	f, err := session.Inherited(fd, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list [][]byte
	if err := json.NewDecoder(f).Decode(&list); err != nil {
		return nil, err
	}
	args := make([]string, len(list))
	for i, arg := range list {
		args[i] = string(arg)
	}
	return args, nil
}
