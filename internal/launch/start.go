package launch

import (
	"errors"
	"os"
	"strconv"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/container"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/spec"
)

// The first descriptors of PID 1; those of the cgroup follow.
const (
	fdControl = 3
	fdInit    = 4
	fdCgroup  = 5
)

// Step 9: the container, through libcontainer, up to our PID 1.
func (r *run) startContainer() error {
	stdio, err := r.openStreams()
	if err != nil {
		return err
	}
	defer stdio.close()
	ctl, child, err := pid1.Pair()
	if err != nil {
		return err
	}
	r.ctl = ctl
	r.later(ctl.Close)
	memfd, err := pid1.Memfd()
	if err != nil {
		return damaged("PID 1", err)
	}
	extra := []*os.File{child, memfd}
	r.orders = r.payload()
	if extra, err = r.cgroupFiles(extra, r.orders); err != nil {
		return err
	}
	defer closeAll(extra)
	pidFile, err := r.openPIDFile()
	if err != nil {
		return err
	}
	r.coolDown = r.keepCgroupWarm()
	r.later(func() error { r.coolDown(); return nil })
	r.settled = r.watchSetup()
	r.later(func() error { r.settled(); return nil })
	// libcontainer asks for the working directory, which may have been removed.
	if err := os.Chdir("/"); err != nil {
		return err
	}
	con, err := container.Start(container.Options{
		ID:         r.o.ID,
		StateDir:   r.privateDir("container"),
		Spec:       spec.ForInit(r.spec, []string{"/proc/self/fd/" + strconv.Itoa(fdInit)}),
		CgroupPath: r.initPath(),
		Stdin:      stdio.stdin, Stdout: stdio.stdout, Stderr: stdio.stderr,
		Extra:  extra,
		Logger: r.log,
	})
	if err != nil {
		return r.setupError(startError(err))
	}
	r.con = con
	r.later(r.removeContainer)
	if r.jail != nil && r.initPath() == "" {
		if err := r.jail.Adopt(con.Pid()); err != nil {
			return unavailable(err)
		}
	}
	return writePIDFile(pidFile, con.Pid())
}

// initPath is the cgroup into which libcontainer puts PID 1; "" where we do it
// ourselves. On v2 libcontainer enables every controller of the host in every
// cgroup from the root down to its own (cgroups/fs2.CreateCgroupPath). In a
// delegated subtree that reaches no further than the delegation; for root it
// would change the whole host, and outlast the run.
func (r *run) initPath() string {
	if r.ids.owned {
		return ""
	}
	return r.spec.Linux.CgroupsPath
}

// Step 10: PID 1 starts the job, or says which step of it failed. Only now is
// it told what to run: whatever went wrong before, the command has not run.
func (r *run) awaitJob() error {
	if err := r.checkLabel(); err != nil {
		return r.setupError(err)
	}
	if err := r.recordStarted(); err != nil {
		return err
	}
	r.readReports()
	if err := r.ctl.Send(r.orders); err != nil {
		r.log.Debug("payload not taken", "err", err) // PID 1's report has the reason
	}
	rep, ok := <-r.reports
	if ok && rep.Type == pid1.Terminal {
		r.takeTerminal(rep.Master)
		rep, ok = <-r.reports
	}
	r.coolDown()
	r.settled()
	if !ok {
		return r.setupError(&jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "pid1",
			Message: "PID 1 ended before it had started the command",
			Hint:    "is the host out of memory? see the kernel log",
		})
	}
	if err := rep.Err(); err != nil {
		return r.commandError(err)
	}
	if r.o.TTY != nil && r.master == nil {
		return errors.New("PID 1 started the command without its terminal")
	}
	r.started()
	r.openTerminal()
	return nil
}

func (r *run) readReports() {
	ch := make(chan pid1.Report, 3)
	r.reports = ch
	go func() {
		defer close(ch)
		for {
			rep, err := r.ctl.Next()
			if err != nil {
				return
			}
			ch <- rep
			if rep.Type != pid1.Started && rep.Type != pid1.Terminal {
				return
			}
		}
	}()
}
