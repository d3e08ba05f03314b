package session

import (
	"sync"
	"time"

	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/boottime"
)

// activity is the session's clock: when it ends by itself. Times are of CLOCK_BOOTTIME,
// which nobody sets, and which goes on while the host is suspended.
type activity struct {
	ttl   time.Duration // when the time to live is over
	idle  time.Duration // for how long it may be idle; 0: for ever
	quiet chan struct{} // has a value after a command was the last one to end

	mu    sync.Mutex
	busy  int           // commands that run
	since time.Duration // when the last one ended
	used  bool          // there was a command
	ended bool
}

// newActivity is that of a session that began then. Its time to live counts from
// there, its first idle time from now: making it was no idleness.
func newActivity(began, ttl, idle time.Duration) *activity {
	return &activity{ttl: began + ttl, idle: idle, quiet: make(chan struct{}, 1), since: boottime.Now()}
}

// enter is false once the session is at its end. A lease keeps it from being idle
// until leave, which may be called again.
func (a *activity) enter(lease bool) (leave func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil, false
	}
	a.used = true
	if !lease {
		return func() {}, true
	}
	a.busy++
	return sync.OnceFunc(a.leave), true
}

func (a *activity) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy--
	if a.busy > 0 {
		return
	}
	a.since = boottime.Now()
	select {
	case a.quiet <- struct{}{}:
	default:
	}
}

// end is the moment after which nothing new begins.
func (a *activity) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
}

// expired ends the session if its time is over, and says why; else when to ask again.
func (a *activity) expired() (why audit.Reason, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := boottime.Now()
	wait = a.ttl - now
	if wait <= 0 {
		a.ended = true
		return audit.TTL, 0
	}
	if a.idle == 0 || a.busy > 0 {
		return "", wait
	}
	left := a.since + a.idle - now
	if left <= 0 {
		a.ended = true
		return audit.Idle, 0
	}
	return "", min(wait, left)
}

// look is how many commands run, and whether there ever was one.
func (a *activity) look() (busy int, used, ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.busy, a.used, a.ended
}
