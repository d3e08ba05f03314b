package container

import (
	"os"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"
)

// IsInit reports whether this process is libcontainer's re-execution of the
// program: no command of ours may ever be called "init". Somebody who types it
// has not the pipe by which libcontainer speaks to its own.
func IsInit() bool {
	return len(os.Args) > 1 && os.Args[1] == "init" && os.Getenv("_LIBCONTAINER_SYNCPIPE") != ""
}

// Init is the re-executed half. It never returns. It must run before anything
// else in main, on the main thread.
//
// The parent-death signal is set here, because clone() clears it between
// libcontainer's stages and config.ParentDeathSignal is set on the first one:
// with it alone a container outlives a killed launcher. libcontainer reads the
// signal and restores it after it has changed ids.
func Init() {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		os.Exit(1)
	}
	libcontainer.Init()
}
