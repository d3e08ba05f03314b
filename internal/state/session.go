package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/audit"
)

// stagePrefix names directories that have no id yet.
const stagePrefix = ".new-"

// ErrExists is returned for an id that a live or unreaped jail has.
var ErrExists = errors.New("a session with this id exists")

// A Session is one jail's directory, locked for as long as it is open.
type Session struct {
	ID   string
	Path string // 0711 for root, else 0700
	Priv string // 0700: record, socket and libcontainer's state
	lock *os.File

	mu     sync.Mutex
	record Record
}

// Create makes the directory of a jail, takes its lock, writes the record and
// only then gives the directory its name, in one rename that refuses to
// replace: there is no moment at which a gc could see it unlocked or half made.
func (d *Dir) Create(r Record) (s *Session, err error) {
	if err := CheckID(r.ID); err != nil {
		return nil, err
	}
	mode := os.FileMode(0o700)
	if d.root {
		mode = 0o711
	}
	stage := filepath.Join(d.Path, stagePrefix+NewID())
	if err := os.Mkdir(stage, mode); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(stage)
		}
	}()
	lock, err := takeLock(stage, unix.LOCK_EX) // a gc that looks at it lets go at once
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	s = &Session{ID: r.ID, Path: filepath.Join(d.Path, r.ID), lock: lock}
	s.Priv = filepath.Join(s.Path, "priv")
	if err := os.Mkdir(filepath.Join(stage, "priv"), 0o700); err != nil {
		return nil, err
	}
	r.V, r.PID, r.StartTime, r.BootID = recordVersion, os.Getpid(), startTime(), bootID()
	if err := writeRecord(filepath.Join(stage, "priv"), r); err != nil {
		return nil, err
	}
	s.record = r
	err = unix.Renameat2(unix.AT_FDCWD, stage, unix.AT_FDCWD, s.Path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("%w: %s", ErrExists, r.ID)
	}
	if err != nil {
		return nil, &os.PathError{Op: "rename", Path: s.Path, Err: err}
	}
	return s, nil
}

// Marks is the file in which the launcher notes what the event log has.
func (s *Session) Marks() audit.Marks { return marks(s.Priv) }

func marks(priv string) audit.Marks { return audit.Marks(filepath.Join(priv, "events")) }

// Remove deletes the directory and drops the lock.
func (s *Session) Remove() error {
	err := os.RemoveAll(s.Path)
	return errors.Join(err, s.lock.Close())
}

// Abandon drops the lock and leaves the rest to gc.
func (s *Session) Abandon() { s.lock.Close() }
