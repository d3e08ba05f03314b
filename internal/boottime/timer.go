package boottime

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Timer sends once on C when its time has come. While it runs it costs one
// descriptor (timerfd_create(2)), in which the runtime's poller waits; once it
// is over, or stopped, it costs nothing.
type Timer struct {
	C <-chan struct{}

	c   chan struct{} // with room for the one value
	mu  sync.Mutex
	run *run // nil when not running
}

// run is one setting of a timer.
type run struct {
	end  time.Duration
	file *os.File // nil where the kernel gave no descriptor
}

// NewTimer gives a timer that ends d from now; one of no time at all, or less,
// ends at once. It never fails (see pollEvery).
func NewTimer(d time.Duration) *Timer {
	t := &Timer{c: make(chan struct{}, 1)}
	t.C = t.c
	t.Reset(d)
	return t
}

// Reset lets the timer end d from now, whatever it did before: an end that was
// not received is taken back. It reports whether there was one to come or to be
// received.
func (t *Timer) Reset(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.stop()
	r := &run{end: after(d)}
	r.file, _ = create(r.end)
	t.run = r
	go t.wait(r)
	return was
}

// Stop ends the timer: nothing can be received from C until the next Reset. It
// reports whether there was an end to come or to be received.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stop()
}

func (t *Timer) stop() bool {
	was := t.run != nil
	if was {
		t.run.close() // wakes wait, which sees that it is not its turn any more
		t.run = nil
	}
	select {
	case <-t.c:
		was = true
	default:
	}
	return was
}

func (t *Timer) wait(r *run) {
	if r.file != nil {
		var count [8]byte
		_, _ = r.file.Read(count[:]) // why it returned, the clock says
	}
	for {
		left := r.end - Now()
		t.mu.Lock()
		if t.run != r {
			t.mu.Unlock()
			return
		}
		if left <= 0 {
			t.run = nil
			r.close()
			t.c <- struct{}{} // stop took the one before
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		time.Sleep(min(left, pollEvery))
	}
}

// pollEvery is how late a timer may be, after a suspend, that has no descriptor:
// where a process may open no more of them a deadline is still kept.
const pollEvery = time.Second

func (r *run) close() {
	if r.file != nil {
		r.file.Close()
	}
}

// create is a variable so that a test can take the descriptors away.
var create = func(end time.Duration) (*os.File, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	// A time of 0 would disarm it (timerfd_settime(2)).
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(end), 1))}
	if err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME, &at, nil); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("timerfd_settime", err)
	}
	return os.NewFile(uintptr(fd), "timer"), nil
}
