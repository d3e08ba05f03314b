package host

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/cgroup"
)

// says is what one finding must be.
type says struct {
	id    string
	state State
	cause string
	words []string // in reason, place or hint
}

type hostCase struct {
	name   string
	uid    int
	set    func(h *Host, files fstest.MapFS, w *Want)
	failed []string
	says   []says
}

func restricted(files fstest.MapFS) {
	files["proc/sys/kernel/apparmor_restrict_unprivileged_userns"] = file("1\n")
}

var hostCases = []hostCase{
	{name: "a good host, user", uid: 1000},
	{name: "a good host, root", uid: 0, says: []says{{"cgroup.base.owner", Yes, "", nil}, {"root.uid_range", Yes, "", nil}}},
	{
		name: "Ubuntu 24.04 restricts", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			restricted(files)
			h.Try = func(int, int) Trial { return Trial{stepMount, unix.EACCES} }
		},
		failed: []string{"userns.apparmor", "userns.create"},
		says: []says{
			{"userns.apparmor", No, "", []string{"AppArmor restricts", "/opt/bin/jailer apparmor load --install", "kernel.apparmor_restrict_unprivileged_userns=0"}},
			{"userns.create", No, "", []string{"see userns.apparmor", "permission denied"}},
		},
	},
	{
		name: "Ubuntu 24.04 with a profile", uid: 1000,
		set:  func(_ *Host, files fstest.MapFS, _ *Want) { restricted(files) },
		says: []says{{"userns.apparmor", Yes, "", []string{"permitted to this program"}}},
	},
	{
		name: "Ubuntu 24.04, root", uid: 0,
		set:  func(_ *Host, files fstest.MapFS, _ *Want) { restricted(files) },
		says: []says{{"userns.apparmor", Yes, "", []string{"root isn't bound"}}},
	},
	{
		// The restriction is on, but something else was in the way.
		name: "Ubuntu 24.04, no answer", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			restricted(files)
			h.Try = func(int, int) Trial { return Trial{stepRun, errors.New("killed")} }
		},
		failed: []string{"userns.create"},
		says:   []says{{"userns.apparmor", Unknown, "", []string{"apparmor load"}}, {"userns.create", Unknown, "", nil}},
	},
	{
		name: "user namespaces off", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			files["proc/sys/user/max_user_namespaces"] = file("0\n")
			h.Try = func(int, int) Trial { return Trial{stepClone, unix.ENOSPC} }
		},
		failed: []string{"userns.max", "userns.create"},
		says: []says{
			{"userns.max", No, "", []string{"sysctl -w user.max_user_namespaces=15000"}},
			{"userns.create", No, "", []string{"see userns.max"}},
		},
	},
	{
		name: "a kernel without user namespaces", uid: 0,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			delete(files, "proc/sys/user/max_user_namespaces")
			delete(files, "proc/self/ns/user")
			h.Try = func(int, int) Trial { return Trial{stepClone, unix.EINVAL} }
		},
		failed: []string{"userns.max", "userns.create"},
		says:   []says{{"userns.max", No, "", []string{"CONFIG_USER_NS"}}},
	},
	{
		name: "Debian's switch", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			files["proc/sys/kernel/unprivileged_userns_clone"] = file("0\n")
			h.Try = func(int, int) Trial { return Trial{stepClone, unix.EPERM} }
		},
		failed: []string{"userns.clone", "userns.create"},
		says:   []says{{"userns.clone", No, "", []string{"sysctl -w kernel.unprivileged_userns_clone=1"}}},
	},
	{
		name: "Debian's switch, root", uid: 0,
		set: func(_ *Host, files fstest.MapFS, _ *Want) {
			files["proc/sys/kernel/unprivileged_userns_clone"] = file("0\n")
		},
		failed: []string{"userns.clone"},
		says:   []says{{"userns.clone", No, "", []string{"sysctl -w kernel.unprivileged_userns_clone=1"}}},
	},
	{
		name: "a container's seccomp profile", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, _ *Want) {
			h.Try = func(int, int) Trial { return Trial{stepClone, unix.EPERM} }
		},
		failed: []string{"userns.create"},
		says:   []says{{"userns.create", No, "", []string{"chroot", "SELinux"}}},
	},
	{
		name: "the same, and seen", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			h.Try = func(int, int) Trial { return Trial{stepClone, unix.EPERM} }
			files["proc/self/status"] = file("Seccomp:\t2\n")
		},
		failed: []string{"userns.create"},
		says: []says{
			{"userns.create", No, "", []string{"under a seccomp filter", "--security-opt seccomp=unconfined"}},
			{"net.egress", No, "", []string{"see userns.create", "eth0"}},
		},
	},
	{
		name: "a container's AppArmor profile and filter", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			h.Try = func(int, int) Trial { return Trial{stepClone, unix.EACCES} }
			files["proc/self/status"] = file("Seccomp:\t2\n")
			files["proc/self/attr/current"] = file("containers-default-0.62.2 (enforce)\n")
		},
		failed: []string{"userns.create"},
		says: []says{{"userns.create", No, "", []string{
			`the AppArmor profile "containers-default-0.62.2" and a seccomp filter`,
			"--security-opt apparmor=unconfined --security-opt seccomp=unconfined",
		}}},
	},
	{
		name: "root of a container", uid: 0,
		set: func(_ *Host, files fstest.MapFS, _ *Want) {
			files["proc/self/status"] = file("CapEff:\t00000000800405fb\n")
		},
		failed: []string{"root.capabilities"},
		says:   []says{{"root.capabilities", No, "", []string{"lacks CAP_SYS_PTRACE, CAP_SYS_ADMIN", "--cap-add SYS_PTRACE --cap-add SYS_ADMIN"}}},
	},
	{
		name: "a user has no capabilities", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, _ *Want) {
			files["proc/self/status"] = file("CapEff:\t0000000000000000\n")
		},
		says: []says{{"root.capabilities", Yes, "", []string{"users need none"}}},
	},
	{
		name: "root whose capabilities can't be read", uid: 0,
		set:    func(_ *Host, files fstest.MapFS, _ *Want) { delete(files, "proc/self/status") },
		failed: []string{"root.capabilities"},
		says:   []says{{"root.capabilities", Unknown, "", nil}},
	},
	{
		name: "no net namespaces", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			files["proc/sys/user/max_net_namespaces"] = file("0\n")
			h.Try = func(int, int) Trial { return Trial{stepClone, unix.ENOSPC} }
		},
		failed: []string{"namespaces.max", "userns.create"},
		says:   []says{{"namespaces.max", No, "", []string{"user.max_net_namespaces=15000"}}},
	},
	{
		name: "masked /proc", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			files["proc/self/mountinfo"] = file(maskedProc)
			h.Try = func(int, int) Trial { return Trial{stepProc, unix.EPERM} }
		},
		failed: []string{"proc.fresh"},
		says:   []says{{"proc.fresh", No, "", []string{"/proc/bus, /proc/sys, /proc/acpi, /proc/kcore, …", "systempaths=unconfined"}}},
	},
	{
		// Told from the mounts alone, where the namespaces couldn't be made.
		name: "masked /proc, no namespaces", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			files["proc/self/mountinfo"] = file(maskedProc)
			h.Try = func(int, int) Trial { return Trial{stepClone, unix.EPERM} }
		},
		failed: []string{"userns.create", "proc.fresh"},
	},
	{
		name: "masked /proc with a whole one elsewhere", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			files["proc/self/mountinfo"] = file(maskedProc + "800 700 0:53 / /mnt/proc rw - proc proc rw\n")
			h.Try = func(int, int) Trial { return Trial{stepClone, unix.EPERM} }
		},
		failed: []string{"userns.create"},
	},
	{
		// What the kernel did counts, whatever the mounts look like.
		name: "whole /proc, and refused", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, _ *Want) {
			h.Try = func(int, int) Trial { return Trial{stepProc, unix.EPERM} }
		},
		failed: []string{"proc.fresh"},
		says:   []says{{"proc.fresh", No, "", []string{"operation not permitted", "unmask=ALL"}}, {"userns.create", Yes, "", nil}},
	},
	{
		name: "masked /proc, and permitted", uid: 1000,
		set:  func(_ *Host, files fstest.MapFS, _ *Want) { files["proc/self/mountinfo"] = file(maskedProc) },
		says: []says{{"proc.fresh", Yes, "", nil}},
	},
	{
		name: "read-only /proc", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			files["proc/self/mountinfo"] = file("21 26 0:20 / /proc ro,relatime - proc proc rw\n")
			h.Try = func(int, int) Trial { return Trial{stepProc, unix.EPERM} }
		},
		failed: []string{"proc.fresh"},
		says:   []says{{"proc.fresh", No, "", []string{"/proc is read-only"}}},
	},
	{
		name: "undelegated v2", uid: 1000,
		set:    func(h *Host, _ fstest.MapFS, _ *Want) { refuse(h, "cgroup.delegation", "memory", "pids", "cpu") },
		failed: []string{"cgroup.memory", "cgroup.pids", "cgroup.cpu"},
		says:   []says{{"cgroup.memory", No, "cgroup.delegation", []string{"mend it so", `enforce = "best-effort"`, "/sys/fs/cgroup/s/cgroup.controllers"}}},
	},
	{
		name: "undelegated v2, best effort", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, w *Want) {
			refuse(h, "cgroup.delegation", "memory", "pids", "cpu")
			w.BestEffort = true
		},
		says: []says{{"cgroup.memory", No, "cgroup.delegation", []string{"an rlimit stands in"}}, {"cgroup.cpu", No, "cgroup.delegation", []string{"not enforced"}}},
	},
	{
		name: "undelegated v2, best effort, and memory required", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, w *Want) {
			refuse(h, "cgroup.delegation", "memory", "pids", "cpu")
			w.BestEffort, w.Require = true, []string{"userns", "netns", "seccomp", "memory", "workspace"}
		},
		failed: []string{"require.memory"},
		says: []says{
			{"require.memory", No, "", []string{"see cgroup.memory"}},
			{"require.userns", Yes, "", nil},
			{"require.seccomp", Yes, "", nil},
			{"require.workspace", Yes, "", nil},
		},
	},
	{
		name: "cpuset and io are had", uid: 1000,
		says: []says{{"cgroup.cpuset", Yes, "", nil}, {"cgroup.io", Yes, "", nil}},
	},
	{
		name: "io not delegated: nothing needs it", uid: 1000,
		set:  func(h *Host, _ fstest.MapFS, _ *Want) { refuse(h, "cgroup.delegation.io", "io") },
		says: []says{{"cgroup.cpuset", Yes, "", nil}, {"cgroup.io", No, "cgroup.delegation.io", []string{"mend it so"}}},
	},
	{
		name: "io, which the profile needs, not delegated", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, _ *Want) {
			refuse(h, "cgroup.delegation.io", "io")
			asked := h.Cgroups
			h.Cgroups = func(o cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
				if len(o.Need) == 0 {
					o.Need = append(cgroup.Controllers(), "io")
				}
				return asked(o)
			}
		},
		failed: []string{"cgroup.io"},
	},
	{
		name: "CPUs that are not there, best effort", uid: 1000,
		set:    func(_ *Host, _ fstest.MapFS, w *Want) { w.BestEffort, w.CPUSet = true, "1,9" },
		failed: []string{"cgroup.cpus"},
		says:   []says{{"cgroup.cpus", No, "", []string{"1,9", "0-1"}}},
	},
	{
		name: "CPUs that are there", uid: 1000,
		set:  func(_ *Host, _ fstest.MapFS, w *Want) { w.CPUSet = "1" },
		says: []says{{"cgroup.cpus", Yes, "", nil}},
	},
	{
		name: "CPUs that can't be counted", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			w.CPUSet = "1"
			delete(files, "sys/devices/system/cpu/online")
		},
		failed: []string{"cgroup.cpus"},
		says:   []says{{"cgroup.cpus", Unknown, "", []string{"sysfs"}}},
	},
	{
		name: "swap without a bound, best effort", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, w *Want) {
			w.BestEffort = true
			asked := h.Cgroups
			h.Cgroups = func(o cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
				l, found := asked(o)
				found[len(found)-1].State, found[len(found)-1].Hint = No, "swapoff -a"
				return l, found
			}
		},
		failed: []string{"cgroup.swap"},
	},
	{
		name: "cpu not delegated", uid: 1000,
		set:    func(h *Host, _ fstest.MapFS, _ *Want) { refuse(h, "cgroup.delegation.cpu", "cpu") },
		failed: []string{"cgroup.cpu"},
		says:   []says{{"cgroup.cpu", No, "cgroup.delegation.cpu", nil}, {"cgroup.memory", Yes, "", nil}},
	},
	{
		// What is there is used, whatever is not.
		name: "cpu not delegated, best effort, and all required", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, w *Want) {
			refuse(h, "cgroup.delegation.cpu", "cpu")
			w.BestEffort, w.Require = true, []string{"pids", "cpu"}
		},
		failed: []string{"require.cpu"},
		says:   []says{{"cgroup.memory", Yes, "", []string{"cgroup v2"}}, {"cgroup.cpu", No, "cgroup.delegation.cpu", []string{"not enforced"}}},
	},
	{
		// The cgroup package's own answer about a host without any.
		name: "no cgroups", uid: 0,
		set: func(h *Host, _ fstest.MapFS, _ *Want) {
			h.Cgroups = func(o cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
				o.Proc = "testdata/nocgroups"
				return cgroup.Check(o)
			}
		},
		failed: []string{"cgroup.hierarchy", "cgroup.memory", "cgroup.pids", "cgroup.cpu"},
		says:   []says{{"cgroup.hierarchy", No, "cgroup.mounted", []string{"no cgroup file system"}}, {"cgroup.cpu", No, "cgroup.mounted", []string{"mount -t cgroup2"}}},
	},
	{
		name: "no cgroups, best effort", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, w *Want) {
			h.Cgroups = func(o cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
				o.Proc = "testdata/nocgroups"
				return cgroup.Check(o)
			}
			w.BestEffort = true
		},
		failed: []string{"cgroup.hierarchy"},
	},
	{
		name: "cgroups that can't be read", uid: 0,
		set: func(h *Host, _ fstest.MapFS, _ *Want) {
			h.Cgroups = func(o cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
				o.Proc = "testdata/none"
				return cgroup.Check(o)
			}
		},
		failed: []string{"cgroup.memory", "cgroup.pids", "cgroup.cpu"},
		says:   []says{{"cgroup.memory", Unknown, "", nil}, {"cgroup.io", Unknown, "", nil}},
	},
	{
		name: "hybrid, root", uid: 0,
		set: func(h *Host, _ fstest.MapFS, _ *Want) {
			h.Cgroups = func(cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
				found := goodCgroups()
				found[0].Reason = "cgroup v1 with v2 beside it; cgroup v2 has no memory, pids, cpu here"
				l := &cgroup.Layout{Mode: cgroup.ModeHybrid, V1: map[string]cgroup.Mount{}, Unified: &cgroup.Mount{Point: "/sys/fs/cgroup/unified"}}
				for _, c := range []string{"memory", "pids", "cpu"} {
					l.V1[c] = cgroup.Mount{Point: "/sys/fs/cgroup/" + c}
				}
				return l, found
			}
		},
		says: []says{
			{"cgroup.hierarchy", Yes, "", []string{"cgroup v2 has no memory, pids, cpu here"}},
			{"cgroup.controller.cpuacct", Yes, "", nil},
		},
	},
	{
		name: "v1 without cpuacct, base of another", uid: 0,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			files["sys/fs/cgroup/pids/jailer"] = dir(1000, 0o755)
			h.Cgroups = func(cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
				return &cgroup.Layout{Mode: cgroup.ModeV1, V1: map[string]cgroup.Mount{"pids": {Point: "/sys/fs/cgroup/pids"}}}, goodCgroups()
			}
		},
		failed: []string{"cgroup.base.owner", "cgroup.controller.cpuacct"},
		says:   []says{{"cgroup.base.owner", No, "", []string{"rmdir /sys/fs/cgroup/pids/jailer", "uid 1000"}}},
	},
	{
		name: "no newuidmap, no range: not needed", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, _ *Want) {
			delete(files, "usr/bin/newuidmap")
			files["etc/subuid"] = file("")
		},
		says: []says{{"ids.newuidmap", No, "", []string{"apt-get install uidmap", "only ids"}}, {"ids.subuid", No, "", []string{"usermod --add-subuids", "ann"}}},
	},
	{
		name: "no newuidmap, and a range is wanted", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			delete(files, "usr/bin/newuidmap")
			w.IDRange = true
		},
		failed: []string{"ids.newuidmap"},
	},
	{
		name: "newgidmap without its bit", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["usr/bin/newgidmap"] = owned(0, 0o755, "")
			w.IDRange = true
		},
		failed: []string{"ids.newuidmap"},
		says:   []says{{"ids.newuidmap", No, "", []string{"chmod u+s /usr/bin/newgidmap"}}},
	},
	{
		name: "setuid, but not root's", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["usr/bin/newuidmap"] = owned(7, 0o755|fs.ModeSetuid, "")
			w.IDRange = true
		},
		failed: []string{"ids.newuidmap"},
	},
	{
		name: "file capabilities do", uid: 1000,
		set: func(h *Host, files fstest.MapFS, w *Want) {
			files["usr/bin/newuidmap"], files["usr/bin/newgidmap"] = owned(0, 0o755, ""), owned(0, 0o755, "")
			h.FileCaps = func(string) bool { return true }
			w.IDRange = true
		},
	},
	{
		name: "a range that is too small", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["etc/subgid"] = file("ann:100000:1000\nbob:200000:65536\n")
			w.IDRange = true
		},
		failed: []string{"ids.subuid"},
		says:   []says{{"ids.subuid", No, "", []string{"/etc/subgid"}}},
	},
	{
		name: "a range for root", uid: 0,
		set:    func(_ *Host, _ fstest.MapFS, w *Want) { w.IDRange = true },
		failed: []string{"ids.range.root"},
	},
	{
		name: "root without a range of uids", uid: 0,
		set:    func(_ *Host, _ fstest.MapFS, w *Want) { w.UIDRange = [2]uint32{} },
		failed: []string{"root.uid_range"},
	},
	{
		name: "a range that somebody has", uid: 0,
		set: func(_ *Host, _ fstest.MapFS, w *Want) {
			w.CheckUIDRange = func(passwd, subuid []byte) (string, string) {
				if !strings.Contains(string(passwd), "ann") || !strings.Contains(string(subuid), "ann") {
					return "", ""
				}
				return "taken", "take another"
			}
		},
		failed: []string{"root.uid_range"},
		says:   []says{{"root.uid_range", No, "", []string{"taken", "take another"}}},
	},
	{
		name: "root of a rootless container", uid: 0,
		set: func(_ *Host, files fstest.MapFS, _ *Want) {
			files["proc/self/uid_map"] = file("         0       1000          1\n         1     100000      65536\n")
		},
		failed: []string{"root.uid_range"},
		says:   []says{{"root.uid_range", No, "", []string{"/proc/self/uid_map", "no ids 1900000000-1900065535"}}},
	},
	{
		name: "root of a container, with a range that it has", uid: 0,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["proc/self/uid_map"] = file("         0       1000          1\n         1     100000      65536\n")
			files["proc/self/gid_map"] = file("         0          0 4294967295\n")
			w.UIDRange = [2]uint32{1, 65536}
		},
	},
	{
		name: "an old kernel", uid: 0,
		set:    func(h *Host, _ fstest.MapFS, _ *Want) { h.Release = "5.13.19-generic" },
		failed: []string{"kernel.floor"},
	},
	{
		name: "a kernel that can't be told", uid: 0,
		set:    func(h *Host, _ fstest.MapFS, _ *Want) { h.Release, h.Version = "", "" },
		failed: []string{"kernel.floor"},
		says:   []says{{"kernel.floor", Unknown, "", nil}, {"kernel.bugs", Unknown, "", nil}, {"kernel.patches", Unknown, "", nil}},
	},
	{
		name: "a kernel of kernel.org with bugs", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, _ *Want) { h.Release, h.Version = "5.16.10", "#1 SMP" },
		says: []says{
			{"kernel.bugs", No, "", []string{"Dirty Pipe", "MSG_OOB", "Copy Fail", "apt-get dist-upgrade"}},
			{"kernel.patches", Unknown, "", []string{"doesn't say when"}},
		},
	},
	{
		// What is behind the dash counts there, and only the distribution knows it.
		name: "a distribution's kernel with bugs", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			h.Release, h.Version = "5.14.0-427.el9.x86_64", "#1 SMP PREEMPT_DYNAMIC Fri Feb 23 01:51:18 EST 2024"
			files["etc/os-release"] = file("NAME=x\nID=\"rhel\"\nID_LIKE=\"fedora\"\n")
		},
		says: []says{
			{"kernel.bugs", Unknown, "", []string{"CVE-2022-0847", "security tracker", "dnf upgrade"}},
			{"kernel.patches", No, "", []string{"built on 2024-02-23, 829 days ago", "an unnamed distribution"}},
		},
	},
	{
		name: "a good kernel, built lately", uid: 1000,
		says: []says{
			{"kernel.bugs", Yes, "", []string{"6.1.170"}},
			{"kernel.patches", Yes, "", []string{"Debian GNU/Linux 12 (bookworm)", "built on 2026-05-02"}},
		},
	},
	{
		name: "Ubuntu's base", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			h.Release, h.Version = "6.8.0-45-generic", "#45-Ubuntu SMP PREEMPT_DYNAMIC Fri Aug 30 12:02:04 UTC 2024"
			files["proc/version_signature"] = file("Ubuntu 6.8.0-45.45-generic 6.8.12\n")
			delete(files, "etc/os-release")
		},
		says: []says{{"kernel.bugs", Unknown, "", []string{"Linux 6.8.12", "CVE-2025-38236", "newest kernel"}}},
	},
	{
		name: "an update waits", uid: 1000,
		set:  func(_ *Host, files fstest.MapFS, _ *Want) { files["run/reboot-required"] = file("") },
		says: []says{{"kernel.patches", No, "", []string{"waits for a reboot", "/run/reboot-required"}}},
	},
	{
		name: "a host that was suspended, without NTP, without a route", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			h.Slept = func() (time.Duration, error) { return 90 * time.Second, nil }
			h.Synced = func() (bool, error) { return false, nil }
			files["proc/net/route"] = file("Iface\tDestination\n")
		},
		says: []says{
			{"clock.boottime", No, "", []string{"1m30s", "systemctl mask"}},
			{"clock.synced", No, "", []string{"timedatectl set-ntp true"}},
			{"net.egress", Yes, "", []string{"no default route"}},
		},
	},
	{
		name: "clocks and routes that can't be read", uid: 1000,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			h.Slept = func() (time.Duration, error) { return 0, unix.EPERM }
			h.Synced = func() (bool, error) { return false, unix.EPERM }
			delete(files, "proc/net/route")
		},
		says: []says{{"clock.boottime", Unknown, "", nil}, {"clock.synced", Unknown, "", nil}, {"net.egress", Unknown, "", nil}},
	},
	{
		name: "clocks and routes of a good host", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, _ *Want) {
			files["proc/net/ipv6_route"] = file("00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     wg0\n")
		},
		says: []says{{"clock.boottime", Yes, "", nil}, {"clock.synced", Yes, "", nil}, {"net.egress", Yes, "", []string{"without any route", "eth0, wg0"}}},
	},
	{
		name: "no namespaces, no answer about the network", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, _ *Want) {
			h.Try = func(int, int) Trial { return Trial{stepRun, errors.New("killed")} }
		},
		failed: []string{"userns.create"},
		says:   []says{{"net.egress", Unknown, "", nil}},
	},
	{
		name: "a foreign processor", uid: 0,
		set:    func(h *Host, _ fstest.MapFS, _ *Want) { h.Arch = "riscv64" },
		failed: []string{"kernel.arch"},
	},
	{
		name: "an untagged build", uid: 0,
		set:    func(_ *Host, _ fstest.MapFS, w *Want) { w.Build = Build{}; w.Require = []string{"seccomp"} },
		failed: []string{"build.seccomp", "build.intact", "require.seccomp"},
		says:   []says{{"build.seccomp", No, "", []string{"make build"}}},
	},
	{
		name: "a damaged filter", uid: 0,
		set:    func(_ *Host, _ fstest.MapFS, w *Want) { w.Build.Filter = errors.New("checksum mismatch") },
		failed: []string{"build.intact"},
	},
	{
		name: "no filters in the kernel", uid: 0,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			delete(files, "proc/sys/kernel/seccomp/actions_avail")
			h.Seccomp = func() error { return unix.EINVAL }
		},
		failed: []string{"seccomp.kernel"},
		says:   []says{{"seccomp.kernel", No, "", []string{"CONFIG_SECCOMP_FILTER"}}},
	},
	{
		// "Could not tell" counts as no.
		name: "filters that can't be asked for", uid: 0,
		set: func(h *Host, files fstest.MapFS, _ *Want) {
			delete(files, "proc/sys/kernel/seccomp/actions_avail")
			h.Seccomp = func() error { return unix.EPERM }
		},
		failed: []string{"seccomp.kernel"},
		says:   []says{{"seccomp.kernel", Unknown, "", nil}},
	},
	{
		name: "kill_process missing", uid: 0,
		set: func(_ *Host, files fstest.MapFS, _ *Want) {
			files["proc/sys/kernel/seccomp/actions_avail"] = file("kill_thread trap errno trace allow\n")
		},
		failed: []string{"seccomp.kernel"},
	},
	{
		name: "another filter", uid: 0,
		set: func(_ *Host, _ fstest.MapFS, w *Want) {
			w.Seccomp, w.Filter = "own", Filter{"/etc/own.json", "line 3: no", "mend it"}
		},
		failed: []string{"seccomp.profile"},
	},
	{
		name: "AppArmor and Landlock required", uid: 0,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["sys/module/apparmor/parameters/enabled"] = file("Y\n")
			w.AppArmor, w.Require = "required", []string{"apparmor", "landlock", "moon"}
		},
		failed: []string{"apparmor.profile", "require.apparmor", "require.landlock", "require.moon"},
	},
	{
		name: "another text under AppArmor's names", uid: 0,
		set: func(h *Host, files fstest.MapFS, w *Want) {
			armed(files)
			h.AppArmor = func(string, string) (uint32, error) { return 0x7f, nil }
			w.AppArmor = "required"
		},
		failed: []string{"apparmor.profile"},
		says:   []says{{"apparmor.profile", No, "", []string{"not this program's", "jailer apparmor load"}}},
	},
	{
		name: "AppArmor that doesn't answer", uid: 0,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			armed(files)
			w.AppArmor = "required"
		},
		failed: []string{"apparmor.profile"},
		says:   []says{{"apparmor.profile", Unknown, "", []string{"can't be told", "permission denied"}}},
	},
	{
		name: "a jail without /sys", uid: 0,
		set:  func(_ *Host, files fstest.MapFS, _ *Want) { delete(files, "sys/module") },
		says: []says{{"apparmor", Unknown, "", []string{"/sys/module"}}},
	},
	{
		name: "no AppArmor", uid: 0,
		says: []says{{"apparmor", No, "", []string{"this kernel has no AppArmor"}}},
	},
	{
		name: "no Landlock", uid: 0,
		set: func(h *Host, _ fstest.MapFS, _ *Want) {
			h.Landlock = func() (int, error) { return 0, unix.EOPNOTSUPP }
		},
		says: []says{{"landlock", No, "", nil}},
	},
	{
		// Its files are opened with the launcher's rights.
		name: "a root behind a closed door", uid: 0,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["root"], files["root/py"], files["root/py/usr"] = dir(0, 0o700), dir(0, 0o700), dir(0, 0o755)
			w.Rootfs, w.RootPath = "py", "/root/py"
		},
		says: []says{{"rootfs", Yes, "", nil}, {"rootfs.entries", Yes, "", nil}, {"rootfs.search", Yes, "", nil}},
	},
	{
		name: "a root that the job can't enter", uid: 0,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["srv/py/usr"], files["srv/py/home"] = dir(0, 0o750), dir(0, 0o700)
			w.Rootfs, w.RootPath = "py", "/srv/py"
		},
		says: []says{{"rootfs.entries", No, "", []string{"chmod o+rx /srv/py/usr"}}},
	},
	{
		name: "the same for its owner", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["home/ann/py/usr"] = dir(1000, 0o700)
			w.Rootfs, w.RootPath = "py", "/home/ann/py"
		},
		says: []says{{"rootfs.entries", Yes, "", nil}},
	},
	{
		name: "the same for its owner, whose job has another id", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["home/ann/py/usr"] = dir(1000, 0o700)
			w.Rootfs, w.RootPath, w.IDRange = "py", "/home/ann/py", true
		},
		says: []says{{"rootfs.entries", No, "", nil}},
	},
	{
		name: "a root that isn't there", uid: 0,
		set:    func(_ *Host, _ fstest.MapFS, w *Want) { w.Rootfs, w.RootPath = "py", "/srv/py" },
		failed: []string{"rootfs"},
		says:   []says{{"rootfs", No, "", []string{"[rootfs.py] path"}}},
	},
	{
		name: "an empty root", uid: 0,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["srv/py"] = dir(0, 0o755)
			w.Rootfs, w.RootPath = "py", "/srv/py"
		},
		failed: []string{"rootfs"},
	},
	{
		name: "a root on a noexec mount, that others change", uid: 1000,
		set: func(h *Host, files fstest.MapFS, w *Want) {
			files["srv/py"], files["srv/py/usr"] = dir(0, 0o755), dir(7, 0o755)
			w.Rootfs, w.RootPath, w.Roots = "py", "/srv/py", []Root{{"js", "/srv/js"}, {"py", "/srv/py"}}
			h.NoExec = func(d string) (bool, error) { return d == "/srv/py", nil }
		},
		says: []says{
			{"rootfs.exec", No, "", []string{"findmnt -f -n -o TARGET --target /srv/py"}},
			{"rootfs.source", No, "", []string{"can change /srv/py/usr", "js = /srv/js, py = /srv/py", "chown -R root: /srv/py"}},
		},
	},
	{
		name: "a root of root's", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["srv/py"], files["srv/py/usr"] = dir(0, 0o755), dir(1000, 0o755)
			w.Rootfs, w.RootPath = "py", "/srv/py"
		},
		says: []says{{"rootfs.exec", Yes, "", nil}, {"rootfs.source", Unknown, "", []string{"nothing says"}}},
	},
	{
		name: "the view of the host, and a mount that can't be asked", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, _ *Want) {
			h.NoExec = func(string) (bool, error) { return false, unix.EACCES }
		},
		says: []says{{"rootfs.exec", Unknown, "", nil}, {"rootfs.source", Yes, "", []string{"own packages"}}},
	},
	{
		name: "no /usr", uid: 0,
		set: func(_ *Host, files fstest.MapFS, _ *Want) {
			for _, f := range []string{"usr", "usr/bin", "usr/bin/newuidmap", "usr/bin/newgidmap"} {
				delete(files, f)
			}
		},
		failed: []string{"rootfs"},
	},
	{
		name: "state behind a closed door", uid: 0,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			files["root"], files["root/a"] = dir(0, 0o700), dir(0, 0o755)
			w.StateDir = "/root/a/b/jailer"
		},
		failed: []string{"rootfs.search"},
		says:   []says{{"rootfs.search", No, "", []string{"uid 1900000000", "chmod o+x /root", "--state-dir"}}},
	},
	{
		name: "a state directory of another", uid: 1000,
		set:    func(_ *Host, files fstest.MapFS, _ *Want) { files["run/user/1000/jailer"] = dir(0, 0o755) },
		failed: []string{"state.dir"},
		says:   []says{{"state.dir", No, "", []string{"/run/user/1000/jailer", "owned by uid 0"}}},
	},
	{
		name: "a state directory that others write", uid: 0,
		set:    func(_ *Host, files fstest.MapFS, _ *Want) { files["run/jailer"] = dir(0, 0o775) },
		failed: []string{"state.dir"},
	},
	{
		name: "a state directory that is a link", uid: 0,
		set: func(_ *Host, files fstest.MapFS, _ *Want) {
			files["run/jailer"] = owned(0, 0o777|fs.ModeSymlink, "../tmp")
		},
		failed: []string{"state.dir"},
	},
	{
		name: "the fallback", uid: 1000,
		set:  func(_ *Host, files fstest.MapFS, _ *Want) { files["run/user/1000"] = dir(0, 0o755) },
		says: []says{{"state.dir", Yes, "", []string{"/tmp/jailer-1000", "fallback", "enable-linger"}}},
	},
	{
		name: "a state directory that can't be made", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, w *Want) {
			h.Writable = func(string) error { return unix.EACCES }
			w.StateDir = "/var/x/jailer"
		},
		failed: []string{"state.dir"},
		says:   []says{{"state.dir", No, "", []string{"/var/x", "--state-dir"}}},
	},
	{
		name: "a relative state directory", uid: 1000,
		set:    func(_ *Host, _ fstest.MapFS, w *Want) { w.StateDir = "x" },
		failed: []string{"state.dir"},
	},
	{
		name: "an event log that can't be written", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, w *Want) {
			w.Events, w.EventsNeeded = "/var/log/none/events.ndjson", true
			h.Events = func(log string) error {
				return &jailer.Error{Path: "/var/log/none", Message: "can't be the directory", Hint: "install it", Err: unix.ENOENT}
			}
		},
		failed: []string{"events.sink"},
		says:   []says{{"events.sink", No, "", []string{"/var/log/none\n", "no such file", "install it"}}},
	},
	{
		name: "one whose events may be lost", uid: 1000,
		set: func(h *Host, _ fstest.MapFS, w *Want) {
			w.Events = "/var/log/none/events.ndjson"
			h.Events = func(log string) error { return unix.ENOENT }
		},
		says: []says{{"events.sink", No, "", []string{"no such file"}}},
	},
	{
		name: "a directory of the event log that others can write to", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, w *Want) {
			w.StateDir, w.EventsNeeded = "/run/user/1000/s", true
			files["run/user/1000/s"], files["run/user/1000/s/.priv"] = dir(1000, 0o700), dir(1000, 0o777)
		},
		failed: []string{"events.sink"},
		says:   []says{{"events.sink", No, "", []string{"/run/user/1000/s/.priv", "writable by others"}}},
	},
	{
		name: "apport", uid: 1000,
		set: func(_ *Host, files fstest.MapFS, _ *Want) {
			files["proc/sys/kernel/core_pattern"] = file("|/usr/share/apport/apport -p%p\n")
		},
		says: []says{{"core.pattern", No, "", []string{"/usr/share/apport/apport", "sysctl -w kernel.core_pattern=core"}}},
	},
}

