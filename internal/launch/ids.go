package launch

import (
	"errors"
	"fmt"
	"os"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/host"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/internal/workspace"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/rootfs"
	"github.com/jailer-project/jailer/spec"
)

// chooseIDs decides who the jail is on the host. Unprivileged: the caller, by
// a map of one id that needs no setuid helper, or a range of /etc/subuid where
// the policy asks for one. Real root: an id of its own for each jail, taken in
// makeState; never 0.
func (j *Jail) chooseIDs() error {
	uid := uint32(os.Geteuid())
	if uid != 0 {
		j.ids = ids{uid: uid, gid: uint32(os.Getegid())}
		if j.plan.IDs == "range" {
			return j.subordinateIDs()
		}
		return nil
	}
	if j.plan.IDs == "range" {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "ids.range.root",
			Message: `ids = "range" works for unprivileged users only`,
			Hint:    `set ids = "single": root gives each jail a host uid of its own anyway`,
		}
	}
	if j.plan.UIDRange == [2]uint32{} {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "root.uid_range",
			Message: "started as root, and the policy has no root.uid_range",
			Hint:    `add [root] uid_range = "1900000000-1900065535" to the policy`,
		}
	}
	passwd, err1 := readIfThere("/etc/passwd")
	subuid, err2 := readIfThere("/etc/subuid")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := policy.CheckUIDRange(j.plan.UIDRange, passwd, subuid); err != nil {
		return err
	}
	if file, hint := host.Here().Unmapped(j.plan.UIDRange[0], j.plan.UIDRange[1]); file != "" {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "root.uid_range", Path: file, Hint: hint,
			Message: fmt.Sprintf("this user namespace has no ids %d-%d of root.uid_range", j.plan.UIDRange[0], j.plan.UIDRange[1]),
		}
	}
	j.ids = ids{uid: j.plan.UIDRange[0], gid: j.plan.UIDRange[0], owned: true}
	return nil
}

// takeUID holds a host id for this jail. The locks are in one place for the
// whole host, wherever --state-dir keeps the rest: two directories must not
// hand out one id.
func (j *Jail) takeUID() error {
	return j.lockUID(func(dir *state.Dir) (*state.UID, error) {
		return dir.TakeUID(j.plan.UIDRange[0], j.plan.UIDRange[1], workspace.Reserved)
	})
}

// takeThisUID holds the one that files have already, unless a new workspace of theirs
// has just been given one. Those who only read them share it.
func (j *Jail) takeThisUID(uid, gid uint32, shared bool) error {
	if j.idTaken && j.ids.uid == uid {
		return nil // by the one who made it; another may have been the first
	}
	err := j.lockUID(func(dir *state.Dir) (*state.UID, error) {
		if shared {
			return dir.ShareUID(uid)
		}
		return dir.TakeUID(uid, uid, nil)
	})
	if errors.Is(err, state.ErrNoUID) { // somebody who just made it is on his way out
		return &jailer.Error{
			Code: jailer.CodeWorkspaceBusy, Op: "workspace.acquire", Retryable: true,
			Message: fmt.Sprintf("the host id %d of the workspace's files is held by another jail", uid), Hint: "try again",
		}
	}
	j.ids.gid = gid
	return err
}

func (j *Jail) lockUID(take func(*state.Dir) (*state.UID, error)) error {
	dir, err := state.Open("", "")
	if err != nil {
		return noState(err)
	}
	uid, err := take(dir)
	if errors.Is(err, state.ErrNoUID) {
		return &jailer.Error{
			Code: jailer.CodeSessionLimit, Retryable: true, Err: err,
			Hint: "widen root.uid_range in the policy",
		}
	}
	if err != nil {
		return noState(err)
	}
	j.ids.uid, j.ids.gid, j.idTaken = uid.ID, uid.ID, true
	j.later(uid.Release)
	return nil
}

func readIfThere(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

func (i ids) spec() spec.IDs {
	return spec.IDs{HostUID: i.uid, HostGID: i.gid, SubUID: i.subUID, SubGID: i.subGID, Range: i.n}
}

// maps are the id maps of the job's own user namespace, in terms of the jail's.
// With one id the job is the jail's 0 under another number; with a range it is
// an id that PID 1 is not, and PID 1's is not in its map at all.
func (i ids) maps() string {
	if i.n == 0 {
		return "1000 0 1\n"
	}
	return "0 1 65535\n"
}

// jobUID is the job's id in its own namespace, in both cases.
const jobUID, jobGID = rootfs.UID, rootfs.GID
