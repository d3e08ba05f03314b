package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	sysctlMax      = "/proc/sys/user/max_user_namespaces"
	sysctlClone    = "/proc/sys/kernel/unprivileged_userns_clone"             // Debian's patch
	sysctlAppArmor = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns" // Ubuntu's, since 23.10
)

// Switches reads the sysctls that turn user namespaces off, without trying any.
// Ubuntu's restriction is "could not tell" here where it is on: a profile may
// permit this very program.
func (h *Host) Switches() []Finding {
	return []Finding{h.switchMax(), h.switchClone(), h.switchAppArmor(), h.capabilities()}
}

func (h *Host) switchMax() Finding {
	f := Finding{ID: "userns.max", Needed: true, State: Yes, Where: sysctlMax}
	v, err := h.read(sysctlMax)
	switch {
	case err != nil:
		// The attempt to make one, which counts, still tells.
		f.State, f.Needed, f.Reason = Unknown, false, "can't be read: "+cause(err)
		if _, err := h.lstat("/proc/self/ns/user"); absent(err) {
			f.State, f.Needed, f.Reason = No, true, "this kernel was built without user namespaces"
			f.Hint = "boot a kernel with CONFIG_USER_NS=y"
		}
	case v == "0":
		f.State, f.Reason = No, "user namespaces are switched off ("+sysctlMax+" is 0)"
		f.Hint = "sysctl -w user.max_user_namespaces=15000"
	default:
		f.Reason = "up to " + v + " user namespaces for each user"
	}
	return f
}

// switchClone binds root's jails too: the kernel asks for CAP_SYS_ADMIN outside
// of all user namespaces, and PID 1, who makes the job's, has none there.
func (h *Host) switchClone() Finding {
	f := Finding{ID: "userns.clone", Needed: true, State: Yes, Where: sysctlClone}
	v, err := h.read(sysctlClone)
	switch {
	case absent(err):
		f.Reason = "this kernel has no such switch"
	case err != nil:
		f.State, f.Needed, f.Reason = Unknown, false, "can't be read: "+cause(err)
	case v == "0":
		f.State, f.Reason = No, "user namespaces are switched off for users ("+sysctlClone+" is 0)"
		if h.UID == 0 {
			f.Reason += ", and in root's jails too the command's own is made without privilege"
		}
		f.Hint = "sysctl -w kernel.unprivileged_userns_clone=1"
	default:
		f.Reason = "users may make user namespaces"
	}
	return f
}

// RestrictsNamespaces tells whether AppArmor denies user namespaces to programs
// without a profile.
func (h *Host) RestrictsNamespaces() bool {
	v, err := h.read(sysctlAppArmor)
	return v != "0" && !absent(err)
}

func (h *Host) switchAppArmor() Finding {
	f := Finding{ID: "userns.apparmor", Needed: true, State: Yes, Where: sysctlAppArmor}
	v, err := h.read(sysctlAppArmor)
	switch {
	case absent(err):
		f.Reason = "this kernel has no such switch"
	case h.UID == 0:
		f.Reason = "root isn't bound by it"
	case err != nil:
		f.State, f.Needed, f.Reason = Unknown, false, "can't be read: "+cause(err)
	case v == "0":
		f.Reason = "AppArmor doesn't restrict user namespaces"
	default:
		f.State, f.Needed = Unknown, false
		f.Reason = "AppArmor restricts user namespaces to programs whose profile permits them"
		f.Hint = h.appArmorHint()
	}
	return f
}

// appArmorHint loads a profile that confines nothing and grants userns, which is
// how Ubuntu ships such programs itself.
func (h *Host) appArmorHint() string {
	exe := h.Exe
	if exe == "" {
		exe = "/usr/local/bin/jailer"
	}
	return exe + " apparmor load --install as root, or, for every program, sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
}

// userNamespaces adds to the switches what a real attempt shows.
func (h *Host) userNamespaces(t Trial) []Finding {
	fs := h.Switches()
	restricted := fs[2].State == Unknown && fs[2].Hint != ""
	if restricted {
		switch {
		case t.OK() || t.Step == stepProc:
			fs[2].State, fs[2].Needed, fs[2].Hint = Yes, true, ""
			fs[2].Reason = "restricted, and permitted to this program"
		case denied(t.Err):
			fs[2].State, fs[2].Needed = No, true
			fs[2].Reason = "AppArmor restricts user namespaces, and no profile permits them to this program"
		}
	}
	return slices.Insert(append(fs, h.create(t, fs)), 3, h.spaces())
}

