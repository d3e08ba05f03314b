package seccomp

import (
	"fmt"
	"strconv"
	"strings"
)

// constants are the names that conditions may use. They are the same on x86-64
// and arm64 (asm-generic); a test compares them with golang.org/x/sys/unix.
var constants = map[string]uint32{
	"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16,

	"SOCK_TYPE_MASK": 0xf, "SOCK_STREAM": 1, "SOCK_DGRAM": 2, "SOCK_RAW": 3, "SOCK_SEQPACKET": 5,

	"IPPROTO_IP": 0, "IPPROTO_ICMP": 1, "IPPROTO_TCP": 6, "IPPROTO_UDP": 17, "IPPROTO_ICMPV6": 58,
	"NETLINK_ROUTE": 0, "NETLINK_AUDIT": 9,

	"SOL_SOCKET": 1, "SO_ATTACH_FILTER": 26, "SO_ATTACH_BPF": 50, "SO_ATTACH_REUSEPORT_CBPF": 51, "SO_ATTACH_REUSEPORT_EBPF": 52,

	"PROT_WRITE": 0x2, "PROT_EXEC": 0x4,
	"MAP_TYPE": 0xf, "MAP_PRIVATE": 0x2, "MAP_ANONYMOUS": 0x20, "MAP_HUGETLB": 0x40000,
	"MFD_HUGETLB": 0x4, "MFD_NOEXEC_SEAL": 0x8, "MFD_EXEC": 0x10,
	"SHM_HUGETLB": 0x800, "SHM_EXEC": 0x8000,

	// The kernel's own name: O_TMPFILE of the C library has O_DIRECTORY in it as
	// well, whose bit differs between x86-64 and arm64.
	"O_CREAT": 0x40, "__O_TMPFILE": 0x400000,

	"CLONE_NEWNS": 0x00020000, "CLONE_NEWCGROUP": 0x02000000, "CLONE_NEWUTS": 0x04000000,
	"CLONE_NEWIPC": 0x08000000, "CLONE_NEWUSER": 0x10000000, "CLONE_NEWPID": 0x20000000, "CLONE_NEWNET": 0x40000000,

	"TIOCSTI": 0x5412, "TIOCLINUX": 0x541c, "TIOCCONS": 0x541d, "TIOCSSERIAL": 0x541f, "TIOCSETD": 0x5423,
	"TIOCVHANGUP": 0x5437, "KDSKBENT": 0x4b47, "KDSKBSENT": 0x4b49,

	"PRIO_PROCESS": 0, "IOPRIO_WHO_PROCESS": 1,

	"S_IFMT": 0xf000, "S_IFREG": 0x8000, "S_IFIFO": 0x1000, "S_IFSOCK": 0xc000,
	"S_IXUGO": 0o111, // the three x bits of a mode
}

// errnos are the errors that a rule may answer with.
var errnos = map[string]uint{"EPERM": 1, "EINVAL": 22, "ENOSYS": 38, "EOPNOTSUPP": 95}

// value reads a constant, a number, or several constants that are ORed together
// (PROT_EXEC|PROT_WRITE).
func value(s string) (uint32, error) {
	if names := strings.Split(s, "|"); len(names) > 1 {
		var all uint32
		for _, n := range names {
			v, ok := constants[n]
			if !ok {
				return 0, fmt.Errorf("%q in %q is no known constant", n, s)
			}
			all |= v
		}
		return all, nil
	}
	if v, ok := constants[s]; ok {
		return v, nil
	}
	v, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is neither a known constant nor a 32-bit number", s)
	}
	return uint32(v), nil
}
