package seccomp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// neverCalls may not be allowed with any arguments.
var neverCalls = map[string]string{
	"io_uring_setup":    "does file and network work past the filter, and a family of kernel bugs (CVE-2022-29582, CVE-2023-2598)",
	"io_uring_enter":    "as io_uring_setup",
	"io_uring_register": "as io_uring_setup",
	"clone3":            "its flags are behind a pointer, so that a new user namespace can't be told from a thread",
	"unshare":           "new namespaces open the network and file-system kernel code to the job (CVE-2022-0185, CVE-2024-1086)",
	"setns":             "joins other namespaces",
	"keyctl":            "keyrings are not namespaced by user (CVE-2016-0728)",
	"add_key":           "as keyctl",
	"request_key":       "as keyctl",
	"bpf":               "the eBPF verifier family (CVE-2021-3490)",
	"userfaultfd":       "lets a job stop the kernel at a chosen page, a common part of exploits",
	"perf_event_open":   "reads other programs' behaviour and a family of kernel bugs",
	"ptrace":            "can take over a process that holds more than the job",
	"process_vm_readv":  "as ptrace",
	"process_vm_writev": "as ptrace",
	"process_madvise":   "acts on other processes",
	"pidfd_getfd":       "takes descriptors out of other processes",
	"kcmp":              "tells kernel pointers of other processes apart",
	"open_by_handle_at": "opens files by number, outside the root (Shocker)",
	"name_to_handle_at": "the other half of open_by_handle_at",
	"mount":             "changes what the root shows", "umount2": "as mount", "pivot_root": "as mount", "chroot": "as mount",
	"open_tree": "as mount", "move_mount": "as mount", "fsopen": "as mount (CVE-2022-0185)", "fsconfig": "as fsopen",
	"fsmount": "as mount", "fspick": "as mount", "mount_setattr": "as mount",
	"kexec_load": "replaces the kernel", "kexec_file_load": "replaces the kernel", "reboot": "stops the host",
	"init_module": "loads kernel code", "finit_module": "loads kernel code", "delete_module": "unloads kernel code",
	"acct": "writes a file for every process of the host", "swapon": "gives the host's memory away", "swapoff": "as swapon",
	"iopl": "hardware ports", "ioperm": "hardware ports", "modify_ldt": "16-bit segments, a family of kernel bugs",
	"settimeofday": "the host's clock", "clock_settime": "the host's clock", "clock_adjtime": "the host's clock", "adjtimex": "the host's clock",
	"sethostname": "the host's name", "setdomainname": "the host's name", "syslog": "the host's kernel log",
	"quotactl": "the host's quotas", "quotactl_fd": "the host's quotas", "fanotify_init": "watches the host's files",
	"socketcall": "its arguments are behind a pointer, so that no family can be refused",
}

