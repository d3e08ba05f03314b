package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/files"
)

// Info is what is known of a workspace.
type Info struct {
	Name      Name
	Owner     int
	HostUID   int
	CreatedAt time.Time
	UsedAt    time.Time
	Token     bool
	Busy      bool
	Holder    *Holder // where he is known
	Err       error   // why it could not be looked at, or removed
}

// List gives the workspaces, by their names.
func (s *Store) List() ([]Info, error) {
	dirs, err := os.ReadDir(filepath.Join(s.path, workspaces))
	if err != nil {
		return nil, noData(err)
	}
	var all []Info
	for _, d := range dirs {
		if strings.HasPrefix(d.Name(), stagePrefix) {
			continue
		}
		i, ok := s.look(filepath.Join(s.path, workspaces, d.Name()))
		if ok {
			all = append(all, i)
		}
	}
	sortInfos(all)
	return all, nil
}

// look tells of one, for as long as nobody moves it away.
func (s *Store) look(dir string) (Info, bool) {
	r, err := readRecord(dir)
	if notThere(err) {
		return Info{}, false
	}
	if err != nil {
		return Info{Name: Name{Resource: filepath.Base(dir)}, Err: err}, true
	}
	i := Info{
		Name: Name{r.Tenant, r.Resource}, Owner: r.Owner, HostUID: r.HostUID,
		CreatedAt: r.CreatedAt, UsedAt: usedAt(dir, r), Token: r.TokenSHA256 != "",
	}
	// For reading: who comes meanwhile tries again until nobody is in his way.
	lock, err := takeLock(dir, true)
	if err == nil {
		lock.Close()
	}
	i.Holder = living(dir)
	i.Busy = errors.Is(err, unix.EWOULDBLOCK) || i.Holder != nil
	return i, true
}

// usedAt is when a workspace was last let go.
func usedAt(dir string, r *record) time.Time {
	st, err := os.Lstat(filepath.Join(dir, lockFile))
	if err != nil {
		return r.CreatedAt
	}
	return st.ModTime().UTC()
}

// Remove removes a workspace with all that is in it, unless somebody has it. It is out
// of the way at once; if the rest is interrupted the next collection does it.
func (s *Store) Remove(ctx context.Context, n Name, token []byte, reap func(context.Context, Holder) error) error {
	dir := s.dirOf(n)
	if _, err := readRecord(dir); damaged(dir, err) {
		return s.removeDamaged(ctx, n, dir)
	}
	w, err := s.Acquire(ctx, n, Options{TokenHash: token, Holder: Holder{SessionID: "workspace-rm"}.Self(), Reap: reap})
	if err != nil {
		return err
	}
	return w.remove(ctx)
}

// damaged says that a workspace is there and its record says nothing: none, or no JSON. One
// of a later program, or that can't be read now, is not damaged.
func damaged(dir string, err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if notThere(err) {
		_, gone := os.Lstat(dir)
		return gone == nil
	}
	return errors.As(err, &syntax) || errors.As(err, &kind)
}

// removeDamaged removes one whose record says nothing, and so asks for no token. The
// store is this user's alone in any case.
func (s *Store) removeDamaged(ctx context.Context, n Name, dir string) error {
	lock, err := patientLock(n, dir, false)
	if err != nil {
		return err
	}
	return (&Workspace{Name: n, store: s, dir: dir, lock: lock}).remove(ctx)
}

// remove is called with the lock held for writing.
func (w *Workspace) remove(ctx context.Context) error {
	defer w.lock.Close()
	away := filepath.Join(w.store.path, trash, random())
	if err := os.Rename(w.dir, away); err != nil {
		return noData(err)
	}
	w.lock.Close()
	if err := w.store.burn(ctx, filepath.Base(away)); err != nil {
		return err // the id stays: the kernel may still count these files as its project's
	}
	w.store.free(w.HostUID, w.dir)
	return nil
}

// burn removes what lies in the trash.
func (s *Store) burn(ctx context.Context, name string) error {
	dir, err := os.Open(filepath.Join(s.path, trash))
	if err != nil {
		return noData(err)
	}
	defer dir.Close()
	if err := files.RemoveAll(ctx, dir, name); err != nil {
		return &jailer.Error{
			Code: jailer.CodeInternal, Op: "workspace.remove", Message: "not all files could be removed", Err: err,
			Hint: "jailer workspace prune tries again",
		}
	}
	return nil
}

