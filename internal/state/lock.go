package state

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func openDir(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func takeLock(path string, how int) (*os.File, error) {
	fd, err := openDir(path)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	if err := unix.Flock(fd, how); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, nil
}

// lookTime is much more than a look takes, and lookEvery what one takes about.
const (
	lookTime  = 500 * time.Millisecond
	lookEvery = time.Millisecond
)

// lockDead takes the lock of a jail that nobody holds. Who only looks (alive)
// holds a shared lock for a moment, so a lock that can be shared is no sign of
// life, and is waited for: otherwise a `jailer list` could hide a leak from gc.
// Another gc, and the jail itself, lock alone.
func lockDead(ctx context.Context, path string) (*os.File, bool) {
	f, err := takeLock(path, unix.LOCK_EX|unix.LOCK_NB)
	for end := time.Now().Add(lookTime); errors.Is(err, unix.EWOULDBLOCK); {
		shared, err2 := takeLock(path, unix.LOCK_SH|unix.LOCK_NB)
		if err2 != nil {
			return nil, false
		}
		shared.Close()
		if ctx.Err() != nil || time.Now().After(end) {
			return nil, false
		}
		// Two collectors that find each other looking part by chance.
		time.Sleep(time.Duration(rand.Int64N(int64(lookEvery))))
		f, err = takeLock(path, unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return nil, false
	}
	if !stillThere(f, path) {
		f.Close()
		return nil, false
	}
	return f, true
}

// alive tells whether somebody holds the lock alone: the jail's launcher, or a gc
// that removes it this moment. The lock that it takes to find out is shared with
// other lookers, goes at once, and stops nobody: a launcher has its own before the
// directory can be looked at, and gc waits (lockDead).
func alive(path string) (bool, error) {
	fd, err := openDir(path) // no os.File: a start looks at every jail
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	if err := unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB); err != nil {
		if err == unix.EWOULDBLOCK {
			return true, nil
		}
		return false, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return false, nil
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