func run(c hostCase) []Finding {
	h, files := fake(c.uid)
	w := good()
	if c.set != nil {
		c.set(h, files, &w)
	}
	return h.Check(w)
}

func TestCheck(t *testing.T) {
	for _, c := range hostCases {
		t.Run(c.name, func(t *testing.T) {
			found := run(c)
			if got := Failed(found); !slices.Equal(got, c.failed) {
				t.Errorf("failed: %q, want %q", got, c.failed)
			}
			for _, s := range c.says {
				f := find(t, found, s.id)
				if f.State != s.state || f.Cause != s.cause {
					t.Errorf("%+v, want %s %q", f, s.state, s.cause)
				}
				for _, word := range s.words {
					if !strings.Contains(f.Where+"\n"+f.Reason+"\n"+f.Hint, word) {
						t.Errorf("%+v: no %q", f, word)
					}
				}
			}
			for i, f := range found {
				if f.Reason == "" && !strings.HasPrefix(f.ID, "cgroup.") {
					t.Errorf("%s: no reason", f.ID)
				}
				if f.Failed() && f.Hint == "" && f.State == No {
					t.Errorf("%s: nothing that mends it", f.ID)
				}
				if slices.ContainsFunc(found[:i], func(g Finding) bool { return g.ID == f.ID }) {
					t.Errorf("%s: twice", f.ID)
				}
			}
		})
	}
}

