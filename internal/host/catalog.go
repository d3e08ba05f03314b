package host

import "strings"

// An Entry of the catalogue is one id, or a family of them where a part is in
// capitals: cgroup.delegation.CONTROLLER.
type Entry struct {
	ID string
	// Run: seen by a run alone, not foretold by a probe.
	Run bool
	// Cause: not an answer of its own, but why another one is "no".
	Cause bool
}

// Catalog lists every id that a probe or a refused run can give, in the order
// of docs/host-setup.md, which has a section for each.
func Catalog() []Entry {
	return []Entry{
		{ID: "kernel.floor"},
		{ID: "kernel.arch"},
		{ID: "kernel.bugs"},
		{ID: "kernel.patches"},
		{ID: "build.seccomp"},
		{ID: "build.intact"},
		{ID: "userns.max"},
		{ID: "userns.clone"},
		{ID: "userns.apparmor"},
		{ID: "namespaces.max"},
		{ID: "root.capabilities"},
		{ID: "userns.create"},
		{ID: "proc.fresh"},
		{ID: "cgroup.hierarchy"},
		{ID: "cgroup.memory"},
		{ID: "cgroup.pids"},
		{ID: "cgroup.cpu"},
		{ID: "cgroup.cpuset"},
		{ID: "cgroup.io"},
		{ID: "cgroup.cpus"},
		{ID: "cgroup.mounted", Cause: true},
		{ID: "cgroup.controller.CONTROLLER", Cause: true},
		{ID: "cgroup.v2only.CONTROLLER", Cause: true},
		{ID: "cgroup.split", Cause: true},
		{ID: "cgroup.v1.CONTROLLER", Cause: true},
		{ID: "cgroup.readonly", Cause: true},
		{ID: "cgroup.readonly.CONTROLLER", Cause: true},
		{ID: "cgroup.mountpoint", Cause: true},
		{ID: "cgroup.own", Cause: true},
		{ID: "cgroup.delegation", Cause: true},
		{ID: "cgroup.delegation.CONTROLLER", Cause: true},
		{ID: "cgroup.threaded", Cause: true},
		{ID: "cgroup.manager", Cause: true},
		{ID: "cgroup.manager.bus", Cause: true},
		{ID: "cgroup.manager.timeout", Cause: true},
		{ID: "cgroup.manager.scope", Cause: true},
		{ID: "cgroup.io.device", Run: true},
		{ID: "cgroup.kill"},
		{ID: "cgroup.nsdelegate"},
		{ID: "cgroup.swap"},
		{ID: "cgroup.base.owner"},
		{ID: "seccomp.kernel"},
		{ID: "seccomp.profile"},
		{ID: "apparmor"},
		{ID: "apparmor.profile"},
		{ID: "landlock"},
		{ID: "ids.subuid"},
		{ID: "ids.newuidmap"},
		{ID: "ids.range.root"},
		{ID: "root.uid_range"},
		{ID: "rootfs"},
		{ID: "rootfs.entries"},
		{ID: "rootfs.exec"},
		{ID: "rootfs.source"},
		{ID: "rootfs.search"},
		{ID: "state.dir"},
		{ID: "data.dir"},
		{ID: "events.sink"},
		{ID: "core.pattern"},
		{ID: "clock.boottime"},
		{ID: "clock.synced"},
		{ID: "net.egress"},
		{ID: "require.NAME"},
		{ID: "container.start", Run: true},
		{ID: "pid1", Run: true},
		{ID: "pid1.STAGE", Run: true},
		{ID: "host.resources", Run: true},
		{ID: "setup.aborted", Run: true},
		{ID: "session.leaked", Run: true},
		{ID: "limits.memory", Run: true},
		{ID: "session.cgroup", Run: true},
		{ID: "session.controller", Run: true},
		{ID: "session.commands", Run: true},
		{ID: "session.ended", Run: true},
		{ID: "session.killed", Run: true},
		{ID: "session.version", Run: true},
		{ID: "apparmor.session", Run: true},
	}
}

// Known says whether an id is one of the catalogue's.
func Known(id string) bool {
	for _, e := range Catalog() {
		if e.matches(id) {
			return true
		}
	}
	return false
}

func (e Entry) matches(id string) bool {
	prefix, family := e.family()
	if !family {
		return e.ID == id
	}
	rest, ok := strings.CutPrefix(id, prefix)
	return ok && rest != "" && !strings.Contains(rest, ".")
}

// family gives what comes before the part in capitals.
func (e Entry) family() (prefix string, ok bool) {
	i := strings.LastIndexByte(e.ID, '.') + 1
	return e.ID[:i], e.ID[i:] == strings.ToUpper(e.ID[i:])
}
