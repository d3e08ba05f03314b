// Package state is what jailer keeps on disk about live jails: one directory
// each, a lock that is the jail's liveness, and a record of what to remove.
//
// The lock is an flock on the directory itself, taken before the directory has
// its name and held by a close-on-exec descriptor: the kernel drops it the
// moment the holder dies, however it dies. Whoever can take it may reap. The
// pid, start time and boot id in the record only explain; a pid can be reused.
package state

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Dir is jailer's state directory.
type Dir struct {
	Path string
	// Hint is set when the directory is a fallback that a user should know of.
	Hint string
	root bool
}

// rootDir is real root's state directory.
const rootDir = "/run/jailer"

var idPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,62}$`)

// CheckID refuses an id that is not ^[a-z0-9][a-z0-9_.-]{0,62}$. Nothing is
// rewritten to fit: two spellings must never meet in one directory.
func CheckID(id string) error {
	if !idPattern.MatchString(id) || strings.HasPrefix(id, stagePrefix) {
		return fmt.Errorf("session id %q: must match %s", id, idPattern)
	}
	return nil
}

// CgroupName is the name of a jail's cgroups, which are one tree for the whole
// host (or user) while ids are unique in one state directory only: a record of
// another directory must never name them. '+' can't be in an id.
func (d *Dir) CgroupName(id string) string {
	if d.Path == rootDir {
		return id
	}
	sum := sha256.Sum256([]byte(d.Path))
	return id + "+" + hex.EncodeToString(sum[:4])
}

// NewID makes a random id of 80 bits.
func NewID() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// Open finds or makes the state directory: path if given, /run/jailer for
// root, else $XDG_RUNTIME_DIR/jailer if that is the caller's, else
// /run/user/UID/jailer, else /tmp/jailer-UID. It is 0700 (0711 for root, whose
// jails' uids pass through it) and owned by the caller; anything else, a
// symlink included, is refused.
func Open(path, xdgRuntimeDir string) (*Dir, error) {
	d, err := locate(path, xdgRuntimeDir)
	if err != nil {
		return nil, err
	}
	mode := os.FileMode(0o700)
	if d.root {
		mode = 0o711
	}
	if err := os.Mkdir(d.Path, mode); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if err := checkDir(d.Path, os.Geteuid()); err != nil {
		return nil, err
	}
	return d, nil
}

// locate says where the state directory is, and makes nothing.
func locate(path, xdgRuntimeDir string) (*Dir, error) {
	uid := os.Geteuid()
	d := &Dir{root: uid == 0}
	switch {
	case path != "":
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("%q: must be an absolute path", path)
		}
		d.Path = filepath.Clean(path)
	case d.root:
		d.Path = rootDir
	case xdgRuntimeDir != "" && checkDir(xdgRuntimeDir, uid) == nil:
		d.Path = filepath.Clean(xdgRuntimeDir) + "/jailer"
	case checkDir("/run/user/"+strconv.Itoa(uid), uid) == nil:
		d.Path = "/run/user/" + strconv.Itoa(uid) + "/jailer"
	default:
		d.Path = "/tmp/jailer-" + strconv.Itoa(uid)
		d.Hint = "no XDG_RUNTIME_DIR that this user owns: state is kept in " + d.Path
	}
	return d, nil
}

const (
	privDir    = ".priv"
	eventsFile = "events.ndjson"
)

// FindEvents is the EventsPath of the directory that Open would open, for a reader:
// nothing is made, and what is there is judged. It may not be there.
func FindEvents(path, xdgRuntimeDir string) (string, error) {
	d, err := locate(path, xdgRuntimeDir)
	if err != nil {
		return "", err
	}
	for _, dir := range []string{d.Path, filepath.Join(d.Path, privDir)} {
		if err := checkDir(dir, os.Geteuid()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return filepath.Join(d.Path, privDir, eventsFile), nil
}

// EventsPath is the event log of the state directory.
func (d *Dir) EventsPath() (string, error) {
	priv, err := d.priv()
	return filepath.Join(priv, eventsFile), err
}

// priv is a directory that only the owner may search, also where jails pass through the
// one above.
func (d *Dir) priv() (string, error) {
	priv := filepath.Join(d.Path, privDir)
	if err := os.Mkdir(priv, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	if err := checkDir(priv, os.Geteuid()); err != nil {
		return "", err
	}
	return priv, nil
}

// An OwnerError is a state directory of another user's.
type OwnerError struct {
	Path       string
	Owner, UID int
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%s: is owned by uid %d, not by uid %d", e.Path, e.Owner, e.UID)
}

// checkDir refuses what somebody else could have put there first: a link, a
// directory of another owner, or one that others may write to.
func checkDir(path string, uid int) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != uid {
		return &OwnerError{path, int(st.Uid), uid}
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("%s: is writable by others (mode %04o)", path, st.Mode&0o7777)
	}
	return nil
}
