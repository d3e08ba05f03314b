package launch

import (
	"os"
	"strconv"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/internal/container"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/spec"
)

// The descriptors of PID 1.
const (
	fdControl = 3
	fdInit    = 4
)

var initArgs = []string{"/proc/self/fd/" + strconv.Itoa(fdInit)}

// Step 10: the container, through libcontainer, up to our PID 1, which then waits to
// be told what to run.
func (j *Jail) startContainer() error {
	ctl, child, err := pid1.Pair()
	if err != nil {
		return err
	}
	j.ctl = ctl
	j.later(ctl.Close)
	memfd, err := pid1.Memfd()
	if err != nil {
		return damaged("PID 1", err)
	}
	extra := []*os.File{child, memfd}
	defer closeAll(extra)
	pidFile, err := j.openPIDFile()
	if err != nil {
		return err
	}
	j.coolDown = j.keepCgroupWarm()
	j.later(func() error { j.coolDown(); return nil })
	j.settled = j.watchSetup()
	j.later(func() error { j.settled(); return nil })
	// libcontainer asks for the working directory, which may have been removed.
	if err := os.Chdir("/"); err != nil {
		return err
	}
	con, err := container.Start(container.Options{
		ID:         j.o.ID,
		StateDir:   j.privateDir("container"),
		Spec:       spec.ForInit(j.spec, initArgs),
		CgroupPath: j.initPath(),
		Extra:      extra,
		Logger:     j.log,
	})
	if err != nil {
		return j.setupError(startError(err))
	}
	j.con = con
	j.later(j.removeContainer)
	if j.group != nil && j.initPath() == "" {
		if err := j.group.Adopt(con.Pid()); err != nil {
			return unavailable(err)
		}
	}
	closeAll(extra) // PID 1's end, or its death would not be seen
	if err := j.greet(); err != nil {
		return j.setupError(err)
	}
	if err := j.watchWorkspace(); err != nil {
		return err
	}
	return writePIDFile(pidFile, con.Pid())
}

// initPath is the cgroup into which libcontainer puts PID 1; "" where we do it
// ourselves. On v2 libcontainer enables every controller of the host in every
// cgroup from the root down to its own (cgroups/fs2.CreateCgroupPath). In a
// delegated subtree that reaches no further than the delegation; for root it
// would change the whole host, and outlast the run.
func (j *Jail) initPath() string {
	if j.ids.owned {
		return ""
	}
	return j.spec.Linux.CgroupsPath
}

// greet waits until PID 1 is there and has found itself in order: its parent's death
// is its own, its label is the one that was asked for.
func (j *Jail) greet() error {
	hello := &pid1.Setup{Flags: pid1.RequirePDeathSig}
	if j.armor {
		hello.Label = apparmor.PID1Label
	}
	if j.only != nil {
		hello.Flags |= pid1.Once
	}
	if err := j.ctl.Setup(hello); err != nil {
		j.log.Debug("set-up not taken", "err", err) // PID 1's report has the reason
	}
	rep, err := j.ctl.Next()
	if err != nil {
		return lostInit()
	}
	if err := rep.Err(); err != nil {
		if rep.Stage == pid1.StageAppArmor {
			return j.wrongLabel() // until it is reaped it has one
		}
		return j.pid1Error(err)
	}
	if rep.Type != pid1.Ready {
		return lostInit()
	}
	if rep.Workspace == nil {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "pid1.workspace",
			Message: "PID 1 found no workspace", Hint: "is the host out of memory? see the kernel log",
		}
	}
	j.workspace = rep.Workspace
	j.later(j.workspace.Close)
	j.reports = readReports(j.ctl)
	return j.checkLabel()
}

func lostInit() *jailer.Error {
	return &jailer.Error{
		Code: jailer.CodeIsolationUnavailable, Reason: "pid1",
		Message: "PID 1 ended before it had started the command",
		Hint:    "is the host out of memory? see the kernel log",
	}
}
