package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/apparmor"
)

const seccompActions = "/proc/sys/kernel/seccomp/actions_avail"

// seccomp asks for the two actions of our filter: errno for what is refused,
// and kill_process for a foreign architecture.
func (h *Host) seccomp(w Want) []Finding {
	kernel := Finding{ID: "seccomp.kernel", Needed: true, State: Yes, Where: seccompActions, Reason: "the kernel takes filters"}
	const hint = "boot a kernel with CONFIG_SECCOMP_FILTER=y; in a container, permit seccomp(2) and prctl(2)"
	if s, err := h.read(seccompActions); err == nil {
		for _, a := range []string{"kill_process", "errno", "allow"} {
			if !slices.Contains(strings.Fields(s), a) {
				kernel.State, kernel.Reason, kernel.Hint = No, fmt.Sprintf("the kernel lacks the action %s", a), hint
			}
		}
	} else {
		kernel.Where = "seccomp(2), SECCOMP_GET_ACTION_AVAIL"
		switch err := h.Seccomp(); {
		case err == nil:
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
			kernel.State, kernel.Reason, kernel.Hint = No, "this kernel takes no filters", hint
		default:
			kernel.State, kernel.Reason, kernel.Hint = Unknown, "the kernel says: "+cause(err), hint
		}
	}
	profile := Finding{ID: "seccomp.profile", Needed: true, State: Yes, Where: "the policy", Reason: fmt.Sprintf("%q is built in", w.Seccomp)}
	if w.Filter.Path != "" {
		profile.Where, profile.Reason = w.Filter.Path, fmt.Sprintf("%q can be compiled", w.Seccomp)
	}
	if w.Filter.Err != "" {
		profile.State, profile.Reason, profile.Hint = No, w.Filter.Err, w.Filter.Hint
	}
	return []Finding{kernel, profile}
}

// seccompFilter asks the kernel without loading anything.
func seccompFilter() error {
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if no != 0 {
		return no
	}
	return nil
}

// appArmor says whether jails can run under jailer's profiles: a report, unless the
// policy requires them.
func (h *Host) appArmor(w Want) []Finding {
	on := Finding{ID: "apparmor", State: Yes, Needed: w.AppArmor == "required", Where: "/sys/module/apparmor/parameters/enabled", Reason: "AppArmor is on"}
	profile := Finding{
		ID: "apparmor.profile", State: Yes, Needed: on.Needed,
		Where: "/sys/kernel/security/apparmor/policy/profiles", Reason: apparmor.Default + " is loaded, enforced and this program's",
	}
	why := apparmor.Ready(h.FS, h.AppArmor)
	if why == nil {
		return []Finding{on, profile}
	}
	state := No
	if why.Unknown {
		state = Unknown
	}
	f := &profile
	if why.ID == on.ID {
		f = &on
		profile.State, profile.Needed, profile.Reason, profile.Hint = state, false, "rests on apparmor", "see apparmor"
	}
	f.State, f.Where, f.Reason, f.Hint = state, why.Where, why.Text, why.Hint
	return []Finding{on, profile}
}

// landlock is needed for lists of executables alone.
func (h *Host) landlock(w Want) Finding {
	f := Finding{ID: "landlock", State: Yes, Needed: w.Executables, Where: "landlock_create_ruleset(2)"}
	abi, err := h.Landlock()
	switch {
	case err == nil:
		f.Reason = fmt.Sprintf("the kernel has Landlock ABI %d; it is used where a profile lists executables", abi)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		f.State, f.Reason = No, "the kernel has no Landlock, or it is off; a profile can't list executables for all descendants"
		f.Hint = "boot with lsm=landlock,… and CONFIG_SECURITY_LANDLOCK=y"
	default:
		f.State, f.Reason = Unknown, "the kernel says: "+cause(err)
	}
	return f
}

func landlockABI() (int, error) {
	n, _, no := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if no != 0 {
		return 0, no
	}
	return int(n), nil
}

const corePatternFile = "/proc/sys/kernel/core_pattern"

// corePattern warns of pipe handlers. The kernel starts one as root in the
// host's first namespaces, with the memory of the crashed job as its input
// (core(5); CVE-2025-5054 in apport, CVE-2025-4598 in systemd-coredump).
func (h *Host) corePattern() Finding {
	f := Finding{ID: "core.pattern", State: Yes, Where: corePatternFile, Reason: "a crash starts no program on the host"}
	v, err := h.read(corePatternFile)
	switch {
	case err != nil:
		f.State, f.Reason = Unknown, "can't be read: "+cause(err)
	case strings.HasPrefix(v, "|"), strings.HasPrefix(v, "@"):
		prog, _, _ := strings.Cut(strings.TrimLeft(v, "|@ "), " ")
		f.State = No
		f.Reason = fmt.Sprintf("a job that crashes after it set its RLIMIT_CORE to 0 hands its memory to %q, as root on the host; jailer sets 1, at which none is started", prog)
		f.Hint = "sysctl -w kernel.core_pattern=core"
	}
	return f
}
