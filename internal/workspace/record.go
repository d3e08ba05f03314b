package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A record is what a workspace's directory says of it.
type record struct {
	V           int       `json:"v"`
	Tenant      string    `json:"tenant"`
	Resource    string    `json:"resource"`
	Owner       int       `json:"owner"`   // uid of who made it
	HostUID     int       `json:"hostUid"` // of the files
	HostGID     int       `json:"hostGid"`
	CreatedAt   time.Time `json:"createdAt"`
	TokenSHA256 string    `json:"tokenSha256,omitempty"` // hex
}

// A Holder is who has a workspace, or had it and died. Each has a file of his own.
type Holder struct {
	SessionID string    `json:"sessionId"`
	StateDir  string    `json:"stateDir"`
	PID       int       `json:"pid"`
	StartTime uint64    `json:"startTime"` // of that process, in clock ticks since boot (proc(5))
	BootID    string    `json:"bootId"`
	Since     time.Time `json:"since"`
	ReadOnly  bool      `json:"readOnly,omitempty"`
}

const (
	recordFile    = "record.json"
	holdersDir    = "holders"
	markEnd       = ".json"
	lockFile      = "lock"
	filesDir      = "files"
	recordVersion = 1
	recordLimit   = 64 << 10 // more, in bytes, than any is
)

// tempPrefix begins the names of files that have none yet.
const tempPrefix = ".tmp-"

// writeJSON replaces a file of a directory, whole.
func writeJSON(dir, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	fresh := filepath.Join(dir, tempPrefix+random())
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync() // renamed before its content, it would be empty after a power cut
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(fresh, filepath.Join(dir, name))
	}
	if err != nil {
		os.Remove(fresh)
	}
	return err
}

func readJSON(dir, name string, v any) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, recordLimit))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// readRecord reads a workspace's own, and refuses one of a later program.
func readRecord(dir string) (*record, error) {
	r := new(record)
	if err := readJSON(dir, recordFile, r); err != nil {
		return nil, err
	}
	if r.V != recordVersion {
		return nil, fmt.Errorf("version %d of a record, known is %d: use the jailer that made it", r.V, recordVersion)
	}
	return r, nil
}

// marks gives the holders that are named, by the names of their files.
func marks(dir string) map[string]*Holder {
	all := map[string]*Holder{}
	names, _ := os.ReadDir(filepath.Join(dir, holdersDir))
	for _, n := range names {
		h := new(Holder)
		if strings.HasSuffix(n.Name(), markEnd) && readJSON(filepath.Join(dir, holdersDir), n.Name(), h) == nil && h.SessionID != "" {
			all[n.Name()] = h
		}
	}
	return all
}

// living is a holder who lives, nil where none is named.
func living(dir string) *Holder {
	for _, h := range marks(dir) {
		if h.lives() {
			return h
		}
	}
	return nil
}

// Self fills in what tells this process from one that gets its number later.
func (h Holder) Self() Holder {
	h.PID, h.StartTime, h.BootID = os.Getpid(), startTime(os.Getpid()), bootID()
	return h
}

// lives says whether the process is there still.
func (h *Holder) lives() bool {
	return h.BootID == bootID() && h.StartTime == startTime(h.PID) && h.StartTime != 0
}

// String is who it is, for people.
func (h *Holder) String() string {
	return fmt.Sprintf("session %s (process %d, since %s)", h.SessionID, h.PID, h.Since.UTC().Format(time.RFC3339))
}

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// startTime is field 22 of /proc/PID/stat, 0 where there is no such process, or its end
// alone is left of it: one that was killed may wait long for its turn to die on a busy
// host, and has SIGKILL pending meanwhile (proc_pid_stat(5), fields 9 and 31).
func startTime(pid int) uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 29 || f[0] == "Z" || f[0] == "X" {
		return 0
	}
	const exiting, killed = 0x4 /* PF_EXITING */, 1 << (unix.SIGKILL - 1)
	flags, _ := strconv.ParseUint(f[6], 10, 64)
	pending, _ := strconv.ParseUint(f[28], 10, 64)
	if flags&exiting != 0 || pending&killed != 0 {
		return 0
	}
	n, _ := strconv.ParseUint(f[19], 10, 64)
	return n
}

func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }
