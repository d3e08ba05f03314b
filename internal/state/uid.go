package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A UID is one host uid held for one jail. Real root gives every live jail an
// id of its own, so that no two share RLIMIT_NPROC, keyrings, or the right to
// signal each other.
type UID struct {
	ID   uint32
	lock *os.File
}

// ErrNoUID is returned when every id of the range is taken.
var ErrNoUID = errors.New("every uid of root.uid_range is in use")

// TakeUID locks an unused id of [lo, hi]. The lock is one byte of one file, at
// the id's offset, of the open-file-description kind (fcntl(2), F_OFD_SETLK):
// it dies with the launcher. The search starts at a random id, so that an id
// is not handed on while the processes of a killed jail still die. An id is passed over
// if skip, which may be nil, says so when it is locked.
func (d *Dir) TakeUID(lo, hi uint32, skip func(uint32) bool) (*UID, error) {
	if lo == 0 || hi < lo {
		return nil, fmt.Errorf("uid range %d-%d", lo, hi)
	}
	f, err := os.OpenFile(filepath.Join(d.Path, ".uids"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	n := uint64(hi-lo) + 1
	first := rand.Uint64N(n)
	for i := range n {
		id := lo + uint32((first+i)%n)
		lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0, Start: int64(id), Len: 1}
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk)
		if err == nil && skip != nil && skip(id) {
			lk.Type = unix.F_UNLCK
			if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk); err != nil {
				f.Close()
				return nil, fmt.Errorf("unlock uid %d: %w", id, err)
			}
			continue
		}
		if err == nil {
			return &UID{ID: id, lock: f}, nil
		}
		if err != unix.EAGAIN && err != unix.EACCES {
			f.Close()
			return nil, fmt.Errorf("lock uid %d: %w", id, err)
		}
	}
	f.Close()
	return nil, ErrNoUID
}

// ShareUID locks an id beside others who share it: jails that read the files of one
// owner. While one holds it TakeUID gives it to nobody.
func (d *Dir) ShareUID(id uint32) (*UID, error) {
	f, err := os.OpenFile(filepath.Join(d.Path, ".uids"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	lk := unix.Flock_t{Type: unix.F_RDLCK, Whence: 0, Start: int64(id), Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk); err != nil {
		f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, ErrNoUID
		}
		return nil, fmt.Errorf("lock uid %d: %w", id, err)
	}
	return &UID{ID: id, lock: f}, nil
}

// Release gives the id back.
func (u *UID) Release() error { return u.lock.Close() }