// neverArgs may not be allowed with the arguments that they describe.
var neverArgs = []Rule{
	never("a socket family outside UNIX, INET, INET6, NETLINK: AF_ALG (CVE-2026-31431), AF_VSOCK, AF_PACKET, AF_KEY, AF_RXRPC, …",
		[]string{"socket", "socketpair"}, Arg{Index: 0, NotIn32: []string{"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"}}),
	never("a netlink protocol other than ROUTE: XFRM, NETFILTER (CVE-2023-32233), …",
		[]string{"socket", "socketpair"}, Arg{Index: 0, In32: []string{"AF_NETLINK"}}, Arg{Index: 2, NotIn32: []string{"NETLINK_ROUTE"}}),
	never("a raw socket", []string{"socket", "socketpair"}, Arg{Index: 0, In32: []string{"AF_INET", "AF_INET6"}},
		Arg{Index: 1, Mask: []string{"SOCK_TYPE_MASK"}, In32: []string{"SOCK_RAW", "10"}}),
	never("a program in a socket", []string{"setsockopt"}, Arg{Index: 1, In32: []string{"SOL_SOCKET"}},
		Arg{Index: 2, In32: []string{"SO_ATTACH_FILTER", "SO_ATTACH_BPF", "SO_ATTACH_REUSEPORT_CBPF", "SO_ATTACH_REUSEPORT_EBPF"}}),
	never("a new namespace", []string{"clone"}, Arg{Index: 0, NotIn32: []string{"0"}, Mask: []string{
		"CLONE_NEWUSER", "CLONE_NEWNS", "CLONE_NEWPID", "CLONE_NEWNET", "CLONE_NEWIPC", "CLONE_NEWUTS", "CLONE_NEWCGROUP",
	}}),
	never("typing into the caller's terminal (CVE-2017-5226, CVE-2023-28100)", []string{"ioctl"},
		Arg{Index: 1, In32: []string{"TIOCSTI", "TIOCLINUX", "TIOCCONS", "TIOCSETD"}}),
	never("a limit or scheduling of pid 1, which a child of the same uid can kill with it",
		[]string{"prlimit64", "sched_setparam", "sched_setscheduler", "sched_setattr", "sched_setaffinity"}, Arg{Index: 0, In32: []string{"1"}}),
	never("the priority of pid 1", []string{"setpriority", "ioprio_set"}, Arg{Index: 1, In32: []string{"1"}}),
	never("huge pages, which no memory limit counts", []string{"mmap"}, Arg{Index: 3, Mask: []string{"MAP_HUGETLB"}, NotIn32: []string{"0"}}),
	never("huge pages, which no memory limit counts", []string{"memfd_create"}, Arg{Index: 1, Mask: []string{"MFD_HUGETLB"}, NotIn32: []string{"0"}}),
	never("huge pages, which no memory limit counts", []string{"shmget"}, Arg{Index: 2, Mask: []string{"SHM_HUGETLB"}, NotIn32: []string{"0"}}),
	never("a device node", []string{"mknod"}, Arg{Index: 1, Mask: []string{"S_IFMT"}, In32: []string{"0x2000", "0x6000"}}),
	never("a device node", []string{"mknodat"}, Arg{Index: 2, Mask: []string{"S_IFMT"}, In32: []string{"0x2000", "0x6000"}}),
	never("no address randomisation or executable data", []string{"personality"}, Arg{Index: 0, In32: []string{"0x40000", "0x400000", "0x440000"}}),
}

func never(what string, names []string, args ...Arg) Rule {
	r := Rule{Comment: what, Because: what, Names: names, Action: specs.ActKillProcess, Args: args}
	if err := r.parse("never"); err != nil {
		panic(err) // the table above is wrong
	}
	return r
}

// Check says whether the profile may be used: it denies by default with ENOSYS
// (EPERM would make libraries give up instead of falling back to an older call),
// its rules each have a comment and a reason and do not overlap, and it allows
// nothing that is on the never-allowed list. The error names every fault, one in
// a line, with the line of the file.
func (p *Profile) Check() error {
	var errs []error
	fault := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if p.DefaultAction != specs.ActErrno || p.DefaultErrno != "ENOSYS" {
		fault("default action must be %s ENOSYS", specs.ActErrno)
	}
	type place struct {
		rule  *Rule
		index int
		pats  []pattern
	}
	byCall := map[string][]place{}
	for i := range p.Rules {
		r := &p.Rules[i]
		if r.Comment == "" || r.Because == "" {
			fault("%s: needs a comment and a because", p.Place(i))
		}
		pats := r.patterns()
		for j, n := range r.Names {
			if slices.Contains(r.Names[:j], n) {
				fault("%s: %s is there twice", p.Place(i), n)
				continue
			}
			if why, ok := neverCalls[n]; ok && r.Action == specs.ActAllow {
				fault("%s: %s: never allowed: %s", p.Place(i), n, why)
			}
			for _, other := range byCall[n] {
				if overlap(other.pats, pats) {
					// libseccomp's answer to such rules depends on their order.
					fault("%s: overlaps another rule for %s", p.Place(i), n)
				}
			}
			byCall[n] = append(byCall[n], place{r, i, pats})
		}
	}
	for i := range neverArgs {
		deny := neverArgs[i].patterns()
		for _, n := range neverArgs[i].Names {
			for _, pl := range byCall[n] {
				if pl.rule.Action == specs.ActAllow && overlap(pl.pats, deny) {
					fault("%s: %s: never allowed: %s", p.Place(pl.index), n, neverArgs[i].Because)
				}
			}
		}
	}
	return errors.Join(errs...)
}

func overlap(a, b []pattern) bool {
	for _, p := range a {
		for _, q := range b {
			if !p.disjoint(q) {
				return true
			}
		}
	}
	return false
}
