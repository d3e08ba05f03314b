// Command jailer runs a command that nobody trusts in a jail of its own.
package main

// The launcher starts no work that a cgroup quota should scale, and reading
// the quota costs start-up time twice per jail (see internal/container).
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

import (
	"io"
	"os"
	"runtime"
	"time"

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
	os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

type streams struct {
	in       *os.File
	out, err io.Writer
}
