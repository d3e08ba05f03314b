package launch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/boottime"
)

// setupLimit bounds the time from the container's start to the command's. A
// root on a file system that hangs would hold it up for ever.
const setupLimit = 2 * time.Minute

// watchSetup listens to the caller while libcontainer and PID 1 work, when
// nothing else does: the second INT or TERM, the end of the owner, of the time
// to live, or of patience, kills what is being started. Other signals are kept
// for the job. The returned function ends the watch; it may be called again.
func (j *Jail) watchSetup() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	watched, abort := context.WithCancel(context.Background())
	j.watched = watched
	go func() {
		defer close(ended)
		if why := j.untilAborted(done, time.After(setupLimit)); why != nil {
			j.aborted.Store(why)
			abort()
			killChildren(done)
		}
	}()
	return sync.OnceFunc(func() {
		close(done)
		<-ended
		abort()
		j.watched = nil
	})
}

// An abort is why the set-up was ended.
type abort struct {
	why    string
	reason audit.Reason
}

// untilAborted returns why the set-up has to end, nil when it is over.
// late may be nil: then it has no bound of its own.
func (j *Jail) untilAborted(done <-chan struct{}, late <-chan time.Time) *abort {
	owner, stopOwner := WatchOwner(j.o.OwnerPID)
	defer stopOwner()
	ttl := boottime.NewTimer(j.plan.Limits.TTL - j.age())
	defer ttl.Stop()
	ends := 0
	for _, sig := range j.early {
		if sig == unix.SIGINT || sig == unix.SIGTERM {
			ends++
		}
	}
	for {
		if ends > 1 {
			return &abort{"interrupted", audit.Requested}
		}
		select {
		case <-done:
			return nil
		case sig := <-j.o.Signals:
			j.early = append(j.early, sig)
			if sig == unix.SIGINT || sig == unix.SIGTERM {
				ends++
			}
		case <-owner:
			return &abort{fmt.Sprintf("process %d, its owner, has ended", j.o.OwnerPID), audit.OwnerExited}
		case <-ttl.C:
			return &abort{"the time to live is over", audit.TTL}
		case <-late:
			return &abort{fmt.Sprintf("the set-up took longer than %v", setupLimit), audit.Failed}
		case <-j.ctx.Done():
			return &abort{"canceled", audit.Requested}
		}
	}
}

// killChildren kills the launcher's children, which are libcontainer's stages
// and nothing else, again and again until the step that waits for them is over:
// one stage may start the next.
func killChildren(done <-chan struct{}) {
	for {
		for _, pid := range children() {
			_ = unix.Kill(pid, unix.SIGKILL) // ours and not yet waited for: the number can't be another's
		}
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// children reads /proc/self/task/TID/children (proc(5)).
func children() []int {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, s := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(s); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// setupError is err, or, where the caller ended the set-up, that.
func (j *Jail) setupError(err error) error {
	a := j.aborted.Load()
	if err == nil || a == nil {
		return err
	}
	return &jailer.Error{
		Code: jailer.CodeInternal, Reason: "setup.aborted",
		Message: "ended before the command had started: " + a.why,
	}
}
