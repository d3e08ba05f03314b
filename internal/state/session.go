package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/audit"
)

// stagePrefix names directories that have no id yet.
const stagePrefix = ".new-"

// ErrExists is returned for an id that a live or unreaped jail has.
var ErrExists = errors.New("a session with this id exists")

// A Record is what gc needs to remove a jail whose launcher is gone.
type Record struct {
	V         int       `json:"v"`
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	PID       int       `json:"pid"`       // of the launcher; explains only
	StartTime uint64    `json:"startTime"` // of the launcher, clock ticks since boot; explains only
	BootID    string    `json:"bootId"`    // explains only
	HostUID   int       `json:"hostUid"`
	Cgroups   []string  `json:"cgroups"` // absolute directories, deepest last
	// Events is where the session's events are; absent where there is no log.
	Events *audit.Ref `json:"events,omitempty"`
}

// A Session is one jail's directory, locked for as long as it is open.
type Session struct {
	ID   string
	Path string // 0711 for root, else 0700
	Priv string // 0700: record and libcontainer's state
	lock *os.File
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
	r.V, r.PID, r.StartTime, r.BootID = 1, os.Getpid(), startTime(), bootID()
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(stage, "priv", "record.json"), data, 0o600); err != nil {
		return nil, err
	}
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

func takeLock(path string, how int) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if err := unix.Flock(fd, how); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, nil
}

// bootID tells one boot of the kernel from another (random(4)).
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// startTime is field 22 of /proc/self/stat (proc(5)), 0 where it can't be read.
func startTime() uint64 {
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	i := strings.LastIndexByte(string(b), ')')
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 20 {
		return 0
	}
	n, _ := strconv.ParseUint(f[19], 10, 64)
	return n
}
