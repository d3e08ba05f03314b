// The launcher starts no work that a cgroup quota should scale, and reading the
// quota costs start-up time twice per jail (see internal/container).
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command jailer runs a command that nobody trusts in a jail of its own.
package main

import (
	"io"
	"os"
	"os/signal"
	"runtime"
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
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

type streams struct {
	in       *os.File
	out, err io.Writer
}
