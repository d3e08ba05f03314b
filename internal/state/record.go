package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/audit"
)

// A Record is what gc needs to remove a jail whose launcher is gone.
type Record struct {
	V         int       `json:"v"`
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	PID       int       `json:"pid"`       // of the launcher; explains only
	StartTime uint64    `json:"startTime"` // of the launcher, clock ticks since boot; explains only
	BootID    string    `json:"bootId"`    // explains only
	HostUID   int       `json:"hostUid"`
	Tenant    string    `json:"tenant,omitempty"`
	Cgroups   []string  `json:"cgroups"` // absolute directories, deepest last
	// Events is where the session's events are; absent where there is no log.
	Events *audit.Ref `json:"events,omitempty"`
	// Session is what to tell of one that lives across commands; absent for a run.
	Session *SessionInfo `json:"session,omitempty"`
}

// SessionInfo explains; nothing is enforced by it.
type SessionInfo struct {
	TTLMs   int64             `json:"ttlMs"`
	IdleMs  int64             `json:"idleMs"`
	Profile string            `json:"profile"`
	Labels  map[string]string `json:"labels,omitempty"`
	// TokenSHA256, in hex, is of the token that its clients have to present.
	TokenSHA256 string `json:"tokenSha256,omitempty"`
	PID1        int    `json:"pid1,omitempty"` // as its launcher sees it; absent before it runs
}

const (
	recordFile    = "record.json"
	recordVersion = 1
)

// recordLimit is more, in bytes, than a record ever is.
const recordLimit = 128 << 10

// Update changes the record, which is always whole on disk: the new one replaces
// the old in one rename. What says whose it is, and since when, stays. After an
// error the old one stands.
func (s *Session) Update(change func(*Record)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record
	r.Cgroups = slices.Clone(r.Cgroups)
	if r.Session != nil {
		info := *r.Session
		info.Labels = maps.Clone(info.Labels)
		r.Session = &info
	}
	if r.Events != nil {
		ref := *r.Events
		r.Events = &ref
	}
	change(&r)
	o := s.record
	r.V, r.ID, r.CreatedAt, r.PID, r.StartTime, r.BootID = o.V, o.ID, o.CreatedAt, o.PID, o.StartTime, o.BootID
	if err := writeRecord(s.Priv, r); err != nil {
		return err
	}
	s.record = r
	return nil
}

// writeRecord refuses a record that readRecord would not read: gc would take the
// directory for one without cgroups, and remove it.
func writeRecord(priv string, r Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(data) > recordLimit {
		return fmt.Errorf("the session's record has %d bytes, more than %d", len(data), recordLimit)
	}
	fresh := filepath.Join(priv, recordFile+".new")
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(fresh, filepath.Join(priv, recordFile))
	}
	if err != nil {
		os.Remove(fresh)
	}
	return err
}

// readRecord gives nil for what is no record: nothing, a FIFO that would block, a
// link, a file without end. An error is a record that is there and can't be read,
// or not by this version of the program: what it names is not to be forgotten.
func readRecord(path string) (*Record, error) {
	f, err := os.OpenFile(filepath.Join(path, "priv", recordFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	for _, none := range []error{fs.ErrNotExist, unix.ELOOP, unix.ENOTDIR, unix.ENXIO} {
		if errors.Is(err, none) { // nothing, a link, no directory above, a socket
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > recordLimit {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(f, recordLimit))
	if err != nil {
		return nil, err
	}
	var r Record
	if json.Unmarshal(data, &r) != nil || r.V == 0 {
		return nil, nil
	}
	if r.V != recordVersion {
		return nil, fmt.Errorf("%s: version %d of a record, known is %d: use the jailer that made it", f.Name(), r.V, recordVersion)
	}
	return &r, nil
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
