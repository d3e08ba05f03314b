package seccomp

import (
	"maps"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestConstants holds the names to the kernel headers of this machine. The
// keyboard ones are in linux/kd.h, which x/sys does not carry.
func TestConstants(t *testing.T) {
	want := map[string]uint32{
		"AF_UNIX": unix.AF_UNIX, "AF_INET": unix.AF_INET, "AF_INET6": unix.AF_INET6, "AF_NETLINK": unix.AF_NETLINK,
		"SOCK_TYPE_MASK": 0xf, "SOCK_STREAM": unix.SOCK_STREAM, "SOCK_DGRAM": unix.SOCK_DGRAM, "SOCK_RAW": unix.SOCK_RAW, "SOCK_SEQPACKET": unix.SOCK_SEQPACKET,
		"IPPROTO_IP": unix.IPPROTO_IP, "IPPROTO_ICMP": unix.IPPROTO_ICMP, "IPPROTO_TCP": unix.IPPROTO_TCP, "IPPROTO_UDP": unix.IPPROTO_UDP, "IPPROTO_ICMPV6": unix.IPPROTO_ICMPV6,
		"NETLINK_ROUTE": unix.NETLINK_ROUTE, "NETLINK_AUDIT": unix.NETLINK_AUDIT,
		"SOL_SOCKET": unix.SOL_SOCKET, "SO_ATTACH_FILTER": unix.SO_ATTACH_FILTER, "SO_ATTACH_BPF": unix.SO_ATTACH_BPF,
		"SO_ATTACH_REUSEPORT_CBPF": unix.SO_ATTACH_REUSEPORT_CBPF, "SO_ATTACH_REUSEPORT_EBPF": unix.SO_ATTACH_REUSEPORT_EBPF,
		"CLONE_NEWNS": unix.CLONE_NEWNS, "CLONE_NEWCGROUP": unix.CLONE_NEWCGROUP, "CLONE_NEWUTS": unix.CLONE_NEWUTS, "CLONE_NEWIPC": unix.CLONE_NEWIPC,
		"PROT_WRITE": unix.PROT_WRITE, "PROT_EXEC": unix.PROT_EXEC, "MAP_TYPE": unix.MAP_TYPE, "MAP_PRIVATE": unix.MAP_PRIVATE, "MAP_ANONYMOUS": unix.MAP_ANONYMOUS,
		"MFD_NOEXEC_SEAL": unix.MFD_NOEXEC_SEAL, "MFD_EXEC": unix.MFD_EXEC, "SHM_EXEC": 0o100000, // <sys/shm.h>
		"O_CREAT": unix.O_CREAT, "__O_TMPFILE": unix.O_TMPFILE &^ unix.O_DIRECTORY, "S_IXUGO": unix.S_IXUSR | unix.S_IXGRP | unix.S_IXOTH,
		"MAP_HUGETLB": unix.MAP_HUGETLB, "MFD_HUGETLB": unix.MFD_HUGETLB, "SHM_HUGETLB": 0o4000, // <sys/shm.h>; x/sys has no name for it
		"CLONE_NEWUSER": unix.CLONE_NEWUSER, "CLONE_NEWPID": unix.CLONE_NEWPID, "CLONE_NEWNET": unix.CLONE_NEWNET,
		"TIOCSTI": unix.TIOCSTI, "TIOCLINUX": unix.TIOCLINUX, "TIOCCONS": unix.TIOCCONS, "TIOCSSERIAL": unix.TIOCSSERIAL, "TIOCSETD": unix.TIOCSETD, "TIOCVHANGUP": unix.TIOCVHANGUP,
		"KDSKBENT": 0x4b47, "KDSKBSENT": 0x4b49,
		"PRIO_PROCESS": unix.PRIO_PROCESS, "IOPRIO_WHO_PROCESS": 1,
		"S_IFMT": unix.S_IFMT, "S_IFREG": unix.S_IFREG, "S_IFIFO": unix.S_IFIFO, "S_IFSOCK": unix.S_IFSOCK,
	}
	for name, v := range constants {
		w, ok := want[name]
		if !ok || v != w {
			t.Errorf("%s is %#x, want %#x (known %t)", name, v, w, ok)
		}
	}
	for name, n := range errnos {
		if w := map[string]syscall.Errno{"EPERM": unix.EPERM, "EINVAL": unix.EINVAL, "ENOSYS": unix.ENOSYS, "EOPNOTSUPP": unix.EOPNOTSUPP}[name]; n != uint(w) {
			t.Errorf("%s is %d, want %d", name, n, w)
		}
	}
}

// TestNewer holds the numbers of the newer calls to x/sys.
func TestNewer(t *testing.T) {
	want := map[string]int{
		"cachestat": unix.SYS_CACHESTAT, "fchmodat2": unix.SYS_FCHMODAT2, "map_shadow_stack": unix.SYS_MAP_SHADOW_STACK,
		"futex_wake": unix.SYS_FUTEX_WAKE, "futex_wait": unix.SYS_FUTEX_WAIT, "futex_requeue": unix.SYS_FUTEX_REQUEUE,
		"statmount": unix.SYS_STATMOUNT, "listmount": unix.SYS_LISTMOUNT, "lsm_get_self_attr": unix.SYS_LSM_GET_SELF_ATTR,
		"lsm_set_self_attr": unix.SYS_LSM_SET_SELF_ATTR, "lsm_list_modules": unix.SYS_LSM_LIST_MODULES, "mseal": unix.SYS_MSEAL,
		"setxattrat": unix.SYS_SETXATTRAT, "getxattrat": unix.SYS_GETXATTRAT, "listxattrat": unix.SYS_LISTXATTRAT,
		"removexattrat": unix.SYS_REMOVEXATTRAT, "open_tree_attr": unix.SYS_OPEN_TREE_ATTR,
		"file_getattr": unix.SYS_FILE_GETATTR, "file_setattr": unix.SYS_FILE_SETATTR, "listns": unix.SYS_LISTNS,
	}
	if got := Newer(); !maps.Equal(got, want) {
		t.Errorf("newer calls: %v\nwant %v", got, want)
	}
}
