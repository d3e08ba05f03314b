package launch

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func (r *run) started() {
	r.startedAt = time.Now()
	r.setup = r.startedAt.Sub(r.o.Began)
	if r.o.OnStart != nil {
		r.o.OnStart(Started{SessionID: r.o.ID, ExecID: execID, At: r.startedAt, SetupMs: r.setup.Milliseconds(), Stdin: r.o.Stdin != nil && !r.plan.HasStdin})
	}
}

// execID of the one command of a run.
const execID = "1"

// Step 11: stream, and watch the wall clock, the CPU clock, memory, output, the
// caller and its signals, until the main process has ended.
func (r *run) supervise() error {
	wall := time.NewTimer(r.plan.Limits.Timeout)
	defer wall.Stop()
	ttl := time.NewTimer(r.plan.Limits.TTL - time.Since(r.o.Began))
	defer ttl.Stop()
	cpu := time.NewTimer(r.nextCPUCheck())
	defer cpu.Stop()
	owner, stopOwner := watchOwner(r.o.OwnerPID)
	r.owner = owner // drain watches on
	r.later(func() error { stopOwner(); return nil })
	done, resizes := r.ctx.Done(), r.resizes()
	for _, sig := range r.early {
		r.signal(sig)
	}
	for {
		select {
		case rep, ok := <-r.reports:
			r.endedAt = time.Now()
			if ok {
				r.exit = &rep
			}
			return nil
		case <-wall.C:
			r.stop(causeWall)
		case <-ttl.C:
			r.stop(causeTTL)
		case <-cpu.C:
			next := r.nextCPUCheck()
			if next <= 0 {
				r.stop(r.cpuCause())
				next = time.Hour
			}
			cpu.Reset(next)
		case ev, ok := <-r.events:
			if !ok {
				r.events = nil
			} else if ev.OOM {
				// Where the kernel has no oom.group (v1) one process is dead and
				// the rest would go on without it. The status is not ours to
				// set: it comes from the kernel's counter.
				r.kill()
			}
		case <-r.exceeded:
			r.stop(causeOutput)
		case sig := <-r.o.Signals:
			r.signal(sig)
		case size := <-resizes:
			r.resize(size)
		case <-owner:
			r.stop(causeOwner)
			owner = nil
		case <-done:
			r.stop(causeAborted)
			done = nil
		}
	}
}

// cpuCause is the wall clock's where both run out together, as they do for a
// spinning job whose CPU time nobody limited: the default is timeout × cpus.
func (r *run) cpuCause() cause {
	if r.plan.Limits.Timeout-time.Since(r.startedAt) < 200*time.Millisecond {
		return causeWall
	}
	return causeCPU
}

// stop ends the run for a cause; the first one wins.
func (r *run) stop(c cause) {
	if r.cause == (cause{}) {
		r.cause = c
	}
	r.kill()
}

// kill ends every process of the job: by its cgroup, and through PID 1, which
// kills all of its namespace and still reports. If it can't (it is out of
// memory, or stopped by a debugger on the host), it is killed itself a little
// later, which the kernel turns into the end of the whole namespace.
func (r *run) kill() {
	if r.job != nil {
		if err := r.job.Kill(); err != nil {
			r.log.Debug("cgroup kill", "err", err)
		}
	}
	if err := r.ctl.Kill(); err != nil {
		r.log.Debug("kill through PID 1", "err", err)
	}
	con := r.con
	time.AfterFunc(500*time.Millisecond, func() { _ = con.Kill() })
}

// signal passes a signal on. INT and QUIT come from a terminal, which would
// send them to the whole foreground group; the others are for the main process.
// A second INT or TERM means "now".
func (r *run) signal(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	if s == unix.SIGINT || s == unix.SIGTERM {
		if r.interrupt != nil {
			r.stop(causeAborted)
			return
		}
		r.interrupt = s
	}
	var err error
	if s == unix.SIGINT || s == unix.SIGQUIT {
		err = r.ctl.SignalGroup(s)
	} else {
		err = r.ctl.Signal(s)
	}
	if err != nil {
		r.log.Debug("signal not passed on", "signal", s, "err", err)
	}
}

// nextCPUCheck is when the CPU clock can run out at the earliest: the rest of
// the budget, used up by as many CPUs as the job may have. 0 or less: it has.
// Without a cgroup the clock is RLIMIT_CPU's.
func (r *run) nextCPUCheck() time.Duration {
	if r.job == nil {
		return time.Hour
	}
	used, err := r.job.CPUTime()
	if err != nil {
		return 100 * time.Millisecond
	}
	rest := r.plan.Limits.CPUTime - used
	if rest <= 0 {
		return 0
	}
	return max(rest*1000/time.Duration(r.plan.Limits.CPUs), 5*time.Millisecond)
}
