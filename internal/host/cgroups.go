package host

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/limits"
)

// cgroups asks the cgroup package and weighs its answers: a controller is
// needed unless the operator lets rlimits stand in.
func (h *Host) cgroups(w Want) []Finding {
	layout, found := h.Cgroups(cgroup.Options{})
	var lacks []string
	for _, f := range found {
		if f.Controller != "" && f.State != Yes {
			lacks = append(lacks, f.Controller)
		}
	}
	out := make([]Finding, 0, len(found)+3)
	needed := map[string]Finding{} // of those that no default limit needs
	for _, c := range found {
		f := reported(c)
		if c.Controller != "" {
			f.Needed = !w.BestEffort
			h.weigh(&f, c.Controller, w)
		}
		if c.ID == "cgroup.hierarchy" && c.State == No {
			// libcontainer wants one, even where it has nothing to write.
			f.Needed, f.Cause, f.Hint = true, "cgroup.mounted", "see cgroup.mounted"
		}
		// One that can't be told is left to the read-back of the limits. Best effort
		// does without a memory cgroup, not without a bound in it.
		f.Needed = f.Needed || (c.ID == "cgroup.swap" && c.State == No && (!w.BestEffort || !slices.Contains(lacks, "memory")))
		if slices.Contains(more, c.Controller) {
			needed[c.Controller] = f
			continue
		}
		out = append(out, f)
	}
	out = slices.Insert(out, 1+lastController(out), append(h.further(needed), h.CPUs(w.CPUSet))...)
	if layout == nil || len(lacks) > 0 {
		return out
	}
	return append(out, h.ownedBase(layout, w)...)
}

func lastController(found []Finding) int {
	last := -1
	for i, f := range found {
		if slices.Contains([]string{"cgroup.memory", "cgroup.pids", "cgroup.cpu"}, f.ID) {
			last = i
		}
	}
	return last
}

// more are the controllers that no default limit needs.
var more = []string{"cpuset", "io"}

// further reports on them, unless the profile needs them.
func (h *Host) further(needed map[string]Finding) []Finding {
	_, found := h.Cgroups(cgroup.Options{Need: append(cgroup.Controllers(), more...)})
	var out []Finding
	for _, c := range more {
		f, ok := needed[c]
		if !ok {
			f = Finding{ID: "cgroup." + c, State: Unknown, Reason: "the mounted hierarchies don't say"}
		}
		if i := slices.IndexFunc(found, func(g cgroup.Finding) bool { return g.Controller == c }); !ok && i >= 0 {
			f = reported(found[i])
		}
		out = append(out, f)
	}
	return out
}

// CPUs says whether this host has the CPUs of a set. The kernel takes one that it
// has not, and uses others (cgroup-v2.rst, "cpuset.cpus"); without a cgroup nobody
// would notice.
func (h *Host) CPUs(set limits.CPUSet) Finding {
	f := Finding{ID: "cgroup.cpus", State: Yes, Needed: set != "", Where: "/sys/devices/system/cpu/online", Reason: "the profile asks for no CPUs by number"}
	if set == "" {
		return f
	}
	text, err := h.read(f.Where)
	have, bad := limits.ParseCPUSet(text)
	switch {
	case err != nil || bad != nil:
		f.State, f.Reason = Unknown, "can't tell which CPUs this host has: "+cause(errors.Join(err, bad))
		f.Hint = "mount sysfs on /sys (`mount -t sysfs none /sys` as root), or ask for no cpuset"
	case !set.Within(have):
		f.State, f.Reason = No, fmt.Sprintf("the cpuset %s is not within %s, the CPUs of this host", set, have)
		f.Hint = fmt.Sprintf("ask for CPUs of %s (--cpuset, or the policy's limits.default.cpuset and limits.max.cpuset)", have)
	default:
		f.Reason = fmt.Sprintf("this host has the CPUs %s", set)
	}
	return f
}

func reported(c cgroup.Finding) Finding {
	f := Finding{ID: c.ID, State: c.State, Where: c.Where, Reason: c.Reason, Hint: c.Hint}
	if c.Cause != nil {
		f.Cause = c.Cause.ID
	}
	return f
}

func (h *Host) weigh(f *Finding, controller string, w Want) {
	switch {
	case f.State != Yes && w.BestEffort:
		stand := "best effort: not enforced; "
		if controller == "memory" || controller == "pids" {
			stand = "best effort: an rlimit stands in; "
		}
		f.Reason = stand + f.Reason
	case f.State != Yes:
		if h.UID != 0 {
			f.Hint = join(f.Hint, `if rlimits are enough for you, a policy with [limits] enforce = "best-effort"`)
		}
	}
}

func join(hint, more string) string {
	if hint == "" {
		return more
	}
	return hint + "; or, " + more
}

// ownedBase looks, as root, at the cgroups that hold jails and at what counts
// CPU time, neither of which a limit shows.
func (h *Host) ownedBase(l *cgroup.Layout, w Want) []Finding {
	if h.UID != 0 {
		return nil
	}
	points := map[string]bool{}
	v1 := false
	for c, m := range l.V1 {
		if c == "memory" || c == "pids" || c == "cpu" {
			points[m.Point], v1 = true, true
		}
	}
	if !v1 && l.Unified != nil {
		points[l.Unified.Point] = true
	}
	base := Finding{
		ID: "cgroup.base.owner", State: Yes, Needed: !w.BestEffort,
		Where: "the cgroup jailer in each hierarchy", Reason: "nobody else owns it",
	}
	for _, p := range slices.Sorted(maps.Keys(points)) {
		dir := path.Join(p, "jailer")
		i, err := h.lstat(dir)
		if err != nil {
			continue // made when it is needed
		}
		if uid, _ := h.Owner(i); uid != h.UID {
			base.State, base.Where = No, dir
			base.Reason, base.Hint = fmt.Sprintf("belongs to uid %d, who could move jails about", uid), "rmdir "+dir
		}
	}
	out := []Finding{base}
	if _, ok := l.V1["cpuacct"]; v1 && !ok {
		acct := Finding{ID: "cgroup.controller.cpuacct", State: Yes, Needed: !w.BestEffort, Where: mountinfo, Reason: "cgroup v2 counts CPU time"}
		if l.Unified == nil {
			acct.State, acct.Reason = No, "no mounted hierarchy counts CPU time"
			acct.Hint = "mount cgroup v1's cpuacct, or cgroup v2"
		}
		out = append(out, acct)
	}
	return out
}