func TestParseRelease(t *testing.T) {
	for _, c := range []struct {
		in           string
		major, minor int
		ok           bool
	}{
		{"6.18.44-fc-v782", 6, 18, true},
		{"5.14", 5, 14, true},
		{"5.14-rc1", 5, 14, true},
		{"6.8+", 6, 8, true},
		{"", 0, 0, false},
		{"6", 0, 0, false},
		{"x.y", 0, 0, false},
		{"6.", 6, 0, false},
	} {
		major, minor, ok := parseRelease(c.in)
		if ok != c.ok || (ok && (major != c.major || minor != c.minor)) {
			t.Errorf("%q: %d.%d %v", c.in, major, minor, ok)
		}
	}
}

func TestMapped(t *testing.T) {
	const text = "         0       1000          1\n         1     100000      65536\n"
	for _, c := range []struct {
		text   string
		lo, hi uint64
		want   bool
	}{
		{text, 1, 65536, true},
		{text, 1, 65537, false},
		{text, 0, 1, false},
		{text, 0, 0, true},
		{text, 65537, 65537, false},
		{"0 0 4294967295", 1900000000, 1900065535, true},
		{"0 0 4294967295", 4294967295, 4294967295, false},
		{"", 0, 0, false},
		{"x y z", 0, 0, false},
	} {
		if got := mapped(c.text, c.lo, c.hi); got != c.want {
			t.Errorf("%q has %d-%d: %v", c.text, c.lo, c.hi, got)
		}
	}
}

