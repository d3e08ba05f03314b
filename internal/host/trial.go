package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Trial is how the attempt to make a jail's namespaces went.
type Trial struct {
	Step string // the one that failed; "" if all went well
	Err  error
}

// Steps of a trial.
const (
	stepClone = "make namespaces"
	stepMount = "change a mount in them"
	stepProc  = "mount a fresh /proc in them"
	stepRun   = "start a trial process"
)

// OK says that every step went well.
func (t Trial) OK() bool { return t.Err == nil }

func (t Trial) Error() string {
	if t.OK() {
		return ""
	}
	return fmt.Sprintf("could not %s: %v", t.Step, cause(t.Err))
}

// TrialArgs are the arguments with which this program is started again inside
// the namespaces; it must call Inside then.
var TrialArgs = []string{"doctor", "trial"}

const (
	trialFD   = 3
	trialTime = 10 * time.Second
)

// try makes the namespaces of a jail with the map that a run would use, and in
// them does what a security module or an outer container may forbid. Ubuntu's
// restriction, for one, lets the namespaces be made and takes away every
// capability in them.
func try(uid, gid int) Trial {
	t := tryAs(uid, gid)
	if t.Step == stepClone && errors.Is(t.Err, unix.EACCES) && uid != os.Geteuid() {
		// The program is not executable by others; a jail doesn't need that.
		return tryAs(os.Geteuid(), os.Getegid())
	}
	return t
}

func tryAs(uid, gid int) Trial {
	r, w, err := os.Pipe()
	if err != nil {
		return Trial{stepRun, err}
	}
	defer r.Close()
	// The parent-death signal is tied to the thread that forks (prctl(2)).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(context.Background(), trialTime)
	defer cancel()
	c := exec.CommandContext(ctx, "/proc/self/exe", TrialArgs...)
	c.Env = []string{}
	c.ExtraFiles = []*os.File{w}
	c.WaitDelay = time.Second
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID |
			unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}},
		Credential:  &syscall.Credential{NoSetGroups: true},
		Pdeathsig:   unix.SIGKILL,
	}
	err = c.Start()
	w.Close()
	if err != nil {
		return Trial{stepClone, err}
	}
	r.SetReadDeadline(time.Now().Add(trialTime))
	said, _ := io.ReadAll(io.LimitReader(r, 256))
	err = c.Wait()
	step, no, _ := bytes.Cut(bytes.TrimSpace(said), []byte("\t"))
	switch {
	case string(step) == "ok" && err == nil:
		return Trial{}
	case len(step) == 0 && err != nil:
		return Trial{stepRun, err}
	case len(step) == 0:
		return Trial{stepRun, errors.New("it said nothing")}
	}
	var n int
	if _, err := fmt.Sscan(string(no), &n); err != nil {
		return Trial{stepRun, fmt.Errorf("it said %q", said)}
	}
	return Trial{string(step), unix.Errno(n)}
}

// Inside is the child's part. It mounts nothing unless it is PID 1 of a user
// namespace with one id, as the parent makes it; its answer is the exit status.
func Inside() int {
	m, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || os.Getpid() != 1 || !strings.HasSuffix(strings.TrimSpace(string(m)), " 1") {
		return 2
	}
	unix.CloseOnExec(trialFD)
	w := os.NewFile(trialFD, "trial")
	for _, s := range []struct {
		name string
		do   func() error
	}{
		{stepMount, func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{stepProc, func() error {
			return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}},
	} {
		if err := s.do(); err != nil {
			var no unix.Errno
			errors.As(err, &no)
			if _, err := w.WriteString(s.name + "\t" + fmt.Sprint(int(no))); err != nil {
				return 2
			}
			return 0
		}
	}
	if _, err := w.WriteString("ok"); err != nil {
		return 2
	}
	return 0
}

// cause is the innermost error: which file it was is said already.
func cause(err error) string {
	var no unix.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}
