package launch

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/host"
	"github.com/jailer-project/jailer/internal/pid1"
)

func (c *command) commandError(err error) error {
	var se *pid1.StartError
	if !errors.As(err, &se) {
		return err
	}
	name := strconv.Quote(c.plan.Argv[0])
	switch {
	case se.NotFound():
		look := "jailer run"
		if c.j.only == nil {
			look = "jailer exec " + c.j.o.ID
		}
		return &jailer.Error{
			Code: jailer.CodeCommandNotFound, Message: name + " is not in this jail's root",
			Hint: "an absolute path, or a name found in the jail's PATH; `" + look + " -- ls /usr/bin` shows what is there",
		}
	case se.InterpreterMissing():
		return &jailer.Error{
			Code: jailer.CodeCommandNotExecutable, Message: name + ": its interpreter or loader is not in this jail's root",
		}
	case se.NotExecutable():
		return &jailer.Error{
			Code: jailer.CodeCommandNotExecutable, Message: name + " can't be executed", Err: se.Errno,
		}
	case se.Stage == pid1.StageExec && se.Errno == unix.E2BIG:
		return &jailer.Error{
			Code: jailer.CodeInvalidRequest, Message: "arguments and environment are too long", Err: se.Errno,
		}
	case se.Stage == pid1.StageCwd:
		return &jailer.Error{
			Code: jailer.CodeInvalidPath, Path: c.plan.Cwd, Message: "can't be the working directory", Err: se.Errno,
			Hint: "it must exist in the jail; /workspace always does",
		}
	}
	if se.Stage == pid1.StageTerminal {
		if e := terminalError(se); e != nil {
			return e
		}
	}
	if se.Stage == pid1.StageDied && c.endedFor() {
		return &jailer.Error{
			Code: jailer.CodeInternal, Op: "exec", Reason: "setup.aborted",
			Message: "ended before the command had started",
		}
	}
	if se.Stage == pid1.StageDied && se.WaitStatus.Signaled() && c.j.only == nil {
		// Commands of a session have one host uid, and so may signal each other: no
		// isolation is in doubt, and what a command can bring about must not say so.
		return &jailer.Error{
			Code: jailer.CodeInvalidState, Op: "exec", Reason: "session.killed", Retryable: true, Err: err,
			Message: "killed before it was executed, as another command of the session can do",
			Hint:    "look what runs in it (jailer ps), or create another session for what must not be disturbed",
		}
	}
	return c.j.pid1Error(se)
}

// endedFor says whether somebody wanted the command's end.
func (c *command) endedFor() bool { return c.ctx.Err() != nil || c.j.endedBy() != nil }

// pid1Error is the error of a step of PID 1's.
func (j *Jail) pid1Error(err error) error {
	se, ok := errors.AsType[*pid1.StartError](err)
	if !ok {
		return err
	}
	e := &jailer.Error{
		Code: jailer.CodeIsolationUnavailable, Reason: "pid1." + se.Stage.String(),
		Message: "PID 1 could not set the job up", Err: err,
		Hint: "run `jailer doctor`",
	}
	switch {
	case se.Stage == pid1.StageAppArmor || se.Stage == pid1.StageStack:
		e.Hint = labelHint
	case j.armor && (se.Errno == unix.EPERM || se.Errno == unix.EACCES):
		e.Hint = "is the loaded AppArmor profile this program's? `jailer apparmor status` tells, and `jailer apparmor load` replaces it"
	}
	return e
}

// startError finds the reason in what libcontainer says; it has no typed errors.
func startError(err error) error {
	e := &jailer.Error{Code: jailer.CodeIsolationUnavailable, Reason: "container.start", Err: err, Hint: "run `jailer doctor`"}
	text := err.Error()
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM):
		// What is short is the launcher's, by its own ulimits or the host's; the
		// isolation is not in doubt, and the next try may find more.
		e.Code, e.Reason, e.Retryable = jailer.CodeInternal, "host.resources", true
		e.Hint = "raise the launcher's limits (ulimit -n 256, ulimit -u), or wait until the host has more to give"
	case strings.Contains(text, "apparmor"):
		// The launcher is under a profile that doesn't let it change to ours.
		e.Reason, e.Hint = "apparmor.profile", labelHint
	case strings.Contains(text, `"proc"`) && strings.Contains(text, "operation not permitted"):
		// mount_too_revealing(): a fresh procfs is refused where the outer one
		// is partly covered, as Docker and Podman do.
		e.Reason = "proc.fresh"
		e.Hint = "inside a container, start the outer one with an unmasked /proc (docker: --security-opt systempaths=unconfined; podman: --security-opt unmask=ALL)"
	case strings.Contains(text, "unshare") || strings.Contains(text, "uid_map") || strings.Contains(text, "clone"):
		e.Reason = "userns.create"
		for _, f := range host.Here().Switches() {
			if f.State != host.Yes && f.Hint != "" {
				e.Reason, e.Hint = f.ID, f.Hint
			}
		}
	case strings.Contains(text, "no cgroup mount found") || strings.Contains(text, "mountpoint for devices not found"):
		// libcontainer can't do without, even where it has nothing to write.
		e.Reason, e.Hint = "cgroup.mounted", "mount one (`mount -t cgroup2 -o nsdelegate,memory_recursiveprot none /sys/fs/cgroup` as root)"
	case strings.Contains(text, "remount-propagation") || (strings.Contains(text, "rootfs") && strings.Contains(text, "permission denied")):
		e.Reason, e.Hint = "rootfs.search", "every directory above the root must be searchable by the jail's uid (chmod o+x)"
	}
	// In words that say nothing: a security module or an outer filter may have
	// refused any of the steps. A probe that makes the same namespaces tells.
	if slices.Contains([]string{"container.start", "userns.create", "cgroup.mounted"}, e.Reason) {
		if f := host.Here().Refusal(); f != nil {
			e.Reason, e.Message, e.Hint = f.ID, f.Reason, f.Hint
		}
	}
	return e
}
