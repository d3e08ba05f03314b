package cgroup

import (
	"path/filepath"
	"slices"
)

// State is the answer of a probe. Unknown counts as No.
type State string

// The three answers.
const (
	Yes     State = "yes"
	No      State = "no"
	Unknown State = "unknown"
)

// Finding is one line for `jailer doctor`.
type Finding struct {
	ID         string // cgroup.hierarchy, cgroup.memory, cgroup.pids, cgroup.cpu, cgroup.kill, cgroup.nsdelegate, cgroup.swap
	Controller string
	State      State
	Where      string // the file or directory that answers
	Reason     string
	Hint       string
	Cause      *Unavailable // for a No: what Find would say about it
}

// Check says what Find would find for each controller, and changes nothing.
// The Layout is nil if the mounts can't be read.
func Check(o Options) (*Layout, []Finding) {
	o = o.withDefaults()
	l, err := detect(o)
	if err != nil {
		fs := []Finding{{ID: "cgroup.hierarchy", State: Unknown, Where: filepath.Join(o.Proc, "mountinfo"), Reason: err.Error()}}
		for _, c := range o.Need {
			fs = append(fs, Finding{ID: "cgroup." + c, Controller: c, State: Unknown, Reason: "the mounted hierarchies can't be read"})
		}
		return nil, fs
	}
	fs := []Finding{hierarchy(l)}
	for _, c := range o.Need {
		fs = append(fs, o.checkOne(l, c))
	}
	return l, append(fs, o.extras(l)...)
}

// hierarchy describes the arrangement. Whether it serves is the controllers'
// own findings: on v1 root can have all limits.
func hierarchy(l *Layout) Finding {
	f := Finding{ID: "cgroup.hierarchy", State: Yes}
	if l.Unified != nil {
		f.Where = l.Unified.Point
	}
	switch l.Mode {
	case ModeV2:
		f.Reason = "cgroup v2"
	case ModeHybrid:
		f.Hint = hintBoot
		f.Reason = "cgroup v1 with v2 beside it"
		if lacks := without(controllers, l.V2Controllers); len(lacks) > 0 {
			f.Reason += "; cgroup v2 has no " + list(lacks) + " here"
		}
	case ModeV1:
		f.Hint = hintBoot
		f.Reason = "cgroup v1 alone"
	default:
		f.State, f.Reason = No, "no cgroup file system is mounted here"
	}
	return f
}

// checkOne asks for one controller alone, so that one that is missing doesn't
// hide the others.
func (o Options) checkOne(l *Layout, c string) Finding {
	f := Finding{ID: "cgroup." + c, Controller: c, State: Yes}
	one := o
	one.Need = []string{c}
	// Beside the limits that every job has.
	beside := without(o.Need, wanted)
	if !slices.Contains(beside, c) {
		beside = append(beside, c)
	}
	kind, u := l.choose(beside)
	if u == nil || u.ID != "cgroup.split" && u.ID != "cgroup.v2only."+c {
		kind, u = l.choose(one.Need)
	}
	if u == nil && kind == V1 {
		f.Where, f.Reason = l.V1[c].Point, "cgroup v1, as root"
		u = v1Refusal(one, l, c)
	} else if u == nil {
		var cand candidate
		if cand, u = pickV2(one, l); u == nil {
			f.Where, f.Reason = cand.dir, "cgroup v2"
		}
	}
	if u != nil {
		f.Refuse(u)
	}
	return f
}

// Refuse makes f the finding that Find would refuse for u.
func (f *Finding) Refuse(u *Unavailable) {
	f.State, f.Where, f.Reason, f.Hint, f.Cause = No, u.File, u.Error(), u.Hint, u
}

// extras are properties that no limit needs, but that a reader of SECURITY.md
// wants to know.
func (o Options) extras(l *Layout) []Finding {
	kill := Finding{ID: "cgroup.kill", State: No, Reason: "no cgroup v2 hierarchy: a job is killed process by process"}
	if m := l.Unified; m != nil {
		kill = Finding{ID: "cgroup.kill", State: Yes, Where: m.Point, Reason: "cgroup.kill ends a job at once"}
		if m.ReadOnly {
			kill.State, kill.Reason = No, "the cgroup v2 hierarchy is mounted read-only"
		}
	}
	out := []Finding{kill}
	if kind, _ := l.choose(o.Need); kind == V2 {
		f := Finding{ID: "cgroup.nsdelegate", State: Yes, Where: l.Unified.Point, Reason: "mounted with nsdelegate"}
		if !l.Unified.NSDelegate {
			f.State, f.Reason = No, "without nsdelegate a job that could mount cgroup2 could rewrite its own limits; jailer denies mount and user namespaces"
			f.Hint = "mount -o remount,nsdelegate,memory_recursiveprot " + l.Unified.Point
		}
		out = append(out, f)
	}
	if slices.Contains(o.Need, "memory") {
		out = append(out, o.swapFinding(l))
	}
	return out
}

// swapFinding foretells noSwapFile: a grant wants the file even where there is no
// swap.
func (o Options) swapFinding(l *Layout) Finding {
	f := Finding{ID: "cgroup.swap", State: Yes, Where: o.swaps, Reason: "this host has no swap"}
	if !o.swapOn() && o.Swap == 0 {
		return f
	}
	f.Reason = "swap is accounted, and denied to jobs unless the policy grants some"
	if m, ok := l.V1["memory"]; ok {
		f.Where = filepath.Join(m.Point, "memory.memsw.limit_in_bytes")
		switch {
		case exists(f.Where):
		case o.Swap > 0:
			f.State, f.Reason, f.Hint = No, "swap is not accounted, so what the profile grants of it can't be bounded", hintSwap
		default:
			f.Reason = "swap is not accounted; memory.swappiness 0 keeps jobs from it"
		}
		return f
	}
	// The root of the v2 hierarchy has no such file; any cgroup with a memory
	// limit answers for all.
	dir := o.withMemory(l.Unified)
	f.Where = filepath.Join(dir, "memory.swap.max")
	switch {
	case dir == "":
		f.State, f.Reason, f.Hint = Unknown, "can't tell whether swap is accounted before a job starts", "if a run is refused for it: boot with swapaccount=1"
	case !exists(f.Where):
		f.State, f.Reason, f.Hint = No, "the kernel doesn't account swap, so the memory limit would not bind", hintSwap
	}
	return f
}

// withMemory is a cgroup that has a memory limit: the caller's own, or one at the
// top; "" if there is none.
func (o Options) withMemory(m *Mount) string {
	if m == nil {
		return ""
	}
	files, _ := filepath.Glob(filepath.Join(m.Point, "*", "memory.max"))
	if own, err := ownDir(o, *m); err == nil {
		files = append([]string{filepath.Join(own, "memory.max")}, files...)
	}
	for _, f := range files {
		if exists(f) {
			return filepath.Dir(f)
		}
	}
	return ""
}
