package state

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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
		if !e.IsDir() || !(idPattern.MatchString(name) || strings.HasPrefix(name, stagePrefix)) {
			continue
		}
		if l, found := d.reapOne(ctx, name, dryRun, locked); found {
			leaks = append(leaks, l)
		}
	}
	return leaks, nil
}

// reapOne waits for the lock of an event log once: locked has those that were waited
// for in vain.
func (d *Dir) reapOne(ctx context.Context, name string, dryRun bool, locked map[string]error) (Leak, bool) {
	path := filepath.Join(d.Path, name)
	if strings.HasPrefix(name, stagePrefix) && young(path) {
		return Leak{}, false // its maker is at it: no record names it for longer than that
	}
	lock, err := takeLock(path, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return Leak{}, false // alive, or gone, or another gc is at it
	}
	defer lock.Close()
	if !stillThere(lock, path) {
		return Leak{}, false
	}
	l := Leak{ID: name, Path: path}
	if st, err := lock.Stat(); err == nil {
		l.Since = st.ModTime().UTC()
	}
	l.Record = readRecord(path)
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

// stageTime is much more than a launcher needs between making a directory and
// naming it.
const stageTime = 5 * time.Second

func young(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && time.Since(st.ModTime()) < stageTime
}

// stillThere guards against a directory that was removed, and perhaps made
// again, between our open and our lock.
func stillThere(f *os.File, path string) bool {
	var a, b unix.Stat_t
	if unix.Fstat(int(f.Fd()), &a) != nil || unix.Lstat(path, &b) != nil {
		return false
	}
	return a.Dev == b.Dev && a.Ino == b.Ino
}

// recordLimit is more, in bytes, than a record ever is.
const recordLimit = 128 << 10

// readRecord gives nil for what is no record: a FIFO that would block, a link, a
// file without end.
func readRecord(path string) *Record {
	f, err := os.OpenFile(filepath.Join(path, "priv", "record.json"), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() > recordLimit {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(f, recordLimit))
	if err != nil {
		return nil
	}
	var r Record
	if json.Unmarshal(data, &r) != nil || r.V != 1 {
		return nil
	}
	return &r
}

// ErrLeaks is what a check reports.
var ErrLeaks = errors.New("leaked sessions found")
