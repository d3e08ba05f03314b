//go:build seccomp

package bpf

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestStrictIsNarrower goes over all calls with the arguments of TestEveryNumber
// and a few thousand others: what the default filter refuses, strict never lets
// through.
func TestStrictIsNarrower(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			wide, narrow := newMachine(t, "default", arch), newMachine(t, "strict", arch)
			rng := rand.New(rand.NewPCG(3, 4))
			small := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 16, 0x10, 0x20, 0x22, 0x40, 0x41, 0o111, 0o644, 0o755, 0o100644, 0o100755, 0x40000, 0x400000, 0x5412, ones32}
			fewer, calls := 0, 0
			for name := range wide.nr {
				calls++
				for i := range 120 {
					var args [6]uint64
					for j := range args {
						switch {
						case i == 0:
						case rng.IntN(4) == 0:
							args[j] = rng.Uint64()
						default:
							args[j] = small[rng.IntN(len(small))]
						}
					}
					w, n := wide.call(t, name, args), narrow.call(t, name, args)
					if n == retAllow && w != retAllow {
						t.Fatalf("%s%#x: strict allows what default answers with %#x", name, args, w)
					}
					if n != retAllow && w == retAllow {
						fewer++
					}
				}
			}
			if calls < 300 || fewer < 500 {
				t.Errorf("%d calls, %d records that strict alone refuses", calls, fewer)
			}
		})
	}
}

// TestStrictSockets: UNIX sockets, and no others.
func TestStrictSockets(t *testing.T) {
	everyArch(t, "strict", func(t *testing.T, m *machine) {
		for family := range uint64(300) {
			for _, typ := range []uint64{0, 1, 2, 3, 5, 10, 15} {
				for _, proto := range []uint64{0, 6, 9, ones32} {
					want := uint32(eperm)
					if family == 1 {
						want = retAllow
					}
					for _, high := range []uint64{0, 1 << 32, ones32 << 32} {
						args := [6]uint64{family | high, typ | 0o2000000 | high, proto | high}
						for _, name := range []string{"socket", "socketpair"} {
							if got := m.call(t, name, args); got != want {
								t.Fatalf("%s%#x: %#x, want %#x", name, args, got, want)
							}
						}
					}
				}
			}
		}
		for _, family := range []uint64{1<<16 | 1, 1 << 31, 1<<31 | 1, ones32, 1<<8 | 1} {
			if got := m.call(t, "socket", [6]uint64{family, 1}); got != eperm {
				t.Errorf("socket(%#x): %#x", family, got)
			}
		}
	})
}

// TestStrictFiles goes over every mode and the flags of open: a file that is
// made has no x bit, by whatever call it gets its mode.
func TestStrictFiles(t *testing.T) {
	everyArch(t, "strict", func(t *testing.T, m *machine) {
		one := func(want uint32, name string, args ...uint64) {
			t.Helper()
			m.answers(t, want, name, args...)
		}
		// O_WRONLY, O_TRUNC, O_EXCL, O_CLOEXEC and O_DIRECTORY change nothing.
		// The bit of O_TMPFILE alone is what the kernel looks at.
		flags := []uint64{0, 1, 2, 0o1101, 0o2000101, 0o100, 0o302, 0o20000000, 0o20200002, 0o20040002, 0o20000100, 0o200000, 0o40000, ones32, ones32 &^ 0o20000100}
		for mode := range uint64(0o1000) {
			mode |= mode % 8 << 9 // set-id and sticky bits
			want := uint32(retAllow)
			if mode&0o111 != 0 {
				want = eperm
			}
			one(want, "chmod", 99, mode)
			one(want, "fchmod", 99, mode)
			one(want, "fchmodat", 99, 99, mode)
			one(want, "creat", 99, mode)
			for _, typ := range []uint64{0, 0o100000, 0o010000, 0o140000} {
				one(want, "mknod", 99, typ|mode, 0)
				one(want, "mknodat", 99, 99, typ|mode, 0)
			}
			one(eperm, "mknodat", 99, 99, 0o020000|mode, 0)
			one(retAllow, "mkdir", 99, mode)
			one(retAllow, "mkdirat", 99, 99, mode)
			for _, f := range flags {
				made := want
				if f&0o20000100 == 0 {
					made = retAllow
				}
				one(made, "open", 99, f, mode)
				one(made, "openat", 99, 99, f, mode)
			}
		}
		one(enosys, "openat2", 1, 2, 3, 24)
		for _, name := range []string{"setxattr", "lsetxattr", "fsetxattr"} {
			one(retErrno|95, name, 1, 2, 3, 4, 0)
		}
		// fchmodat2 and setxattrat: not every libseccomp can name them, so that no
		// rule does.
		for _, nr := range []uint32{452, 463} {
			if got := m.run(t, record{nr: nr, arch: m.word, args: [6]uint64{0, 0, 0o644}}); got != enosys {
				t.Errorf("call %d: %#x", nr, got)
			}
		}
	})
}

