package host

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// rootNeeds are the capabilities without which root starts no jail; each was
// taken away alone, and the run failed. A user needs none: he has them all in the
// jail's namespaces.
var rootNeeds = []struct {
	name string
	bit  int
}{
	{"CAP_CHOWN", unix.CAP_CHOWN},               // what the jail's uid must own
	{"CAP_DAC_OVERRIDE", unix.CAP_DAC_OVERRIDE}, // files of that uid, and cgroups
	{"CAP_SETGID", unix.CAP_SETGID},             // the jail's gid_map
	{"CAP_SETUID", unix.CAP_SETUID},             // and uid_map
	{"CAP_SYS_CHROOT", unix.CAP_SYS_CHROOT},     // setns(2) to a mount namespace
	{"CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE},     // /proc/PID/ns of another uid's
	{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN},       // namespaces without a user namespace
}

// capabilities asks what root has left: a container's root has few.
func (h *Host) capabilities() Finding {
	f := Finding{ID: "root.capabilities", Needed: true, State: Yes, Where: "/proc/self/status"}
	if h.UID != 0 {
		f.Reason = "users need none"
		return f
	}
	status, err := h.read("/proc/self/status")
	has, ok := hex(field(status, "CapEff"))
	if err != nil || !ok {
		f.State, f.Reason = Unknown, "doesn't say which capabilities this process has"
		f.Hint = "mount /proc"
		return f
	}
	var lacks, add []string
	for _, c := range rootNeeds {
		if has&(1<<c.bit) == 0 {
			lacks = append(lacks, c.name)
			add = append(add, "--cap-add "+strings.TrimPrefix(c.name, "CAP_"))
		}
	}
	if len(lacks) > 0 {
		f.State, f.Reason = No, "this root lacks "+strings.Join(lacks, ", ")
		f.Hint = "start the container or service around jailer with them (docker and podman: " + strings.Join(add, " ") +
			"), or run jailer as another user, who needs none"
		return f
	}
	f.Reason = "root has the capabilities that it needs"
	return f
}

// hex reads a number of proc(5) without 0x.
func hex(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 16, 64)
	return n, err == nil
}
