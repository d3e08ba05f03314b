package launch

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/usermanager"
	"github.com/jailer-project/jailer/policy"
)

// findBase finds the place for the jail's cgroups: the caller's own delegated
// subtree, root's, or else a scope that the caller's user manager makes around
// this process. With bestEffort that may be one without all controllers, or nil,
// and the error says what is missing.
func findBase(runtimeDir string, need []string, bestEffort bool) (*cgroup.Base, error) {
	base, err := cgroup.Find(cgroup.Options{Need: need})
	if u := movable(err); u != nil {
		if _, asked := enterScope(runtimeDir); asked == nil {
			base, err = cgroup.Find(cgroup.Options{Need: need})
		} else {
			err = withManager(u, asked)
		}
	}
	if err == nil || !bestEffort {
		return base, err
	}
	u, ok := errors.AsType[*cgroup.Unavailable](err)
	if !ok {
		return nil, err
	}
	need = slices.DeleteFunc(slices.Clone(need), func(c string) bool { return slices.Contains(strings.Split(u.Controller, ", "), c) })
	if u.Controller == "" || len(need) == 0 {
		return nil, err
	}
	base, lacking := cgroup.Find(cgroup.Options{Need: need})
	if lacking != nil {
		return nil, err
	}
	return base, err
}

var (
	checkCgroups = cgroup.Check
	geteuid      = os.Geteuid
)

var enterScope = func(runtimeDir string) (string, error) {
	return usermanager.Enter(usermanager.Options{RuntimeDir: runtimeDir})
}

// movable says whether another cgroup of this caller's could have what this one
// lacks. Root makes his own; what is mounted, no scope changes.
func movable(err error) *cgroup.Unavailable {
	u, ok := errors.AsType[*cgroup.Unavailable](err)
	if !ok || geteuid() == 0 || (u.ID != "cgroup.threaded" && !strings.HasPrefix(u.ID, "cgroup.delegation")) {
		return nil
	}
	return u
}

// withManager adds why the user manager was no help. A cgroup that is the
// caller's, but for one controller, stays the reason; of one that never was, the
// manager is.
func withManager(u *cgroup.Unavailable, err error) *cgroup.Unavailable {
	e, ok := errors.AsType[*usermanager.Error](err)
	if !ok {
		return u
	}
	id, hint := e.ID, e.Hint
	if strings.HasPrefix(u.ID, "cgroup.delegation.") {
		id, hint = u.ID, u.Hint
	}
	return u.With(id, ", and a scope can't be had: "+e.Error(), hint)
}

// CheckCgroups is cgroup.Check for `jailer doctor`, which finds what a run of plan
// would: it moves this process to a scope where a run would move itself. Options
// without Need are for what the plan needs; with it, for a mere report, for which
// nobody is asked. The manager is asked once at most.
func CheckCgroups(runtimeDir string, plan *policy.Plan) func(cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
	var asked bool
	var answer error
	return func(o cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
		report := len(o.Need) > 0
		if !report {
			o.Need = needs(plan)
			o.Swap = plan.Limits.Swap
		}
		layout, found := checkCgroups(o)
		causes := func(f cgroup.Finding) bool { return f.State != cgroup.Yes && f.Cause != nil && movable(f.Cause) != nil }
		if !slices.ContainsFunc(found, causes) || report && !asked {
			return layout, found
		}
		if !asked {
			asked = true
			if _, answer = enterScope(runtimeDir); answer == nil {
				return checkCgroups(o)
			}
		}
		for i, f := range found {
			if causes(f) && answer != nil {
				found[i].Refuse(withManager(f.Cause, answer))
			}
		}
		return layout, found
	}
}
