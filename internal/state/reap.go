package state

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/audit"
)

// A Leak is a jail whose launcher is gone.
type Leak struct {
	ID      string    `json:"id"`
	Path    string    `json:"path"`
	Record  *Record   `json:"record,omitempty"` // absent when it never got one
	Since   time.Time `json:"since"`
	Removed bool      `json:"removed"`
	Err     string    `json:"error,omitempty"`
	Warning string    `json:"warning,omitempty"` // an event that is lost, where the policy says log
}

// Reap finds the jails that nobody holds and, unless dryRun, removes their
// processes, recorded cgroups and directories. It is idempotent, and two at
// once don't harm each other: each jail is reaped under its own lock. What it
// can't remove is reported and left for the next time.
func (d *Dir) Reap(ctx context.Context, dryRun bool) ([]Leak, error) {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, err
	}
	var leaks []Leak
	locked := map[string]error{}
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || !reapable(name) {
			continue
		}
		if l, found := d.reapOne(ctx, name, dryRun, locked); found {
			leaks = append(leaks, l)
		}
	}
	return leaks, nil
}

// ReapOne is Reap for the jail of one id. It is false where there is nothing to
// reap: no such jail, a live one, or one that another gc is at.
func (d *Dir) ReapOne(ctx context.Context, id string) (Leak, bool) {
	if CheckID(id) != nil {
		return Leak{}, false
	}
	return d.reapOne(ctx, id, false, map[string]error{})
}

// What bounds ReapSome.
const (
	someTime = 100 * time.Millisecond
	someAge  = 2 * time.Second // since a directory changed
	someOf   = 128             // directories that are looked at
)

// ReapSome is a Reap for the start of something else: it looks at 128 directories
// at most, tries n leaks at most, and stops after 100 ms. It passes over directories
// that changed in the last two seconds, which their own launcher may be about to
// remove. What it can't remove is left for gc, which says why. It begins anywhere, so
// that leaks that can't be removed don't hide others for ever.
func (d *Dir) ReapSome(ctx context.Context, n int) []Leak {
	ctx, cancel := context.WithTimeout(ctx, someTime)
	defer cancel()
	f, err := os.Open(d.Path)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	if len(names) == 0 {
		return nil
	}
	var leaks []Leak
	locked := map[string]error{}
	for i, first := 0, rand.IntN(len(names)); i < min(len(names), someOf) && len(leaks) < n && ctx.Err() == nil; i++ {
		name := names[(first+i)%len(names)]
		path := filepath.Join(d.Path, name)
		if !reapable(name) || held(path) || youngerThan(path, someAge) {
			continue
		}
		if l, found := d.reapOne(ctx, name, false, locked); found {
			leaks = append(leaks, l)
		}
	}
	return leaks
}

// reapable tells the names of jails, and of directories that were to become ones,
// from all others.
func reapable(name string) bool {
	return idPattern.MatchString(name) || strings.HasPrefix(name, stagePrefix)
}

// held passes over what is no leak, for the price of one lock.
func held(path string) bool {
	h, err := alive(path)
	return h || err != nil
}

func youngerThan(path string, age time.Duration) bool {
	st, err := os.Lstat(path)
	return err == nil && time.Since(st.ModTime()) < age
}

// stageTime is much more than a launcher needs between making a directory and
// naming it.
const stageTime = 5 * time.Second

// reapOne waits for the lock of an event log once: locked has those that were waited
// for in vain.
func (d *Dir) reapOne(ctx context.Context, name string, dryRun bool, locked map[string]error) (Leak, bool) {
	path := filepath.Join(d.Path, name)
	if strings.HasPrefix(name, stagePrefix) && youngerThan(path, stageTime) {
		return Leak{}, false // its maker is at it: no record names it for longer than that
	}
	lock, ok := lockDead(ctx, path)
	if !ok {
		return Leak{}, false // alive, or gone, or another gc is at it
	}
	defer lock.Close()
	l := Leak{ID: name, Path: path}
	if st, err := lock.Stat(); err == nil {
		l.Since = st.ModTime().UTC()
	}
	var err error
	if l.Record, err = readRecord(path); err != nil {
		l.Err = err.Error()
		return l, true
	}
	if dryRun {
		return l, true
	}
	if l.Record != nil {
		// PID 1 dies with its launcher, so these are empty in milliseconds;
		// a cgroup that isn't (a process in uninterruptible sleep) stays, and
		// with it the record that names it.
		if err := cgroup.Reap(ctx, l.Record.Cgroups); err != nil {
			l.Err = err.Error()
			return l, true
		}
	}
	if l.Record != nil && l.Record.Events != nil {
		// Before the directory goes: it alone says that something is owed.
		log := l.Record.Events.Path
		err := locked[log]
		if err == nil {
			err = l.Record.Events.Reap(ctx, l.Record.CreatedAt, marks(filepath.Join(path, "priv")))
		}
		if errors.Is(err, audit.ErrLocked) {
			locked[log] = err
		}
		if err != nil {
			if !l.Record.Events.MayLose {
				l.Err = err.Error()
				return l, true
			}
			l.Warning = err.Error()
		}
	}
	if err := os.RemoveAll(path); err != nil {
		l.Err = err.Error()
		return l, true
	}
	l.Removed = true
	return l, true
}
