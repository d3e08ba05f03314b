package launch

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/boottime"
	"github.com/jailer-project/jailer/limits"
)

// Step 13: stream, and watch the wall clock, the CPU clock, memory, output, the
// caller and its signals, until the main process has ended.
func (c *command) supervise() error {
	wall := boottime.NewTimer(c.plan.Limits.Timeout)
	defer wall.Stop()
	ttl := boottime.NewTimer(c.j.plan.Limits.TTL - c.j.age())
	defer ttl.Stop()
	cpu := time.NewTimer(c.nextCPUCheck())
	defer cpu.Stop()
	owner, stopOwner := WatchOwner(c.j.o.OwnerPID)
	c.owner = owner // drain watches on
	c.stopOwner = stopOwner
	done, resizes, closing, full := c.ctx.Done(), c.resizes(), c.closing, c.j.Full()
	var exceeded <-chan struct{} = c.exceeded
	if c.o.Streams != nil {
		exceeded = c.o.Streams.Exceeded
	}
	if c.j.only != nil {
		for _, sig := range c.j.early {
			c.signal(sig)
		}
	}
	for {
		select {
		case rep, ok := <-c.reports:
			c.endedAt = time.Now()
			if ok {
				c.exit = &rep
			}
			return nil
		case <-wall.C:
			c.stop(causeWall)
		case <-ttl.C:
			c.stop(causeTTL)
		case <-cpu.C:
			next := c.nextCPUCheck()
			if next <= 0 {
				c.stop(c.cpuCause())
				next = time.Hour
			}
			cpu.Reset(next)
		case ev, ok := <-c.events:
			if !ok {
				c.events = nil
			} else if ev.OOM {
				// Where the kernel has no oom.group (v1) one process is dead and
				// the rest would go on without it. The status is not ours to
				// set: it comes from the kernel's counter.
				c.kill()
			}
		case <-exceeded:
			c.stop(causeOutput)
			exceeded = nil
		case <-closing:
			c.stop(*c.j.endedBy())
			closing = nil
		case <-full:
			c.full()
			full = nil
		case sig := <-c.o.Signals:
			c.signal(sig)
		case size := <-resizes:
			c.resize(size)
		case <-owner:
			c.stop(causeOwner)
			owner = nil
		case <-done:
			c.stop(causeAborted)
			done = nil
		}
	}
}

// cpuCause is the wall clock's where both run out together, as they do for a
// spinning job whose CPU time nobody limited: the default is timeout × cpus.
func (c *command) cpuCause() cause {
	if c.plan.Limits.Timeout-time.Since(c.startedAt) < 200*time.Millisecond {
		return causeWall
	}
	return causeCPU
}

// stop ends the run for a cause; the first one wins.
func (c *command) stop(why cause) {
	if c.cause == (cause{}) {
		c.cause = why
	}
	c.kill()
}

// kill ends every process of the job: by its cgroup, and through PID 1, which
// kills all of its namespace and still reports. If it can't (it is out of
// memory, or stopped by a debugger on the host), it is killed itself a little
// later, which the kernel turns into the end of the whole namespace.
func (c *command) kill() {
	c.killGroup()
	if c.j.only == nil {
		return // PID 1 has other commands
	}
	if err := c.j.ctl.Kill(); err != nil {
		c.j.log.Debug("kill through PID 1", "err", err)
	}
	con := c.j.con
	time.AfterFunc(500*time.Millisecond, func() { _ = con.Kill() })
}

func (c *command) killGroup() {
	if c.job == nil {
		return
	}
	if err := c.job.Kill(); err != nil {
		c.j.log.Debug("cgroup kill", "err", err)
	}
}

// signal passes a signal on. INT and QUIT come from a terminal, which would
// send them to the whole foreground group; the others are for the main process.
// A second INT or TERM means "now", but not for a service, where nobody waits at a
// terminal: its end has a verb of its own, with a grace that an earlier TERM must not
// take away.
func (c *command) signal(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return
	}
	if !c.o.Service && (s == unix.SIGINT || s == unix.SIGTERM) {
		if c.interrupt != nil {
			c.stop(causeAborted)
			return
		}
		c.interrupt = s
	}
	var err error
	if s == unix.SIGINT || s == unix.SIGQUIT {
		err = c.j.ctl.SignalGroup(c.n, s)
	} else {
		err = c.j.ctl.Signal(c.n, s)
	}
	if err != nil {
		c.j.log.Debug("signal not passed on", "signal", s, "err", err)
	}
}

// nextCPUCheck is when the CPU clock can run out at the earliest: the rest of
// the budget, used up by as many CPUs as the job may have. 0 or less: it has.
// Without a cgroup the clock is RLIMIT_CPU's.
func (c *command) nextCPUCheck() time.Duration {
	if c.job == nil {
		return time.Hour
	}
	used, err := c.job.CPUTime()
	if err != nil {
		return 100 * time.Millisecond
	}
	return soonest(c.plan.Limits.CPUTime-used, c.plan.Limits.CPUs)
}

// soonest is how long so many CPUs take to use so much CPU time up. The division comes
// first: of a day on a thousand CPUs a thousandth is still within range, a thousandfold
// is not.
func soonest(rest time.Duration, cpus limits.CPUs) time.Duration {
	if rest <= 0 {
		return 0
	}
	return max(rest/time.Duration(cpus)*1000, 5*time.Millisecond)
}
