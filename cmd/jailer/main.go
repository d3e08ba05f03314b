// The launcher starts no work that a cgroup quota should scale, and reading the
// quota costs start-up time twice per jail (see internal/container).
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command jailer runs a command that nobody trusts in a jail of its own.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/container"
)

// began is close enough to the start of the program for setupMs.
var began = time.Now()

// init pins main to the main thread: the jail dies with the thread that
// started it (prctl(2), PR_SET_PDEATHSIG), and only that one lives as long as
// the process.
func init() { runtime.LockOSThread() }

func main() {
	if container.IsInit() {
		container.Init()
	}
	// Go ends a program that writes to a closed standard output by SIGPIPE,
	// before it could clean up; notified of the signal it gets EPIPE instead.
	// Ignoring it would be inherited by the job.
	// SIGXFSZ, of a file that would exceed the caller's RLIMIT_FSIZE, ends it too.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE, unix.SIGXFSZ)
	os.Exit(guarded(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// guarded keeps a defect of ours from looking like the command's own exit
// status: Go ends a panic with 2.
func guarded(args []string, s streams) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(s.err, "jailer: error: internal error: %v\njailer: hint: please report it; `jailer gc` removes what is left\n%s", p, debug.Stack())
			code = exitFailed
		}
	}()
	return run(args, s)
}

type streams struct {
	in       *os.File
	out, err io.Writer
}