func TestSubordinateRange(t *testing.T) {
	const text = "# ann:1:65536\nann:x:65536\nann:100000:65534\nbob:1:65536\nann:0:70000\n1000:300000:65535\nann:400000:65536\n"
	for _, c := range []struct {
		name, id string
		first    uint32
		ok       bool
	}{{"ann", "1000", 300000, true}, {"ann", "7", 400000, true}, {"carl", "9", 0, false}, {"bob", "8", 1, true}} {
		if first, ok := SubordinateRange(text, c.name, c.id); first != c.first || ok != c.ok {
			t.Errorf("%s: %d, %v", c.name, first, ok)
		}
	}
}

func TestBugs(t *testing.T) {
	for _, c := range []struct {
		v    version
		want string // the last digits of what it has
	}{
		{version{5, 14, 21}, "0847 1431"},
		{version{5, 15, 24}, "0847 8236 1431"},
		{version{5, 15, 25}, "8236 1431"},
		{version{6, 1, 36}, "3269 8236 1431"},
		{version{6, 2, 16}, "3269 8236 1431"},
		{version{6, 1, 143}, "1431"},
		{version{6, 12, 85}, ""},
		{version{6, 17, 9}, "1431"},
		{version{7, 0, 0}, ""},
	} {
		var has []string
		for _, b := range bugs {
			if b.in(c.v) {
				has = append(has, b.cve[len(b.cve)-4:])
			}
		}
		if got := strings.Join(has, " "); got != c.want {
			t.Errorf("%v: %q, want %q", c.v, got, c.want)
		}
	}
}

