package workspace

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
)

// Options say who wants a workspace, and how.
type Options struct {
	Create    bool   // make it if it is not there
	ReadOnly  bool   // beside other readers; no writer meanwhile
	TokenHash []byte // SHA-256; of a new one it becomes the token's
	Holder    Holder

	// Reap makes sure that nothing of a dead writer's jail is left: the lock goes with the
	// launcher, the jail's last process a moment later. An error keeps the workspace busy.
	Reap func(context.Context, Holder) error

	// NewUID gives the id of a new workspace's files; nil: they are the caller's.
	NewUID func() (uid, gid int, err error)
}

// A Workspace is held.
type Workspace struct {
	Name    Name
	HostUID int // whose the files are
	HostGID int
	store   *Store
	dir     string
	lock    *os.File
	mark    string // the file that names its holder
}

// attempts bounds how often a workspace is looked for that somebody makes or removes
// meanwhile.
const attempts = 20

// Acquire takes a workspace, or says who has it; it never waits for that. The lock is
// an flock(2) on a file of the workspace's: the kernel lets go of it when the holder
// dies.
func (s *Store) Acquire(ctx context.Context, n Name, o Options) (*Workspace, error) {
	for range attempts {
		w, err := s.tryAcquire(ctx, n, o)
		if err == nil || !errors.Is(err, errAgain) {
			return w, err
		}
	}
	return nil, &jailer.Error{
		Code: jailer.CodeWorkspaceBusy, Op: "workspace.acquire", Retryable: true,
		Message: fmt.Sprintf("workspace %s is made and removed by others all the time", n),
	}
}

var errAgain = errors.New("changed meanwhile")

func (s *Store) tryAcquire(ctx context.Context, n Name, o Options) (*Workspace, error) {
	dir := s.dirOf(n)
	if _, err := os.Lstat(dir); notThere(err) {
		if !o.Create {
			return nil, &jailer.Error{
				Code: jailer.CodeWorkspaceNotFound, Op: "workspace.acquire", Message: "there is no workspace " + n.String(),
				Hint: "list them: jailer workspace list",
			}
		}
		if err := s.create(n, o); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
	} else if err != nil {
		return nil, noData(err)
	}
	lock, err := patientLock(n, dir, o.ReadOnly)
	if err != nil {
		return nil, err
	}
	w := &Workspace{Name: n, store: s, dir: dir, lock: lock}
	if err := w.open(ctx, o); err != nil {
		lock.Close()
		return nil, err
	}
	return w, nil
}

