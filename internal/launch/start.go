package launch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/container"
	"github.com/jailer-project/jailer/internal/host"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/internal/stream"
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
	r.readReports()
	if err := r.ctl.Send(r.orders); err != nil {
		r.log.Debug("payload not taken", "err", err) // PID 1's report has the reason
	}
	rep, ok := <-r.reports
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
	r.started()
	return nil
}

func (r *run) commandError(err error) error {
	var se *pid1.StartError
	if !errors.As(err, &se) {
		return err
	}
	name := strconv.Quote(r.plan.Argv[0])
	switch {
	case se.NotFound():
		return &jailer.Error{
			Code: jailer.CodeCommandNotFound, Message: name + " is not in this jail's root",
			Hint: "an absolute path, or a name found in the jail's PATH; `jailer run -- ls /usr/bin` shows what is there",
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
			Code: jailer.CodeInvalidPath, Path: r.plan.Cwd, Message: "can't be the working directory", Err: se.Errno,
			Hint: "it must exist in the jail; /workspace always does",
		}
	}
	return &jailer.Error{
		Code: jailer.CodeIsolationUnavailable, Reason: "pid1." + se.Stage.String(),
		Message: "PID 1 could not set the job up", Err: err,
		Hint: "run `jailer doctor`",
	}
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
		e.Reason, e.Hint = "cgroup.mounted", "mount one (`mount -t cgroup2 none /sys/fs/cgroup` as root)"
	case strings.Contains(text, "remount-propagation") || (strings.Contains(text, "rootfs") && strings.Contains(text, "permission denied")):
		e.Reason, e.Hint = "rootfs.search", "every directory above the root must be searchable by the jail's uid (chmod o+x)"
	}
	return e
}

type stdio struct{ stdin, stdout, stderr *os.File }

func (s *stdio) close() { closeAll([]*os.File{s.stdin, s.stdout, s.stderr}) }

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// openStreams makes the job's standard streams. They are always pipes of ours:
// a file or terminal of the caller's handed on could be opened again through
// /proc/self/fd with more rights than it was given with.
func (r *run) openStreams() (s *stdio, err error) {
	s = &stdio{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if r.o.Stdin != nil || r.plan.HasStdin {
		rd, wr, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s.stdin = rd
		src := r.o.Stdin
		if r.plan.HasStdin {
			src = strings.NewReader(string(r.plan.Stdin))
		}
		stream.Feed(r.ctx, src, wr)
	}
	if s.stdout, r.stdout, err = r.capture(r.o.Stdout); err != nil {
		return s, err
	}
	s.stderr, r.stderr, err = r.capture(r.o.Stderr)
	if err != nil {
		return s, err
	}
	for _, f := range []*os.File{s.stdin, s.stdout, s.stderr} {
		if err := r.give(f); err != nil {
			return s, err
		}
	}
	return s, nil
}

// give lets the job open its own end again, as `echo > /dev/stdout` does: a
// pipe belongs to its maker, who has another id than the job of real root or
// of an id range. Nobody but the job can get at it to use the mode.
func (r *run) give(f *os.File) error {
	switch {
	case f == nil:
		return nil
	case r.ids.owned:
		return f.Chown(int(r.ids.uid), int(r.ids.gid))
	case r.ids.n > 0:
		return f.Chmod(0o666)
	}
	return nil
}

func (r *run) readReports() {
	ch := make(chan pid1.Report, 2)
	r.reports = ch
	go func() {
		defer close(ch)
		for {
			rep, err := r.ctl.Next()
			if err != nil {
				return
			}
			ch <- rep
			if rep.Type != pid1.Started {
				return
			}
		}
	}()
}

func (r *run) openPIDFile() (*os.File, error) {
	if r.o.PIDFile == "" {
		return nil, nil
	}
	// Without O_NONBLOCK the open of a FIFO waits for a reader, with every signal
	// caught and no clock running.
	f, err := os.OpenFile(r.o.PIDFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, &jailer.Error{Code: jailer.CodeInvalidPath, Op: "pid-file", Err: err}
	}
	return f, nil
}

func writePIDFile(f *os.File, pid int) error {
	if f == nil {
		return nil
	}
	_, err := fmt.Fprintln(f, pid)
	return errors.Join(err, f.Close())
}