func TestUpstream(t *testing.T) {
	for _, c := range []struct {
		release, version string
		want             version
	}{
		{"6.12.36", "#1 SMP", version{6, 12, 36}},
		{"7.0", "", version{7, 0, 0}},
		{"7.0-rc3", "", version{7, 0, 0}},
		{"6.1.0-18-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)", version{6, 1, 76}},
		{"6.12.117+deb13-cloud-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.117-1 (2026-11-01)", version{6, 12, 117}},
	} {
		h, _ := fake(0)
		h.Release, h.Version = c.release, c.version
		if got, ok := h.upstream(); got != c.want || !ok {
			t.Errorf("%s, %s: %v, %v", c.release, c.version, got, ok)
		}
	}
}

// TestRefusal wants what no policy gets around, before anything else.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		trial  Trial
		status string
		want   string
	}{
		{Trial{}, "CapEff:\t000001ffffffffff\n", ""},
		{Trial{stepRun, errors.New("killed")}, "CapEff:\t000001ffffffffff\n", ""},
		{Trial{stepClone, unix.EPERM}, "CapEff:\t000001ffffffffff\n", "userns.create"},
		{Trial{stepProc, unix.EPERM}, "CapEff:\t000001ffffffffff\n", "proc.fresh"},
		{Trial{stepClone, unix.EPERM}, "CapEff:\t0000000000000000\n", "root.capabilities"},
	} {
		h, files := fake(0)
		files["proc/self/status"] = file(c.status)
		h.Try = func(int, int) Trial { return c.trial }
		got := ""
		if f := h.Refusal(); f != nil {
			got = f.ID
			if f.Hint == "" {
				t.Errorf("%+v", f)
			}
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.trial, got, c.want)
		}
	}
}

// armed loads jailer's two profiles into the files of a host.
func armed(files fstest.MapFS) {
	const d = "sys/kernel/security/apparmor/policy/profiles/jailer-default.1"
	files["sys/module/apparmor/parameters/enabled"] = file("Y\n")
	files[d+"/name"], files[d+"/mode"] = file("jailer-default\n"), file("enforce\n")
	files[d+"/profiles/job.2/name"], files[d+"/profiles/job.2/mode"] = file("job\n"), file("enforce\n")
}