// takeLock locks a workspace that is there. Somebody may have moved it away between
// the open and the lock: then the lock is on nothing.
func takeLock(dir string, shared bool) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if notThere(err) {
		return nil, errAgain
	}
	if err != nil {
		return nil, noData(err)
	}
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	for {
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		var here, there unix.Stat_t
		if unix.Fstat(int(f.Fd()), &here) != nil || unix.Lstat(filepath.Join(dir, lockFile), &there) != nil || here.Dev != there.Dev || here.Ino != there.Ino {
			err = errAgain
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// nameWait is how long a holder may take to say who he is, and whoever only looks at a
// workspace to let it go again.
const nameWait = time.Second

// dyingTime is how long a process that was killed may still be seen.
const dyingTime = 50 * time.Millisecond

// patientLock takes the lock, or names the holder. One who has just come may not have
// written his name yet.
func patientLock(n Name, dir string, shared bool) (*os.File, error) {
	var seen time.Time // a living holder
	for end := time.Now().Add(nameWait); ; time.Sleep(5 * time.Millisecond) {
		f, err := takeLock(dir, shared)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return f, err
		}
		e := &jailer.Error{
			Code: jailer.CodeWorkspaceBusy, Op: "workspace.acquire", Retryable: true,
			Message: fmt.Sprintf("workspace %s is in use", n), Hint: "wait until it is free, or end that session",
		}
		nobody := "; its session is over, and a file command of it (jailer fs, export, import) still at work"
		// One who has just been killed lives for a moment.
		if h := living(dir); h == nil {
			seen = time.Time{}
		} else if seen.IsZero() {
			seen = time.Now()
		} else if time.Since(seen) > dyingTime {
			e.Message += " by " + h.String()
			return nil, e
		}
		if time.Now().After(end) {
			e.Message += nobody
			e.Hint = "wait until it is free, or end that command"
			return nil, e
		}
	}
}

// create makes a workspace beside its place, and moves it there whole.
func (s *Store) create(n Name, o Options) (err error) {
	uid, gid := os.Geteuid(), os.Getegid()
	if o.NewUID != nil {
		if uid, gid, err = o.NewUID(); err != nil {
			return err
		}
	}
	stage := filepath.Join(s.path, workspaces, stagePrefix+random())
	if err := os.Mkdir(stage, 0o700); err != nil {
		return noData(err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(stage) // nobody else has been in it
		}
	}()
	for d, mode := range map[string]os.FileMode{filesDir: 0o755, holdersDir: 0o700} {
		if err := os.Mkdir(filepath.Join(stage, d), mode); err != nil {
			return noData(err)
		}
	}
	if o.NewUID != nil {
		if err := os.Lchown(filepath.Join(stage, filesDir), uid, gid); err != nil {
			return noData(err)
		}
	}
	r := record{
		V: recordVersion, Tenant: n.Tenant, Resource: n.Resource, Owner: os.Geteuid(), HostUID: uid, HostGID: gid,
		CreatedAt: time.Now().UTC(), TokenSHA256: hex.EncodeToString(o.TokenHash),
	}
	if err := writeJSON(stage, recordFile, r); err != nil {
		return noData(err)
	}
	if o.NewUID != nil {
		if err := s.reserve(uid, s.dirOf(n)); err != nil {
			return err
		}
	}
	err = unix.Renameat2(unix.AT_FDCWD, stage, unix.AT_FDCWD, s.dirOf(n), unix.RENAME_NOREPLACE)
	if err != nil && o.NewUID != nil {
		s.free(uid, s.dirOf(n))
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return noData(err)
	}
	return err
}

// open looks whether the one who has the lock may have the workspace, ends what dead
// holders have left, and writes his name.
func (w *Workspace) open(ctx context.Context, o Options) error {
	r, err := readRecord(w.dir)
	if err != nil {
		return &jailer.Error{
			Code: jailer.CodeInternal, Op: "workspace.acquire", Message: fmt.Sprintf("the record of workspace %s can't be used", w.Name), Err: err,
			Hint: "jailer workspace rm removes it with its files",
		}
	}
	if err := r.permits(w.Name, o.TokenHash); err != nil {
		return err
	}
	w.HostUID, w.HostGID = r.HostUID, r.HostGID
	if err := w.reap(ctx, o.Reap); err != nil {
		return err
	}
	h := o.Holder
	now := time.Now()
	h.Since, h.ReadOnly = now.UTC(), o.ReadOnly
	// He may be killed, and never let it go: it was used all the same.
	if err := os.Chtimes(filepath.Join(w.dir, lockFile), now, now); err != nil {
		return noData(err)
	}
	w.mark = random() + markEnd
	if err := writeJSON(filepath.Join(w.dir, holdersDir), w.mark, h); err != nil {
		return noData(err)
	}
	return nil
}

// reap ends what dead holders have left, and then takes their marks away. One whose
// jail is still there keeps his.
func (w *Workspace) reap(ctx context.Context, end func(context.Context, Holder) error) error {
	for name, h := range marks(w.dir) {
		if h.lives() {
			continue // beside us, as a reader
		}
		if !h.ReadOnly && end != nil {
			if err := end(ctx, *h); err != nil {
				return &jailer.Error{
					Code: jailer.CodeWorkspaceBusy, Op: "workspace.acquire", Retryable: true, Err: err,
					Message: fmt.Sprintf("what session %s left of its jail may still write to workspace %s", h.SessionID, w.Name),
					Hint:    "jailer gc says what holds it",
				}
			}
		}
		if err := os.Remove(filepath.Join(w.dir, holdersDir, name)); err != nil && !notThere(err) {
			return noData(err)
		}
	}
	return nil
}

// permits refuses the workspace to another owner, and to whoever has another token.
func (r *record) permits(n Name, token []byte) error {
	deny := func(message string) error {
		return &jailer.Error{Code: jailer.CodeUnauthorized, Op: "workspace.acquire", Message: message}
	}
	if r.Tenant != n.Tenant || r.Resource != n.Resource {
		return deny("the workspace is another one")
	}
	if r.Owner != os.Geteuid() && os.Geteuid() != 0 {
		return deny(fmt.Sprintf("workspace %s is another user's", n))
	}
	if r.TokenSHA256 == "" {
		return nil
	}
	want, err := hex.DecodeString(r.TokenSHA256)
	if err == nil && subtle.ConstantTimeCompare(want, token) == 1 {
		return nil
	}
	if token == nil {
		return deny(fmt.Sprintf("workspace %s has a token, and none was given", n))
	}
	return deny(fmt.Sprintf("workspace %s has a token, and this is not it", n))
}

// Path is the directory of the files.
func (w *Workspace) Path() string { return filepath.Join(w.dir, filesDir) }

// Open opens the directory of the files, to be read by this process.
func (w *Workspace) Open() (*os.File, error) {
	fd, err := unix.Open(w.Path(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, noData(err)
	}
	return os.NewFile(uintptr(fd), "workspace"), nil
}

// Hold gives another descriptor of the lock: the workspace is not free before that, too,
// is closed, whoever has it then (flock(2)).
func (w *Workspace) Hold() (*os.File, error) {
	fd, err := unix.FcntlInt(w.lock.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, noData(os.NewSyscallError("fcntl", err))
	}
	return os.NewFile(uintptr(fd), "workspace lock"), nil
}

// Close lets go of the workspace. Its time of use is the lock's.
func (w *Workspace) Close() error {
	now := time.Now()
	err := os.Chtimes(filepath.Join(w.dir, lockFile), now, now)
	return errors.Join(err, os.Remove(filepath.Join(w.dir, holdersDir, w.mark)), w.lock.Close())
}
