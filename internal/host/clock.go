package host

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// suspend is a report: time limits count CLOCK_MONOTONIC, which stands still while
// the host is suspended; CLOCK_BOOTTIME doesn't (clock_gettime(2)).
func (h *Host) suspend() Finding {
	f := Finding{ID: "clock.boottime", State: Yes, Where: "clock_gettime(2)", Reason: "the host was not suspended since it booted"}
	slept, err := h.Slept()
	switch {
	case err != nil:
		f.State, f.Reason = Unknown, "CLOCK_BOOTTIME can't be read: "+cause(err)
	case slept >= time.Second:
		f.State, f.Hint = No, "systemctl mask sleep.target suspend.target hibernate.target"
		f.Reason = fmt.Sprintf("the host was suspended for %v since it booted, which no time limit counts", slept.Round(time.Second))
	}
	return f
}

func slept() (time.Duration, error) {
	var mono, boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		return 0, err
	}
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return 0, err
	}
	return time.Duration(boot.Nano() - mono.Nano()), nil
}

// clockSynced is a report: limits are measured in clocks that nobody sets, but
// the stamps of results are those of the wall clock, and so is the age of a kernel.
func (h *Host) clockSynced() Finding {
	f := Finding{ID: "clock.synced", State: Yes, Where: "adjtimex(2)", Reason: "the wall clock is synchronised"}
	ok, err := h.Synced()
	switch {
	case err != nil:
		f.State, f.Reason = Unknown, "the kernel says: "+cause(err)
	case !ok:
		f.State, f.Reason = No, "nothing synchronises the wall clock: the stamps of results may be wrong, their durations are not"
		f.Hint = "timedatectl set-ntp true"
	}
	return f
}

// synced reads, and sets nothing (modes is 0), which needs no privilege.
func synced() (bool, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, err
}