// TestStrictMemory: executable is what a file is mapped as, privately and not
// writable, and nothing else.
func TestStrictMemory(t *testing.T) {
	everyArch(t, "strict", func(t *testing.T, m *machine) {
		for prot := range uint64(16) {
			for _, high := range []uint64{0, 0x20, 0x01000000, 1 << 32} { // PROT_MTE, PROT_GROWSDOWN
				p := prot | high
				for flags := range uint64(0x80) {
					for _, more := range []uint64{0, 0x800, 0x4000, 0x40000, 0x100000, 1 << 32} { // DENYWRITE, NORESERVE, HUGETLB, FIXED_NOREPLACE
						f := flags | more
						want := uint32(retAllow)
						if f&0x40000 != 0 {
							want = eperm
						}
						if p&4 != 0 && (p&2 != 0 || f&0xf != 2 || f&0x20 != 0) {
							want = eperm
						}
						if got := m.call(t, "mmap", [6]uint64{0, 4096, p, f, 3, 0}); got != want {
							t.Fatalf("mmap prot %#x flags %#x: %#x, want %#x", p, f, got, want)
						}
					}
				}
				want := uint32(retAllow)
				if p&4 != 0 {
					want = eperm
				}
				for _, name := range []string{"mprotect", "pkey_mprotect"} {
					if got := m.call(t, name, [6]uint64{4096, 4096, p, 1}); got != want {
						t.Errorf("%s %#x: %#x, want %#x", name, p, got, want)
					}
				}
			}
		}
		for flags := range uint64(0x80) {
			want := uint32(enosys)
			if flags&0x1c == 8 {
				want = retAllow
			}
			for _, high := range []uint64{0, 1 << 32} {
				if got := m.call(t, "memfd_create", [6]uint64{99, flags | high}); got != want {
					t.Errorf("memfd_create %#x: %#x, want %#x", flags|high, got, want)
				}
			}
			attach := uint32(retAllow)
			if got := m.call(t, "shmat", [6]uint64{1, 0, flags<<9 | 1<<32}); flags<<9&0o100000 != 0 {
				attach = eperm
				if got != attach {
					t.Errorf("shmat %#o: %#x", flags<<9, got)
				}
			} else if got != attach {
				t.Errorf("shmat %#o: %#x", flags<<9, got)
			}
		}
	})
}

// TestStrictPinned is the never-allowed list and what must work, by hand.
func TestStrictPinned(t *testing.T) {
	everyArch(t, "strict", func(t *testing.T, m *machine) {
		expect := func(want uint32, names string, but ...string) {
			t.Helper()
			for name := range strings.FieldsSeq(names) {
				if _, ok := m.nr[name]; !ok && m.arch == "arm64" || slices.Contains(but, name) {
					continue
				}
				for _, args := range [][6]uint64{{}, {1, 1, 1, 1, 1, 1}, {1 << 32, 1 << 32, 1 << 32}} {
					if got := m.call(t, name, args); got != want {
						t.Errorf("%s%#x: %#x, want %#x", name, args, got, want)
					}
				}
			}
		}
		expect(enosys, "io_uring_setup io_uring_enter io_uring_register clone3 openat2 io_setup vmsplice memfd_secret")
		expect(einval, "sendfile splice tee")
		expect(eperm, `keyctl add_key request_key bpf userfaultfd perf_event_open unshare setns
			mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
			ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp kexec_load kexec_file_load reboot
			init_module finit_module delete_module open_by_handle_at name_to_handle_at acct swapon swapoff
			settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname syslog quotactl quotactl_fd
			iopl ioperm modify_ldt vhangup lookup_dcookie nfsservctl fanotify_init fanotify_mark move_pages migrate_pages mbind set_mempolicy`)
		expect(retAllow, `read write execve execveat fork vfork exit_group futex rt_sigaction seccomp landlock_create_ruleset
			landlock_add_rule landlock_restrict_self getrandom statx pidfd_open inotify_init1 epoll_pwait2 prctl rseq kill tgkill
			copy_file_range bind connect listen accept4 sendmsg recvmsg mkdir mkdirat rename linkat umask brk mremap madvise`)
		for _, req := range []uint64{0x5412, 0x541c, 0x541d, 0x5423, 0x541f, 0x5437, 0x4b47, 0x4b49, 1<<32 | 0x5412} {
			if got := m.call(t, "ioctl", [6]uint64{0, req, 1}); got != eperm {
				t.Errorf("ioctl %#x: %#x", req, got)
			}
		}
		for _, name := range []string{"prlimit64", "sched_setparam", "sched_setscheduler", "sched_setattr", "sched_setaffinity"} {
			if got := m.call(t, name, [6]uint64{1<<32 | 1, 0, 1}); got != eperm {
				t.Errorf("%s of pid 1: %#x", name, got)
			}
		}
		if got := m.call(t, "personality", [6]uint64{0x400000}); got != eperm { // READ_IMPLIES_EXEC
			t.Errorf("personality: %#x", got)
		}
	})
}

// TestStrictNumbersByHand pins call numbers without libseccomp's table.
func TestStrictNumbersByHand(t *testing.T) {
	x := [6]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	for arch, calls := range map[string]map[uint32]uint32{
		"amd64": {2: eperm, 10: eperm, 40: einval, 41: eperm, 53: eperm, 85: eperm, 90: eperm, 91: eperm, 133: eperm, 188: retErrno | 95, 257: eperm, 259: eperm, 268: eperm, 275: einval, 276: einval, 319: enosys, 329: eperm, 437: enosys, 83: retAllow, 258: retAllow, 59: retAllow},
		"arm64": {5: retErrno | 95, 33: eperm, 52: eperm, 53: eperm, 56: eperm, 71: einval, 76: einval, 77: einval, 198: eperm, 199: eperm, 226: eperm, 279: enosys, 288: eperm, 437: enosys, 34: retAllow, 221: retAllow},
	} {
		m := newMachine(t, "strict", arch)
		for nr, want := range calls {
			if got := m.run(t, record{nr: nr, arch: m.word, args: x}); got != want {
				t.Errorf("%s call %d: %#x, want %#x", arch, nr, got, want)
			}
		}
	}
}
