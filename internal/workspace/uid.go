package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Reserved says whether a host id is that of a workspace's files. It is asked by those
// who look for a free id, with the id locked, and one is reserved with it locked: no
// jail gets the id of files that it has not. A host without workspaces has no ids of any.
func Reserved(uid uint32) bool {
	_, err := os.Lstat(filepath.Join(rootData, uids, strconv.Itoa(int(uid))))
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR)
}

func (s *Store) marker(uid int) string { return filepath.Join(s.uids, strconv.Itoa(uid)) }

// reserve notes that an id is that of the workspace in dir.
func (s *Store) reserve(uid int, dir string) error {
	f, err := os.OpenFile(s.marker(uid), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return noData(err)
	}
	_, err = f.WriteString(dir)
	return errors.Join(err, f.Close())
}

// free gives an id back that was reserved for the workspace in dir.
func (s *Store) free(uid int, dir string) {
	if b, err := os.ReadFile(s.marker(uid)); err == nil && string(b) == dir {
		os.Remove(s.marker(uid))
	}
}
