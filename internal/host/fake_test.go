package host

import (
	"io/fs"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/cgroup"
)

const wholeProc = `21 26 0:20 / /proc rw,relatime - proc proc rw
22 21 0:33 / /proc/sys/fs/binfmt_misc rw - binfmt_misc binfmt_misc rw
26 1 254:0 / / rw,relatime - ext4 /dev/vda rw
`

// What Docker shows inside a container.
const maskedProc = `700 600 0:50 / / rw,relatime - overlay overlay rw
701 700 0:53 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
720 701 0:53 /bus /proc/bus ro,nosuid,nodev,noexec,relatime - proc proc rw
721 701 0:53 /sys /proc/sys ro,nosuid,nodev,noexec,relatime - proc proc rw
722 701 0:57 / /proc/acpi ro,relatime - tmpfs tmpfs ro
723 701 0:54 /null /proc/kcore rw,nosuid - tmpfs tmpfs rw,size=65536k
724 701 0:54 /null /proc/keys rw,nosuid - tmpfs tmpfs rw,size=65536k
`

func file(text string) *fstest.MapFile { return owned(0, 0o644, text) }

func dir(uid uint32, mode fs.FileMode) *fstest.MapFile { return owned(uid, mode|fs.ModeDir, "") }

func owned(uid uint32, mode fs.FileMode, text string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(text), Mode: mode, Sys: &syscall.Stat_t{Uid: uid, Gid: uid}}
}

// fake is a host on which everything works, for a user or for root.
func fake(uid int) (*Host, fstest.MapFS) {
	files := fstest.MapFS{
		".":                                     dir(0, 0o755),
		"sys/devices/system/cpu/online":         file("0-1\n"),
		"proc/self/mountinfo":                   file(wholeProc),
		"proc/self/ns/user":                     file(""),
		"proc/sys/user/max_user_namespaces":     file("96364\n"),
		"proc/sys/kernel/seccomp/actions_avail": file("kill_process kill_thread trap errno user_notif trace log allow\n"),
		"proc/sys/kernel/core_pattern":          file("core\n"),
		"proc/self/status":                      file("Name:\tjailer\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n"),
		"proc/self/attr/current":                file("unconfined\n"),
		"proc/net/route":                        file(routes),
		"proc/net/ipv6_route":                   file(routes6),
		"etc/os-release":                        file("PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n"),
		"etc/passwd":                            file("root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n"),
		"etc/subuid":                            file("ann:100000:65536\n"),
		"etc/subgid":                            file("ann:100000:65536\n"),
		"sys/module":                            dir(0, 0o755),
		"usr":                                   dir(0, 0o755),
		"usr/bin":                               dir(0, 0o755),
		"usr/bin/newuidmap":                     owned(0, 0o755|fs.ModeSetuid, ""),
		"usr/bin/newgidmap":                     owned(0, 0o755|fs.ModeSetuid, ""),
		"run":                                   dir(0, 0o755),
		"run/user":                              dir(0, 0o755),
		"run/user/1000":                         dir(1000, 0o700),
		"tmp":                                   dir(0, 0o777|fs.ModeSticky),
		"var/lib":                               dir(0, 0o755),
		"home/ann":                              dir(1000, 0o700),
	}
	h := &Host{
		FS: files, UID: uid, GID: uid, Exe: "/opt/bin/jailer", Arch: "amd64",
		Release: "6.1.0-48-amd64", Version: "#1 SMP PREEMPT_DYNAMIC Debian 6.1.170-1 (2026-05-02)",
		Cgroups: func(o cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
			return &cgroup.Layout{Mode: cgroup.ModeV2, Unified: &cgroup.Mount{Point: "/sys/fs/cgroup", V2: true}}, goodCgroups(o.Need...)
		},
		Try:      func(int, int) Trial { return Trial{} },
		Landlock: func() (int, error) { return 4, nil },
		AppArmor: func(string, string) (uint32, error) { return 0, fs.ErrPermission },
		Seccomp:  func() error { return nil },
		Writable: func(string) error { return nil },
		FileCaps: func(string) bool { return false },
		Owner:    owner,
		Now:      func() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) },
		Slept:    func() (time.Duration, error) { return 0, nil },
		Synced:   func() (bool, error) { return true, nil },
		NoExec:   func(string) (bool, error) { return false, nil },
		Events:   func(string) error { return nil },
		Volume:   func(string) (Volume, error) { return Volume{Free: 20 << 30}, nil },
		Way:      func(string) error { return nil },
	}
	return h, files
}

const routes = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0100A8C0	0003	0	0	0	00000000	0	0	0
eth0	0000A8C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
`

const routes6 = `fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
`

// goodCgroups has those that are needed: memory, pids and cpu, as a rule.
func goodCgroups(need ...string) []cgroup.Finding {
	if need == nil {
		need = []string{"memory", "pids", "cpu"}
	}
	var out []cgroup.Finding
	out = append(out, cgroup.Finding{ID: "cgroup.hierarchy", State: Yes, Reason: "cgroup v2"})
	for _, c := range need {
		out = append(out, cgroup.Finding{ID: "cgroup." + c, Controller: c, State: Yes, Where: "/sys/fs/cgroup/x", Reason: "cgroup v2"})
	}
	return append(out, cgroup.Finding{ID: "cgroup.kill", State: Yes}, cgroup.Finding{ID: "cgroup.nsdelegate", State: Yes},
		cgroup.Finding{ID: "cgroup.swap", State: Yes})
}

// refuse makes the cgroup package say no for these controllers.
func refuse(h *Host, id string, controllers ...string) {
	h.Cgroups = func(o cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
		found := goodCgroups(o.Need...)
		for i, f := range found {
			for _, c := range controllers {
				if f.Controller == c {
					u := &cgroup.Unavailable{Controller: c, File: "/sys/fs/cgroup/s/cgroup.controllers", ID: id, Reason: "not here", Hint: "mend it so", Err: unix.EACCES}
					found[i].State, found[i].Where, found[i].Reason, found[i].Hint, found[i].Cause = No, u.File, u.Error(), u.Hint, u
				}
			}
		}
		return &cgroup.Layout{Mode: cgroup.ModeV2, Unified: &cgroup.Mount{Point: "/sys/fs/cgroup"}}, found
	}
}

// good is what the built-in policy wants.
func good() Want {
	return Want{
		UIDRange: [2]uint32{1900000000, 1900065535}, Seccomp: "default", Rootfs: "host",
		CheckUIDRange: func(_, _ []byte) (string, string) { return "", "" },
		Build:         Build{Seccomp: true},
	}
}

func find(t *testing.T, fs []Finding, id string) Finding {
	t.Helper()
	for _, f := range fs {
		if f.ID == id {
			return f
		}
	}
	t.Fatalf("no finding %q", id)
	return Finding{}
}
