package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Most bounds the jails that live at once in a state directory; 0 is no bound.
type Most struct {
	Sessions int
	OfTenant int // of the one that is to be made; what has no tenant is not bound
}

// A FullError says which bound is reached.
type FullError struct {
	Limit  int
	Tenant string // "" for all
}

func (e *FullError) Error() string {
	if e.Tenant != "" {
		return fmt.Sprintf("tenant %s has the %d sessions that the policy allows it", e.Tenant, e.Limit)
	}
	return fmt.Sprintf("there are the %d sessions that the policy allows", e.Limit)
}

// Key is the policy's key of the bound.
func (e *FullError) Key() string {
	if e.Tenant != "" {
		return "sessions.max_sessions_per_tenant"
	}
	return "sessions.max_sessions"
}

const (
	admission     = "admission" // the lock of those who count
	admissionWait = 10 * time.Second
)

// Admit counts the jails that live, and keeps others from making one until leave is
// called, when Create has returned: two who counted at once would both find the last
// place. Who is killed while it has the lock lets it go (flock(2)). A *FullError: there is
// no place.
func (d *Dir) Admit(ctx context.Context, tenant string, most Most) (leave func(), err error) {
	if most == (Most{}) {
		return func() {}, nil
	}
	priv, err := d.priv()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(priv, admission), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	for end := time.Now().Add(admissionWait); ; {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return nil, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
	}
	entries, err := d.List()
	if err != nil { // one that can't be looked at could be any
		return nil, err
	}
	all, its := 0, 0
	for _, e := range entries {
		if !e.Alive {
			continue
		}
		all++
		if e.Record == nil || e.Record.Tenant == tenant { // one that has no record yet could be its
			its++
		}
	}
	switch {
	case most.Sessions > 0 && all >= most.Sessions:
		return nil, &FullError{Limit: most.Sessions}
	case most.OfTenant > 0 && tenant != "" && its >= most.OfTenant:
		return nil, &FullError{Limit: most.OfTenant, Tenant: tenant}
	}
	return func() { f.Close() }, nil
}
