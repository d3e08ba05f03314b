// Package boottime has the clock by which a session lives and dies:
// CLOCK_BOOTTIME (clock_gettime(2)), which no step of the wall clock moves and
// which goes on while the machine sleeps. Go's own timers go by
// CLOCK_MONOTONIC, which stands still then: a deadline would come too late by
// as long as the machine slept.
package boottime

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since boot, suspend included. In a time namespace it has the
// offset of that (time_namespaces(7)), as the timers have.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("boottime: " + err.Error()) // since Linux 2.6.39; nothing that runs jails lacks it
	}
	return time.Duration(ts.Nano())
}

// after is the moment d from now, or the last there is.
func after(d time.Duration) time.Duration {
	now := Now()
	if d > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + max(d, 0)
}
