package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/trust"
)

// rootData is where real root keeps what outlives a session.
const rootData = "/var/lib/jailer"

// Locate says where a user's data is: --data-dir, for root /var/lib/jailer, else
// $XDG_DATA_HOME/jailer or ~/.local/share/jailer (XDG Base Directory Specification 0.8,
// where a relative name counts as none). "" is nowhere.
func Locate(given, dataHome, home string) string {
	switch {
	case given != "":
		return filepath.Clean(given)
	case os.Geteuid() == 0:
		return rootData
	case filepath.IsAbs(dataHome):
		return filepath.Join(dataHome, "jailer")
	case filepath.IsAbs(home):
		return filepath.Join(home, ".local/share/jailer")
	}
	return ""
}

// A Store is the data directory of one user.
type Store struct {
	path string
	uids string // of the ids that workspaces of root's have
}

// The directories of a store.
const (
	workspaces = "workspaces"
	trash      = "trash"
	uids       = "uids"
)

// There says whether there is a store in a directory.
func There(path string) bool {
	st, err := os.Lstat(filepath.Join(path, workspaces))
	return path != "" && err == nil && st.IsDir()
}

// Open finds or makes the store in a directory, an absolute path: 0700, the caller's
// own, on a way that nobody else could change.
func Open(path string) (*Store, error) {
	if path == "" {
		return nil, noData(errors.New("no XDG_DATA_HOME, no HOME"))
	}
	if !filepath.IsAbs(path) {
		return nil, noData(fmt.Errorf("%q: must be an absolute path", path))
	}
	path = filepath.Clean(path)
	if err := errors.Join(makeWay(path), ownDir(path)); err != nil {
		return nil, noData(err)
	}
	if err := (trust.Rules{Owners: []int{0, os.Geteuid()}, Links: true, Sticky: true}).Path(path); err != nil {
		return nil, noData(err)
	}
	s := &Store{path: path, uids: filepath.Join(path, uids)}
	for _, d := range []string{workspaces, trash} {
		if err := ownDir(filepath.Join(path, d)); err != nil {
			return nil, noData(err)
		}
	}
	if os.Geteuid() == 0 {
		// In one place for the whole host, whatever --data-dir says: no other jail must
		// get the id of somebody's files.
		s.uids = filepath.Join(rootData, uids)
		for _, d := range []string{rootData, s.uids} {
			if err := ownDir(d); err != nil {
				return nil, noData(err)
			}
		}
	}
	return s, nil
}

func noData(err error) error {
	return &jailer.Error{
		Code: jailer.CodeInternal, Op: "workspace.store", Reason: "data.dir", Message: "the data directory can't be used", Err: err,
		Hint: "name one that this user owns, on a disk with room, with --data-dir; `jailer doctor` tells what is wrong with the usual one",
	}
}

// makeWay makes the directories above path that are not there.
func makeWay(path string) error {
	above := filepath.Dir(path)
	if _, err := os.Stat(above); err == nil || above == path {
		return nil
	}
	if err := makeWay(above); err != nil {
		return err
	}
	if err := os.Mkdir(above, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// ownDir makes a directory, or finds one that is the caller's alone.
func ownDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s: is not this user's alone (uid %d, mode %04o)", path, st.Uid, st.Mode&0o7777)
	}
	return nil
}

// PathOf is where the files of a workspace are, or would be: nothing is made, nor looked
// at. "" is a name that is none.
func PathOf(store, name string) string {
	n, err := ParseName(name)
	if err != nil {
		return ""
	}
	return filepath.Join((&Store{path: store}).dirOf(n), filesDir)
}

func (s *Store) dirOf(n Name) string { return filepath.Join(s.path, workspaces, n.dir()) }

// stagePrefix names directories that have no name yet.
const stagePrefix = ".new-"

func random() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
