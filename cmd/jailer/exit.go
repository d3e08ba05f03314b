package main

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
)

// Exit statuses of `run` (docs: EXIT STATUS of jailer-run(1)). The command may
// itself exit with 124 to 127: the status in the result is the truth.
const (
	exitDeadline      = 124
	exitFailed        = 125
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128
)

// exitError is the status for an error of jailer's: the command never ran.
func exitError(err error, run bool) int {
	if !run {
		var ue *usageError
		if errors.As(err, &ue) {
			return 2
		}
		return 1
	}
	var je *jailer.Error
	if !errors.As(err, &je) {
		return exitFailed
	}
	switch je.Code {
	case jailer.CodePolicyDenied, jailer.CodeApprovalDenied, jailer.CodeUnauthorized, jailer.CodeCommandNotExecutable:
		return exitNotExecutable
	case jailer.CodeCommandNotFound:
		return exitNotFound
	default:
		return exitFailed
	}
}

// exitResult is the status for a command that ran.
func exitResult(r *jailer.Result, interrupt os.Signal) int {
	if r.Error != nil {
		return exitFailed
	}
	switch r.Status {
	case jailer.StatusExited:
		if r.ExitCode != nil {
			return *r.ExitCode
		}
		return exitFailed
	case jailer.StatusTimedOut, jailer.StatusExpired:
		return exitDeadline
	case jailer.StatusOOMKilled, jailer.StatusOutputLimitExceeded:
		return exitSignal + int(unix.SIGKILL)
	case jailer.StatusAborted:
		if s, ok := interrupt.(syscall.Signal); ok {
			return exitSignal + int(s)
		}
		return exitSignal + int(unix.SIGTERM)
	case jailer.StatusSignaled:
		if r.Signal != nil {
			if s := unix.SignalNum(*r.Signal); s != 0 {
				return exitSignal + int(s)
			}
		}
		return exitSignal + int(unix.SIGKILL)
	default:
		return exitFailed
	}
}