// Refusal is why no jail can be made here whatever the policy accepts, as a probe
// in new namespaces finds it; nil if they can be made. It is for a run that is
// refused anyway: of several reasons it should name the one that nothing gets
// around.
func (h *Host) Refusal() *Finding {
	t := h.Try(h.UID, h.GID)
	for _, f := range append(h.userNamespaces(t), h.freshProc(t)) {
		if f.State == No && f.Needed {
			return &f
		}
	}
	return nil
}

// spaces are the limits of the other kinds of namespace: a limit of 0 is how a
// host forbids one kind.
func (h *Host) spaces() Finding {
	f := Finding{ID: "namespaces.max", Needed: true, State: Yes, Where: "/proc/sys/user/max_*_namespaces", Reason: "no kind of namespace is switched off"}
	var off, set []string
	for _, kind := range []string{"mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		if v, err := h.read("/proc/sys/user/max_" + kind + "_namespaces"); err == nil && v == "0" {
			off = append(off, kind)
			set = append(set, "user.max_"+kind+"_namespaces=15000")
		}
	}
	if len(off) > 0 {
		f.State, f.Reason = No, "namespaces are switched off: "+strings.Join(off, ", ")
		f.Hint = "sysctl -w " + strings.Join(set, " ")
	}
	return f
}

func (h *Host) create(t Trial, switches []Finding) Finding {
	f := Finding{ID: "userns.create", Needed: true, State: Yes, Where: "clone(2) in a child", Reason: "user, mount, pid, net, ipc and uts namespaces were made"}
	if t.OK() || t.Step == stepProc {
		return f
	}
	f.State, f.Reason = No, t.Error()
	if t.Step == stepRun {
		f.State = Unknown
	}
	for _, s := range switches {
		if s.State == No {
			f.Hint = "see " + s.ID
			return f
		}
	}
	switch {
	case errors.Is(t.Err, unix.ENOSPC), errors.Is(t.Err, unix.EUSERS):
		f.Reason += ": a limit of namespaces is reached, or they are nested too deep"
		f.Hint = "sysctl -w user.max_user_namespaces=15000"
	case errors.Is(t.Err, unix.EINVAL):
		f.Reason += ": the kernel lacks a kind of namespace"
		f.Hint = "boot a kernel with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS and CONFIG_UTS_NS"
	case denied(t.Err):
		why, hint := h.confined()
		f.Reason += why
		f.Hint = hint
	default:
		f.Hint = "run `jailer doctor` as the user and from the place that jailer will be run by"
	}
	return f
}

// confined says what this process is confined by, of what can deny namespaces
// without a switch. A refusal doesn't name who refused, so all are named.
func (h *Host) confined() (why, hint string) {
	var by, hints []string
	label, err := h.read("/proc/self/attr/apparmor/current")
	if err != nil {
		label, err = h.read("/proc/self/attr/current")
	}
	if name, ok := strings.CutSuffix(label, " (enforce)"); ok && err == nil {
		by = append(by, fmt.Sprintf("the AppArmor profile %q", name))
		hints = append(hints, "apparmor=unconfined")
	}
	status, _ := h.read("/proc/self/status")
	if field(status, "Seccomp") == "2" {
		by = append(by, "a seccomp filter")
		hints = append(hints, "seccomp=unconfined")
	}
	if len(by) == 0 {
		return "", "in a chroot, leave it; with SELinux or another security module, permit user namespaces to this program there"
	}
	return "; this process is under " + strings.Join(by, " and "),
		"start the container around jailer with --security-opt " + strings.Join(hints, " --security-opt ") +
			" (docker, podman); a jail of jailer's own permits no other inside it: start that one beside it"
}

// field is a value of /proc/PID/status (proc_pid_status(5)).
func field(status, key string) string {
	for l := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(l, key+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func denied(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }
