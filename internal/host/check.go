package host

import (
	"slices"

	"github.com/jailer-project/jailer/limits"
)

// Want is what a profile asks of the host, as plain data.
type Want struct {
	BestEffort bool      // limits.enforce: rlimits may stand in for cgroups
	IDRange    bool      // ids = "range"
	UIDRange   [2]uint32 // root.uid_range; zero for none
	CPUSet     limits.CPUSet
	Seccomp    string   // name of the seccomp profile
	Filter     Filter   // what it is
	AppArmor   string   // "required", "auto" or "off"
	Rootfs     string   // its name
	RootPath   string   // its directory; "" for the view of the host
	Roots      []Root   // every root of the policy
	Require    []string // what must be enforced for a run to start
	// Executables: the profile lists what may be executed, for all descendants.
	Executables bool

	// CheckUIDRange tells whether somebody owns ids of UIDRange, given the text
	// of /etc/passwd and /etc/subuid, as a reason and what mends it; "" is nobody.
	CheckUIDRange func(passwd, subuid []byte) (reason, hint string)

	StateDir   string // as --state-dir gives it
	RuntimeDir string // XDG_RUNTIME_DIR of the caller
	DataHome   string // XDG_DATA_HOME
	Home       string // HOME

	Events       string // events.path; "" for the log in the state directory
	EventsNeeded bool   // sink_on_error = "fail"

	Build Build
}

// Root is one [rootfs.NAME] of the policy.
type Root struct{ Name, Path string }

// Build is what is inside this program.
type Build struct {
	Seccomp bool  // built with the filters and PID 1
	Filter  error // why an embedded filter can't be used
	PID1    error // why the embedded PID 1 can't be used
}

// Filter is the seccomp profile that Want names, where the policy brings it.
type Filter struct {
	Path      string // its file; "" for a built-in one
	Err, Hint string // why it can't be used, and what mends it; "" if it can
}

// Check runs every probe. The order is that of docs/host-setup.md.
func (h *Host) Check(w Want) []Finding {
	uid, gid := h.jailIDs(w)
	t := h.Try(h.trialIDs(uid, gid))
	var out []Finding
	out = append(out, h.kernel()...)
	out = append(out, build(w.Build)...)
	out = append(out, h.userNamespaces(t)...)
	out = append(out, h.freshProc(t))
	out = append(out, h.cgroups(w)...)
	out = append(out, h.seccomp(w)...)
	out = append(out, h.appArmor(w)...)
	out = append(out, h.landlock(w))
	out = append(out, h.ids(w)...)
	out = append(out, h.rootfs(w, uid, gid)...)
	out = append(out, h.stateDir(w), h.dataDir(w), h.eventsSink(w), h.corePattern(), h.suspend(), h.clockSynced(), h.egress(t))
	return append(out, required(w, out)...)
}

// jailIDs are the host ids that PID 1 of a jail would have.
func (h *Host) jailIDs(w Want) (uid, gid int) {
	if h.UID == 0 && w.UIDRange[0] != 0 {
		return int(w.UIDRange[0]), int(w.UIDRange[0])
	}
	return h.UID, h.GID
}

// trialIDs are those of the jail, unless the caller couldn't map them anyway,
// which root.uid_range says.
func (h *Host) trialIDs(uid, gid int) (int, int) {
	if file, _ := h.Unmapped(uint32(uid), uint32(uid)); file != "" {
		return h.UID, h.GID
	}
	return uid, gid
}

// Failed lists the ids of what a run would be refused for.
func Failed(fs []Finding) []string {
	var ids []string
	for _, f := range fs {
		if f.Failed() {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// required judges the profile's require list by what the probes found. A
// stand-in is not what "require" asks for.
func required(w Want, found []Finding) []Finding {
	state := func(ids ...string) (State, string) {
		for _, id := range ids {
			i := slices.IndexFunc(found, func(f Finding) bool { return f.ID == id })
			if i < 0 {
				return Unknown, id
			}
			if found[i].State != Yes {
				return found[i].State, id
			}
		}
		return Yes, ""
	}
	var out []Finding
	for _, r := range w.Require {
		f := Finding{ID: "require." + r, State: Yes, Needed: true, Where: "the profile's require list", Reason: "can be enforced"}
		var by string
		switch r {
		case "userns", "netns":
			f.State, by = state("userns.create")
		case "seccomp":
			f.State, by = state("build.seccomp", "build.intact", "seccomp.kernel", "seccomp.profile")
		case "memory", "pids", "cpu":
			f.State, by = state("cgroup." + r)
		case "workspace": // a tmpfs of the jail's own, always
		case "apparmor":
			f.State, by = state("apparmor", "apparmor.profile")
			if w.AppArmor == "off" {
				f.State, f.Reason, by = No, "the profile says apparmor = \"off\"", ""
				f.Hint = `set apparmor = "required" in the profile`
			}
		case "landlock":
			if f.State, by = state("landlock"); !w.Executables {
				f.State, f.Reason, by = No, "it is applied where the profile has a list of executables for all descendants", ""
				f.Hint = "add exec.allow to the profile, or take it out of the require list"
			}
		default:
			f.State, f.Reason = Unknown, "not known to this version of jailer"
		}
		if by != "" {
			f.Reason, f.Hint = "rests on "+by, "see "+by
		}
		out = append(out, f)
	}
	return out
}