// Prune removes the workspaces that nobody has and that were not used for as long as
// retention, 0 for none of them, and what removals and creations have left that were
// interrupted. With dryRun it says what it would remove.
func (s *Store) Prune(ctx context.Context, retention time.Duration, dryRun bool, reap func(context.Context, Holder) error) (removed []Info, err error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		// One whose time is in the future, as the clock was put back, is not old: it goes
		// when that time is long past.
		if retention <= 0 || i.Err != nil || i.Busy || time.Since(i.UsedAt) < retention {
			continue
		}
		if !dryRun {
			gone, err := s.pruneOne(ctx, i.Name, retention, reap)
			if !gone && err == nil {
				continue // used meanwhile
			}
			i.Err = err
		}
		removed = append(removed, i)
	}
	_, err = s.Sweep(ctx, dryRun)
	return removed, err
}

func (s *Store) pruneOne(ctx context.Context, n Name, retention time.Duration, reap func(context.Context, Holder) error) (gone bool, err error) {
	dir := s.dirOf(n)
	lock, err := takeLock(dir, false)
	if err != nil {
		return false, nil
	}
	r, err := readRecord(dir)
	if err != nil || time.Since(usedAt(dir, r)) < retention {
		lock.Close()
		return false, nil
	}
	w := &Workspace{Name: n, store: s, dir: dir, lock: lock, HostUID: r.HostUID}
	if err := w.reap(ctx, reap); err != nil {
		lock.Close()
		return false, err
	}
	return true, w.remove(ctx)
}

// stageTime is much more than a maker needs between making a directory and naming it.
const stageTime = time.Minute

// Sweep removes what creations and removals have left that were interrupted, and gives
// the paths; with dryRun it gives them alone.
func (s *Store) Sweep(ctx context.Context, dryRun bool) (left []string, err error) {
	var errs []error
	thrown, err := os.ReadDir(filepath.Join(s.path, trash))
	if err != nil {
		return nil, noData(err)
	}
	for _, d := range thrown {
		left = append(left, filepath.Join(s.path, trash, d.Name()))
		if !dryRun {
			errs = append(errs, s.burn(ctx, d.Name()))
		}
	}
	dirs, err := os.ReadDir(filepath.Join(s.path, workspaces))
	if err != nil {
		return nil, noData(err)
	}
	for _, d := range dirs {
		p := filepath.Join(s.path, workspaces, d.Name())
		if st, err := os.Lstat(p); strings.HasPrefix(d.Name(), stagePrefix) && err == nil && time.Since(st.ModTime()) > stageTime {
			left = append(left, p)
			if !dryRun {
				errs = append(errs, os.RemoveAll(p)) // no jail has been in it
			}
		}
		for _, in := range []string{p, filepath.Join(p, holdersDir)} {
			if !dryRun {
				errs = append(errs, sweepTemp(in))
			}
		}
	}
	if !dryRun {
		errs = append(errs, s.sweepUIDs())
	}
	return left, errors.Join(errs...)
}

// sweepTemp removes files that were never named.
func sweepTemp(dir string) error {
	var errs []error
	names, _ := os.ReadDir(dir)
	for _, d := range names {
		if i, err := d.Info(); strings.HasPrefix(d.Name(), tempPrefix) && err == nil && time.Since(i.ModTime()) > stageTime {
			errs = append(errs, os.Remove(filepath.Join(dir, d.Name())))
		}
	}
	return errors.Join(errs...)
}

// sweepUIDs frees the ids of this store's workspaces that are no more. Those of another
// store are left: it may lie on a disk that is not mounted.
func (s *Store) sweepUIDs() error {
	ids, err := os.ReadDir(s.uids)
	if err != nil {
		if notThere(err) {
			return nil
		}
		return noData(err)
	}
	for _, d := range ids {
		st, serr := os.Lstat(filepath.Join(s.uids, d.Name()))
		uid, err := strconv.Atoi(d.Name())
		b, rerr := os.ReadFile(filepath.Join(s.uids, d.Name()))
		if err != nil || rerr != nil || serr != nil || time.Since(st.ModTime()) < stageTime {
			continue
		}
		if len(b) > 0 && filepath.Dir(string(b)) != filepath.Join(s.path, workspaces) {
			continue
		}
		r, err := &record{}, error(os.ErrNotExist) // a marker that was never written
		if len(b) > 0 {
			r, err = readRecord(string(b))
		}
		if notThere(err) || err == nil && r.HostUID != uid {
			s.free(uid, string(b))
		}
	}
	return nil
}

func sortInfos(all []Info) {
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Name.Tenant, b.Name.Tenant), cmp.Compare(a.Name.Resource, b.Name.Resource))
	})
}
