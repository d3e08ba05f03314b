/*
 * probe: asks the kernel for everything that untrusted code has no need of.
 *
 * Run inside a jail it prints one line per attack and, last, "reachable N":
 *
 *	NAME RESULT ERRNO VERDICT
 *
 * RESULT is what the call returned, -1 on error, or "killed"; ERRNO a name, or
 * the signal, or "-". VERDICT is
 *
 *	denied       refused, with an errno that the attack's row wants
 *	WRONG-ERRNO  refused, but not as wanted: another defence held, or none was
 *	             needed because the arguments are bad
 *	REACHABLE    it worked
 *
 * "probe --control", run outside as an ordinary user, is the positive control: a
 * row that is refused out there in the same way proves nothing about the jail
 * (the kernel lacks the module, or the call needs privilege anyway). VERDICT is
 * then "shown" (the answer differs from all wanted ones) or "cantshow".
 *
 * Nothing here changes anything, were it to succeed: arguments are invalid, files
 * are opened and not written, and each attack runs in a process of its own. The
 * control refuses to run as root all the same.
 *
 * The control also makes the kernel look for the modules of odd socket families.
 *
 * "probe --pid1 ATTACK MARK" attacks the jail's PID 1; --connect-abstract,
 * --connect-tcp and --nest ask one question each.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <arpa/inet.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A pointer that no process can have: EFAULT, where the kernel gets that far. */
#define BAD ((long)-4096L + 1)
#define NOFLAGS 0xffffffffL

/* What an attack's refusal must look like. */
enum want {
	NEW,    /* ENOSYS alone: clone3, io_uring, what programs fall back from, the unknown */
	PERM,   /* EPERM alone: classic calls, and allowed ones with such arguments */
	AUDIT,  /* EINVAL: su and its like then carry on without audit */
	KERN,   /* the kernel's own refusal; the filter need not repeat it */
	FOREIGN,/* SIGSYS: a foreign ABI is never an accident; SIGSEGV of a kernel without it */
	X32,    /* SIGSYS, or ENOSYS where the kernel has no x32 */
	FILEIS, /* no such file, or no access, or nothing in it */
};

static int wanted(enum want w, int err)
{
	switch (w) {
	case NEW:    return err == ENOSYS;
	case PERM:   return err == EPERM;
	case AUDIT:  return err == EINVAL;
	case KERN:   return err == EPERM || err == EACCES || err == EINVAL || err == ENOSYS ||
			err == EROFS || err == ENOENT || err == ENOTTY;
	case FILEIS: return err == ENOENT || err == EACCES || err == EPERM || err == EROFS ||
			err == ENODATA || err == ENOTDIR || err == ENXIO;
	default:     return 0;
	}
}

/* Shared with the process that makes the attempt. */
static struct outcome {
	volatile long ret;
	volatile int err, done;
} *out;

static int control, reachable, wrong, shown, rows;

static void begin_child(void)
{
	alarm(10);
	signal(SIGALRM, SIG_DFL);
	prctl(PR_SET_DUMPABLE, 0); /* no core file of a killed attempt */
}

static void verdict(const char *name, enum want w, int status)
{
	char what[64], res[32];
	const char *v;
	int ok;

	rows++;
	if (WIFSIGNALED(status)) {
		int s = WTERMSIG(status);
		snprintf(what, sizeof what, "SIG%s", sigabbrev_np(s) ? sigabbrev_np(s) : "?");
		strcpy(res, "killed");
		ok = ((w == FOREIGN || w == X32) && s == SIGSYS) || (w == FOREIGN && s == SIGSEGV);
		v = control ? (ok ? "cantshow" : "shown") : ok ? "denied" : "WRONG-ERRNO";
	} else if (!out->done || out->ret >= 0) {
		strcpy(what, "-");
		snprintf(res, sizeof res, "%ld", out->ret);
		ok = 0;
		v = control ? "shown" : "REACHABLE";
	} else {
		const char *n = strerrorname_np(out->err);
		snprintf(what, sizeof what, "%s", n ? n : "?");
		strcpy(res, "-1");
		ok = wanted(w, out->err) || (w == X32 && out->err == ENOSYS);
		v = control ? (ok ? "cantshow" : "shown") : ok ? "denied" : "WRONG-ERRNO";
	}
	if (!ok && strcmp(v, "REACHABLE") == 0)
		reachable++;
	if (!ok && strcmp(v, "WRONG-ERRNO") == 0)
		wrong++;
	if (strcmp(v, "shown") == 0)
		shown++;
	printf("%s %s %s %s\n", name, res, what, v);
}

/* Runs BODY, an expression that sets errno, in a process of its own. */
#define ATTEMPT(name, want, body) do {						\
	out->ret = 0; out->err = 0; out->done = 0;				\
	fflush(stdout);								\
	pid_t pid_ = fork();							\
	if (pid_ < 0) { perror("probe: fork"); exit(2); }			\
	if (pid_ == 0) {							\
		begin_child();							\
		errno = 0;							\
		long r_ = (long)(body);						\
		out->err = errno; out->ret = r_; out->done = 1;			\
		_exit(0);							\
	}									\
	int status_;								\
	while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) ;		\
	verdict(name, want, status_);						\
} while (0)

/* One system call by name. A call that the libc headers don't know is given by
 * number: the numbers from 424 on are the same on every architecture. */
#define SYS(n, want, ...) ATTEMPT(#n, want, syscall(__NR_##n, ##__VA_ARGS__))
#define SYSNR(n, nr, want, ...) ATTEMPT(#n, want, syscall(nr, ##__VA_ARGS__))
#define SYSAS(name, n, want, ...) ATTEMPT(name, want, syscall(__NR_##n, ##__VA_ARGS__))

static void calls(void)
{
	/* calls that programs can do without */
	SYS(io_uring_setup, NEW, 1, BAD);
	SYS(io_uring_enter, NEW, -1, 0, 0, 0, 0, 0);
	SYS(io_uring_register, NEW, -1, 0, 0, 0);
	SYS(clone3, NEW, BAD, 64);
	SYSAS("clone3-size0", clone3, NEW, BAD, 0);

	/* keyrings, tracing, other processes */
	SYS(keyctl, PERM, 0, -3, 0, 0, 0);
	SYSAS("keyctl-invalid", keyctl, PERM, 9999, 0, 0, 0, 0);
	SYS(add_key, PERM, BAD, BAD, BAD, 1, -2);
	SYS(request_key, PERM, BAD, BAD, BAD, -2);
	SYS(bpf, PERM, 9999, BAD, 16);
	SYS(perf_event_open, PERM, BAD, 0, -1, -1, 0);
	SYS(userfaultfd, PERM, 1 | 0x40000000);
	SYSAS("userfaultfd-usermode", userfaultfd, PERM, 1 | O_CLOEXEC);
	SYSAS("ptrace-traceme", ptrace, PERM, PTRACE_TRACEME, 0, 0, 0);
	SYSAS("ptrace-invalid", ptrace, PERM, 9999, getpid(), 0, 0);
	SYSAS("ptrace-seize-parent", ptrace, PERM, PTRACE_SEIZE, getppid(), 0, 0);
	SYS(process_vm_readv, PERM, getpid(), 0, 0, 0, 0, 0);
	SYS(process_vm_writev, PERM, getpid(), 0, 0, 0, 0, 0);
	SYS(process_madvise, PERM, -1, 0, 0, 0, 0);
	SYS(process_mrelease, PERM, -1, 0);
	SYS(pidfd_getfd, PERM, -1, 0, 0);
	SYS(kcmp, PERM, getpid(), getpid(), 1, 0, 0);
	SYS(move_pages, PERM, 0, 0, 0, 0, 0, 0);
	SYS(migrate_pages, PERM, 0, 0, 0, 0);

	/* files past the root */
	SYS(name_to_handle_at, PERM, AT_FDCWD, BAD, BAD, BAD, 0);
	SYS(open_by_handle_at, PERM, -1, BAD, 0);

	/* the mount calls, old and new */
	SYS(mount, PERM, BAD, BAD, BAD, 0, BAD);
	SYSAS("mount-tmpfs", mount, PERM, "x", "/tmp", "tmpfs", 0, 0);
	SYSAS("mount-bind", mount, PERM, "/", "/tmp", 0, MS_BIND, 0);
	SYSAS("mount-remount", mount, PERM, 0, "/", 0, MS_REMOUNT | MS_BIND, 0);
	SYS(umount2, PERM, "", NOFLAGS);
	SYSAS("umount2-proc", umount2, PERM, "/proc", MNT_DETACH);
	SYS(pivot_root, PERM, BAD, BAD);
	SYS(chroot, PERM, BAD);
	SYSAS("chroot-root", chroot, PERM, "/");
	SYS(open_tree, PERM, -1, BAD, NOFLAGS);
	SYS(move_mount, PERM, -1, BAD, -1, BAD, NOFLAGS);
	SYS(fsopen, PERM, BAD, NOFLAGS);
	SYSAS("fsopen-tmpfs", fsopen, PERM, "tmpfs", 0);
	SYS(fsconfig, PERM, -1, 0, 0, 0, 0);
	SYS(fsmount, PERM, -1, NOFLAGS, 0);
	SYS(fspick, PERM, -1, BAD, NOFLAGS);
	SYS(mount_setattr, PERM, -1, BAD, NOFLAGS, 0, 0);
	SYSNR(statmount, 457, NEW, BAD, BAD, 0, NOFLAGS);
	SYSNR(listmount, 458, NEW, BAD, BAD, 0, NOFLAGS);
	SYSNR(open_tree_attr, 467, NEW, -1, BAD, NOFLAGS, 0, 0);

	/* the machine */
	SYS(kexec_load, PERM, 0, 0, BAD, NOFLAGS);
#ifdef __NR_kexec_file_load
	SYS(kexec_file_load, PERM, -1, -1, 0, 0, NOFLAGS);
#endif
	SYS(reboot, PERM, 0, 0, 0, 0);
	SYS(init_module, PERM, BAD, 0, BAD);
	SYS(finit_module, PERM, -1, BAD, NOFLAGS);
	SYS(delete_module, PERM, BAD, 0);
	SYS(acct, PERM, BAD);
	SYS(swapon, PERM, BAD, NOFLAGS);
	SYS(swapoff, PERM, BAD);
	SYS(settimeofday, PERM, BAD, BAD);
	SYS(clock_settime, PERM, 9999, BAD);
	SYS(clock_adjtime, PERM, 9999, BAD);
	SYS(adjtimex, PERM, BAD);
	SYS(sethostname, PERM, BAD, -1);
	SYS(setdomainname, PERM, BAD, -1);
	SYS(syslog, PERM, 10, 0, 0);
	SYS(quotactl, PERM, NOFLAGS, BAD, 0, BAD);
	SYSNR(quotactl_fd, 443, PERM, -1, NOFLAGS, 0, BAD);
	SYS(fanotify_init, PERM, NOFLAGS, 0);
	SYS(fanotify_mark, PERM, -1, NOFLAGS, 0, -1, 0);
	SYS(vhangup, PERM);
	SYS(lookup_dcookie, PERM, 0, BAD, 0);
	SYS(nfsservctl, PERM, 0, 0, 0);
	SYS(memfd_secret, NEW, 0);
	SYSNR(lsm_get_self_attr, 459, NEW, 0, BAD, BAD, 0);
	SYSNR(lsm_set_self_attr, 460, NEW, 0, BAD, 0, 0);
	SYSNR(lsm_list_modules, 461, NEW, BAD, BAD, 0);
	SYSNR(set_mempolicy_home_node, 450, PERM, 0, 0, 0, 1);
	SYSNR(listns, 470, NEW, BAD, BAD, 0, 0);
	SYSNR(setxattrat, 463, NEW, -1, BAD, NOFLAGS, BAD, BAD, 0);
	SYSNR(file_setattr, 469, NEW, -1, BAD, BAD, 0, NOFLAGS);
	SYSNR(cachestat, 451, NEW, -1, BAD, BAD, 0);
	SYSNR(unknown_call_600, 600, NEW, BAD, BAD, BAD);
	SYS(vmsplice, NEW, -1, BAD, 0, 0);
	SYS(io_setup, NEW, 0, BAD);
	SYS(io_submit, NEW, BAD, 0, BAD);
	SYS(syncfs, PERM, -1);
	SYS(mbind, PERM, 0, 0, 9999, 0, 0, NOFLAGS);
	SYS(set_mempolicy, PERM, 9999, 0, 0);
#ifdef __x86_64__
	SYS(iopl, PERM, 9);
	SYS(ioperm, PERM, 70000, 1, 1);
	SYS(modify_ldt, PERM, 0, 0, 0);
	SYS(ustat, NEW, 0, BAD);
	SYS(sysfs, NEW, 3);
	SYS(uselib, NEW, BAD);
	SYS(_sysctl, NEW, BAD);
	SYS(create_module, NEW, BAD, 0);
	SYS(query_module, NEW, BAD, 0, BAD, 0, BAD);
	SYS(get_kernel_syms, NEW, BAD);
	SYSAS("getpmsg", getpmsg, NEW, 0);
	SYSAS("vserver", vserver, NEW, 0);
#endif

	/* namespaces */
	SYS(setns, PERM, -1, 0);
	SYSAS("unshare-nothing", unshare, PERM, 0);
	SYSAS("unshare-user", unshare, PERM, CLONE_NEWUSER);
	SYSAS("unshare-user-net", unshare, PERM, CLONE_NEWUSER | CLONE_NEWNET);
	SYSAS("unshare-user-mount", unshare, PERM, CLONE_NEWUSER | CLONE_NEWNS);
	SYSAS("unshare-mount", unshare, PERM, CLONE_NEWNS);
	SYSAS("unshare-net", unshare, PERM, CLONE_NEWNET);
	SYSAS("unshare-pid", unshare, PERM, CLONE_NEWPID);
	SYSAS("unshare-ipc", unshare, PERM, CLONE_NEWIPC);
	SYSAS("unshare-uts", unshare, PERM, CLONE_NEWUTS);
	SYSAS("unshare-cgroup", unshare, PERM, CLONE_NEWCGROUP);
	SYSAS("unshare-time", unshare, PERM, 0x80 /* CLONE_NEWTIME */);
}

/* clone with new namespaces; argument 0 is the flags on x86-64 and arm64. A child
 * that comes to be ends at once. */
static long try_clone(unsigned long flags)
{
	long p = syscall(__NR_clone, flags | SIGCHLD, 0, 0, 0, 0);

	if (p == 0)
		_exit(0);
	return p;
}

static void clones(void)
{
	static const struct { const char *name; unsigned long flag; } ns[] = {
		{"clone-user", CLONE_NEWUSER},
		{"clone-user-high-bits", 0x100000000UL | CLONE_NEWUSER},
		{"clone-user-net", CLONE_NEWUSER | CLONE_NEWNET},
		{"clone-user-mount-pid", CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID},
		{"clone-mount", CLONE_NEWNS}, {"clone-net", CLONE_NEWNET},
		{"clone-pid", CLONE_NEWPID}, {"clone-ipc", CLONE_NEWIPC},
		{"clone-uts", CLONE_NEWUTS}, {"clone-cgroup", CLONE_NEWCGROUP},
	};

	for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
		ATTEMPT(ns[i].name, PERM, try_clone(ns[i].flag));
}

/* Calls that are allowed, with arguments that are not. */
static void arguments(void)
{
	int null = open("/dev/null", O_RDWR);
	char c = 'x';
	struct rlimit up = {1 << 20, 1 << 20}, inf = {RLIM_INFINITY, RLIM_INFINITY};
	struct sched_param rt = {.sched_priority = 1};
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{1 << CAP_SYS_ADMIN, 1 << CAP_SYS_ADMIN, 0}, {0, 0, 0}};
	uint32_t attr[12] = {48, 6 /* SCHED_DEADLINE */, 0, 0, 0, 0, 10000000, 0, 20000000, 0, 20000000, 0};

	/* typing into the caller's terminal; on /dev/null, so that nothing is typed
	 * and the kernel says ENOTTY. The request is an int to the kernel and 64 bits
	 * to a filter (CVE-2019-10063). */
	ATTEMPT("ioctl-TIOCSTI", PERM, syscall(__NR_ioctl, null, 0x5412UL, &c));
	ATTEMPT("ioctl-TIOCSTI-high-bits", PERM, syscall(__NR_ioctl, null, 0x100005412UL, &c));
	ATTEMPT("ioctl-TIOCSTI-sign-bits", PERM, syscall(__NR_ioctl, null, 0xffffffff00005412UL, &c));
	ATTEMPT("ioctl-TIOCLINUX", PERM, syscall(__NR_ioctl, null, 0x541CUL, &c));
	ATTEMPT("ioctl-TIOCLINUX-high-bits", PERM, syscall(__NR_ioctl, null, 0x10000541CUL, &c));
	ATTEMPT("ioctl-TIOCCONS", PERM, syscall(__NR_ioctl, null, 0x541DUL, 0));
	ATTEMPT("ioctl-TIOCSETD", PERM, syscall(__NR_ioctl, null, 0x5423UL, BAD));

	ATTEMPT("personality-no-randomize", PERM, syscall(__NR_personality, 0x0040000UL));
	ATTEMPT("personality-read-implies-exec", PERM, syscall(__NR_personality, 0x0400000UL));
	ATTEMPT("personality-both-high-bits", PERM, syscall(__NR_personality, 0x100440000UL));

	ATTEMPT("mknod-char", PERM, syscall(__NR_mknodat, AT_FDCWD, "/tmp/probe-c", S_IFCHR | 0600, 0x103));
	ATTEMPT("mknod-block", PERM, syscall(__NR_mknodat, AT_FDCWD, "/tmp/probe-b", S_IFBLK | 0600, 0x800));
	ATTEMPT("mknod-char-bad-path", PERM, syscall(__NR_mknodat, -1, BAD, S_IFCHR | 0600, 0x103));
	ATTEMPT("mknod-block-bad-path", PERM, syscall(__NR_mknodat, -1, BAD, S_IFBLK | 0600, 0x800));
#ifdef __NR_mknod
	ATTEMPT("mknod-old-char-bad-path", PERM, syscall(__NR_mknod, BAD, S_IFCHR | 0600, 0x103));
#endif

	/* PID 1's limits and scheduling: bad pointers, so that the filter's EPERM can
	 * be told from the kernel's own checks, which come later */
	ATTEMPT("prlimit64-pid1", PERM, syscall(__NR_prlimit64, 1, RLIMIT_CPU, BAD, 0));
	ATTEMPT("prlimit64-pid1-read", PERM, syscall(__NR_prlimit64, 1, RLIMIT_CPU, 0, BAD));
	ATTEMPT("prlimit64-pid1-high-bits", PERM, syscall(__NR_prlimit64, 0x100000001UL, RLIMIT_CPU, BAD, 0));
	ATTEMPT("setpriority-pid1", PERM, syscall(__NR_setpriority, PRIO_PROCESS, 1, 19));
	ATTEMPT("ioprio_set-pid1", PERM, syscall(__NR_ioprio_set, 1, 1, 3 << 13));
	ATTEMPT("sched_setaffinity-pid1", PERM, syscall(__NR_sched_setaffinity, 1, 8, BAD));
	ATTEMPT("sched_setscheduler-pid1", PERM, syscall(__NR_sched_setscheduler, 1, 0, BAD));
	ATTEMPT("sched_setparam-pid1", PERM, syscall(__NR_sched_setparam, 1, BAD));
	ATTEMPT("sched_setattr-pid1", PERM, syscall(__NR_sched_setattr, 1, BAD, 0));

	/* more than was given */
	ATTEMPT("setuid-0", KERN, syscall(__NR_setuid, 0));
	ATTEMPT("setgid-0", KERN, syscall(__NR_setgid, 0));
	ATTEMPT("setresuid-0", KERN, syscall(__NR_setresuid, 0, 0, 0));
	ATTEMPT("setgroups", KERN, syscall(__NR_setgroups, 0, 0));
	ATTEMPT("capset", KERN, syscall(__NR_capset, &h, d));
	ATTEMPT("securebits", KERN, prctl(PR_SET_SECUREBITS, 1, 0, 0, 0));
	ATTEMPT("capbset-drop", KERN, prctl(PR_CAPBSET_DROP, CAP_CHOWN, 0, 0, 0));
	ATTEMPT("ambient-raise", KERN, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0));
	ATTEMPT("no_new_privs-off", KERN, prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	ATTEMPT("nofile-up", KERN, setrlimit(RLIMIT_NOFILE, &up));
	ATTEMPT("core-up", KERN, setrlimit(RLIMIT_CORE, &inf));
	ATTEMPT("nice-up", KERN, setpriority(PRIO_PROCESS, 0, -20));
	ATTEMPT("sched-fifo", KERN, syscall(__NR_sched_setscheduler, 0, SCHED_FIFO, &rt));
	ATTEMPT("sched-deadline", KERN, syscall(__NR_sched_setattr, 0, attr, 0));
	ATTEMPT("ioprio-realtime", KERN, syscall(__NR_ioprio_set, 1, 0, 1 << 13));
}

/* Every type of a family; the outcome is the first that worked, else the first
 * errno that is not the filter's. */
static long try_socket(unsigned long family, int protocol)
{
	static const int types[] = {SOCK_DGRAM, SOCK_STREAM, SOCK_RAW, SOCK_SEQPACKET};
	int err = 0;

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		long fd = syscall(__NR_socket, family, types[i] | SOCK_CLOEXEC, protocol);
		if (fd >= 0)
			return fd;
		if (err == 0 || err == EPERM)
			err = errno;
	}
	errno = err;
	return -1;
}

static void sockets(void)
{
	static const char *const family[] = {
		[3] = "AX25", "IPX", "APPLETALK", "NETROM", "BRIDGE", "ATMPVC", "X25",
		[11] = "ROSE", "DECnet", "NETBEUI", "SECURITY", "KEY",
		[17] = "PACKET", "ASH", "ECONET", "ATMSVC", "RDS", "SNA", "IRDA", "PPPOX", "WANPIPE", "LLC",
		"IB", "MPLS", "CAN", "TIPC", "BLUETOOTH", "IUCV", "RXRPC", "ISDN", "PHONET", "IEEE802154",
		"CAIF", "ALG", "NFC", "VSOCK", "KCM", "QIPCRTR", "SMC", "XDP", "MCTP",
	};
	char name[64];

	for (size_t f = 3; f < sizeof family / sizeof *family; f++)
		if (family[f]) {
			snprintf(name, sizeof name, "socket-AF_%s", family[f]);
			ATTEMPT(name, PERM, try_socket(f, 0));
		}
	ATTEMPT("socket-AF_0", PERM, try_socket(0, 0));
	ATTEMPT("socket-AF_200", PERM, try_socket(200, 0));
	/* the family is an int to the kernel and 64 bits to a filter */
	ATTEMPT("socket-AF_ALG-high-bits", PERM, try_socket(0x100000026UL, 0));
	ATTEMPT("socket-AF_VSOCK-high-bits", PERM, try_socket(0xffffffff00000028UL, 0));

	for (int p = 1; p <= 22; p++) {
		snprintf(name, sizeof name, "socket-NETLINK-%d", p);
		ATTEMPT(name, p == 9 ? AUDIT : PERM, try_socket(AF_NETLINK, p));
	}
	ATTEMPT("socket-NETLINK-6-high-bits", PERM,
		syscall(__NR_socket, AF_NETLINK, SOCK_RAW, 0x100000006UL));

	ATTEMPT("socket-INET-raw", PERM, syscall(__NR_socket, AF_INET, SOCK_RAW, 1));
	ATTEMPT("socket-INET-raw-any", PERM, syscall(__NR_socket, AF_INET, SOCK_RAW | SOCK_NONBLOCK, 255));
	ATTEMPT("socket-INET6-raw", PERM, syscall(__NR_socket, AF_INET6, SOCK_RAW, 58));
	/* the kernel turns this one into AF_PACKET */
	ATTEMPT("socket-INET-SOCK_PACKET", PERM, syscall(__NR_socket, AF_INET, SOCK_PACKET, 3));
	ATTEMPT("socket-INET-DCCP", PERM, syscall(__NR_socket, AF_INET, 6 /* SOCK_DCCP */, 33));
	ATTEMPT("socket-INET-SCTP", PERM, syscall(__NR_socket, AF_INET, SOCK_STREAM, 132));
	ATTEMPT("socket-INET-SCTP-seq", PERM, syscall(__NR_socket, AF_INET, SOCK_SEQPACKET, 132));
	ATTEMPT("socket-INET6-SCTP", PERM, syscall(__NR_socket, AF_INET6, SOCK_STREAM, 132));
	ATTEMPT("socket-INET-L2TP", PERM, syscall(__NR_socket, AF_INET, SOCK_DGRAM, 115));
	ATTEMPT("socket-INET-SMC", PERM, syscall(__NR_socket, AF_INET, SOCK_STREAM, 256));
	int sv[2];
	ATTEMPT("socketpair-AF_ALG", PERM, syscall(__NR_socketpair, 38, SOCK_SEQPACKET, 0, sv));
	ATTEMPT("socketpair-AF_TIPC", PERM, syscall(__NR_socketpair, 30, SOCK_STREAM, 0, sv));
}

#ifdef __x86_64__
static long int80(long nr, long a, long b, long c)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a), "c"(b), "d"(c)
		: "memory", "r8", "r9", "r10", "r11");
	if (r < 0 && r > -4096) {
		errno = -r;
		return -1;
	}
	return r;
}

static void foreign(void)
{
	ATTEMPT("int80-getpid", FOREIGN, int80(20, 0, 0, 0));
	ATTEMPT("int80-socketcall", FOREIGN, int80(102, 1, 0, 0));
	ATTEMPT("int80-keyctl", FOREIGN, int80(288, 0, -3, 0));
	ATTEMPT("int80-ptrace", FOREIGN, int80(26, 9999, 0, 0));
	ATTEMPT("int80-unknown", FOREIGN, int80(9999, 0, 0, 0));
	ATTEMPT("x32-getpid", X32, syscall(0x40000000 | __NR_getpid));
	ATTEMPT("x32-ptrace", X32, syscall(0x40000000 | 521, 9999, 0, 0, 0));
	ATTEMPT("x32-execve", X32, syscall(0x40000000 | 520, BAD, 0, 0));
}
#else
static void foreign(void) {}
#endif

/* Opens path and reads a byte, or looks for an entry in it. Nothing there counts
 * as ENODATA: /dev/null and an empty tmpfs are how paths are masked. */
static long try_read(const char *path)
{
	char buf[4096];
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		DIR *d = fdopendir(fd);
		struct dirent *e;

		errno = 0;
		while (d && (e = readdir(d)))
			if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
				return 1;
		if (errno == 0)
			errno = ENODATA;
		return -1;
	}
	/* kmsg and its like block or end: EAGAIN is an open door all the same */
	ssize_t n = read(fd, buf, sizeof buf);
	if (n < 0 && errno != EPERM && errno != EACCES)
		return 0;
	if (n < 0)
		return -1;
	/* addresses and counters of zeros only are the kernel's own mask */
	if (n == 0) {
		errno = ENODATA;
		return -1;
	}
	return n;
}

/* Opens path and writes not a byte. The null device is how files are masked. */
static long try_write(const char *path)
{
	struct stat st, null;
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0 && fstat(fd, &st) == 0 && stat("/dev/null", &null) == 0 &&
	    S_ISCHR(st.st_mode) && st.st_rdev == null.st_rdev) {
		errno = ENODATA;
		return -1;
	}
	return fd;
}

/* Looks where the links in a directory of pid 1 lead (CVE-2016-9962). Their names
 * alone, which its own uid may list, say nothing. */
static long try_links(const char *path)
{
	char name[300], to[4096];
	DIR *d = opendir(path);
	struct dirent *e;

	if (!d)
		return -1;
	while ((e = readdir(d))) {
		snprintf(name, sizeof name, "%s/%s", path, e->d_name);
		if (e->d_name[0] != '.' && readlink(name, to, sizeof to) >= 0)
			return 1;
	}
	errno = EACCES;
	return -1;
}

static long try_dir_write(const char *path)
{
	return access(path, W_OK);
}

static void paths(void)
{
	static const char *const reads[] = {
		"/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/timer_list",
		"/proc/latency_stats", "/proc/sched_debug", "/proc/kmsg", "/proc/vmallocinfo",
		"/proc/slabinfo", "/proc/iomem", "/proc/ioports", "/proc/kpagecount", "/proc/kpageflags",
		"/proc/kpagecgroup", "/proc/pagetypeinfo", "/proc/interrupts", "/proc/acpi", "/proc/scsi",
		"/proc/asound", "/proc/timer_stats", "/proc/modules", "/proc/cmdline", "/proc/1/cgroup", "/proc/locks", "/proc/mtrr", "/proc/vmcore", "/proc/config.gz",
		"/proc/sysvipc/../kcore",
		"/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/1/auxv", "/proc/1/stack",
		"/proc/1/syscall", "/proc/1/root", "/proc/1/cwd", "/proc/1/exe",
		"/proc/1/task/1/mem", "/proc/1/task/1/environ", "/proc/1/ns/mnt", "/proc/1/ns/user", "/proc/1/ns/net",
		"/proc/1/pagemap", "/proc/1/io", "/proc/1/personality", "/proc/1/smaps", "/proc/1/numa_maps",
		"/sys/firmware", "/sys/devices/virtual/powercap", "/sys/kernel/debug", "/sys/kernel/tracing",
		"/sys/kernel/security", "/sys/fs/bpf", "/sys/fs/pstore", "/sys/kernel/vmcoreinfo", "/sys/kernel/notes",
		"/sys/block", "/sys/bus", "/sys/class/net", "/sys/module", "/sys/power/state", "/sys/fs/fuse/connections",
		"/sys/fs/selinux", "/sys/kernel/btf/vmlinux",
		"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/vsock",
		"/dev/userfaultfd", "/dev/loop0", "/dev/loop-control", "/dev/vda", "/dev/sda", "/dev/dm-0", "/dev/nvme0",
		"/dev/mapper/control", "/dev/dri", "/dev/snd", "/dev/input", "/dev/tty0", "/dev/tty1", "/dev/ttyS0",
		"/dev/console", "/dev/hwrng", "/dev/uinput", "/dev/vhost-net", "/dev/vhost-vsock", "/dev/btrfs-control",
		"/dev/autofs", "/dev/cpu", "/dev/zram0", "/dev/vcs", "/dev/vga_arbiter", "/dev/sev", "/dev/tpm0",
		"/etc/shadow", "/etc/gshadow", "/etc/ssl/private", "/etc/ssh", "/etc/sudoers", "/etc/machine-id",
		"/root", "/var/lib", "/var/log", "/var/cache", "/var/spool", "/var/mail", "/run/systemd", "/run/dbus", "/run/docker.sock", "/boot", "/srv", "/mnt", "/media",
	};
	static const char *const writes[] = {
		"/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
		"/proc/sys/kernel/hotplug", "/proc/sys/kernel/sysrq", "/proc/sys/kernel/panic",
		"/proc/sys/kernel/randomize_va_space", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname",
		"/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/yama/ptrace_scope", "/proc/sys/kernel/shmmax",
		"/proc/sys/kernel/msgmax", "/proc/sys/kernel/sem", "/proc/sys/kernel/pid_max",
		"/proc/sys/vm/panic_on_oom", "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/drop_caches",
		"/proc/sys/vm/mmap_min_addr", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/fs/binfmt_misc/status",
		"/proc/sys/fs/suid_dumpable", "/proc/sys/fs/protected_symlinks", "/proc/sys/fs/mqueue/msg_max",
		"/proc/sys/user/max_user_namespaces", "/proc/sys/net/ipv4/ip_forward",
		"/proc/sys/net/ipv4/ping_group_range", "/proc/sys/net/ipv4/ip_unprivileged_port_start",
		"/proc/sys/net/core/somaxconn", "/proc/sys/debug/exception-trace", "/proc/sys/dev/tty/ldisc_autoload",
		"/proc/irq/default_smp_affinity", "/proc/fs/xfs/stat", "/proc/bus/pci/devices", "/proc/mtrr",
		"/proc/scsi/scsi", "/proc/acpi/wakeup", "/proc/self/attr/../../kcore", "/proc/modules",
		"/proc/kpagecount", "/proc/1/mem", "/proc/1/attr/current", "/proc/1/attr/exec",
		"/proc/1/uid_map", "/proc/1/gid_map", "/proc/1/setgroups", "/proc/1/coredump_filter",
		"/proc/1/make-it-fail", "/proc/1/timerslack_ns", "/proc/1/comm", "/proc/1/sched", "/proc/1/autogroup",
		"/proc/1/projid_map", "/proc/1/latency", "/proc/1/exe",
		"/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io",
		"/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state",
		"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/cgroup.procs",
		"/sys/fs/cgroup/pids/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs", "/sys/kernel/reboot/mode",
		"/sys/module/kernel/parameters/panic", "/etc/passwd", "/etc/ld.so.cache", "/etc/ld.so.preload",
		"/usr/bin/env", "/bin/sh",
	};
	static const char *const dirs[] = {
		"/", "/usr", "/usr/bin", "/usr/lib", "/etc", "/bin", "/lib", "/sbin", "/dev", "/proc", "/sys", "/opt",
		"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "/proc/sys", "/proc/sys/kernel",
		"/proc/sys/net", "/run", "/var", "/home", "/root", "/mnt",
	};
	char name[256];

	for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
		snprintf(name, sizeof name, "read:%s", reads[i]);
		ATTEMPT(name, FILEIS, try_read(reads[i]));
	}
	ATTEMPT("links:/proc/1/fd", FILEIS, try_links("/proc/1/fd"));
	ATTEMPT("links:/proc/1/map_files", FILEIS, try_links("/proc/1/map_files"));
	ATTEMPT("links:/proc/1/ns", FILEIS, try_links("/proc/1/ns"));
	ATTEMPT("links:/proc/1/task/1/fd", FILEIS, try_links("/proc/1/task/1/fd"));
	for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
		snprintf(name, sizeof name, "write:%s", writes[i]);
		ATTEMPT(name, FILEIS, try_write(writes[i]));
	}
	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
		snprintf(name, sizeof name, "dir:%s", dirs[i]);
		ATTEMPT(name, FILEIS, try_dir_write(dirs[i]));
	}
}

/* ---- attacks on PID 1 ---- */

/* Says that the attacker is still there; exits 5, which the result must show. */
static int survived(void)
{
	puts("survived");
	fflush(stdout);
	return 5;
}

static int attack_signals(void)
{
	for (int s = 1; s <= 64; s++) {
		siginfo_t si = {.si_signo = s, .si_code = SI_QUEUE};

		kill(1, s);
		syscall(__NR_tkill, 1, s);
		syscall(__NR_tgkill, 1, 1, s);
		syscall(__NR_rt_sigqueueinfo, 1, s, &si);
		syscall(__NR_rt_tgsigqueueinfo, 1, 1, s, &si);
		int p = syscall(__NR_pidfd_open, 1, 0);
		if (p >= 0) {
			syscall(__NR_pidfd_send_signal, p, s, 0, 0);
			close(p);
		}
	}
	usleep(200000);
	return survived();
}

static int attack_prlimit(void)
{
	struct rlimit zero = {0, 0};

	for (int r = 0; r < 16; r++) {
		syscall(__NR_prlimit64, 1, r, &zero, 0);
		syscall(__NR_prlimit64, 0x100000001UL, r, &zero, 0);
	}
	usleep(1200000); /* RLIMIT_CPU is looked at once a second */
	return survived();
}

static int attack_ptrace(void)
{
	for (int req = 0; req < 40; req++)
		syscall(__NR_ptrace, req, 1, 0, 0);
	syscall(__NR_ptrace, PTRACE_SEIZE, 1, 0, 0);
	syscall(__NR_ptrace, PTRACE_ATTACH, 1, 0, 0);
	char b[64];
	struct iovec l = {b, sizeof b}, r = {(void *)0x400000, sizeof b};
	if (syscall(__NR_process_vm_readv, 1, &l, 1, &r, 1, 0) > 0)
		puts("GOT memory of pid 1");
	int p = syscall(__NR_pidfd_open, 1, 0);
	for (int fd = 0; p >= 0 && fd < 64; fd++)
		if (syscall(__NR_pidfd_getfd, p, fd, 0) >= 0)
			printf("GOT descriptor %d of pid 1\n", fd);
	return survived();
}

/* Every file below /proc/1: read it, then write things that hurt where they are
 * taken. All of them concern pid 1 of this jail alone. */
static void attack_dir(const char *dir, int depth)
{
	static const char *const junk[] = {"0", "1", "-1000", "1000", "5", "x\n", ""};
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512], buf[65536];

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		struct stat st;
		if (lstat(path, &st))
			continue;
		if (S_ISDIR(st.st_mode)) {
			if (depth < 3)
				attack_dir(path, depth + 1);
			continue;
		}
		if (S_ISLNK(st.st_mode)) {
			if (readlink(path, buf, sizeof buf) > 0)
				printf("GOT link %s\n", path);
			continue;
		}
		int fd = open(path, O_RDONLY | O_NONBLOCK);
		if (fd >= 0) {
			ssize_t n = read(fd, buf, sizeof buf);
			if (n > 0 && (strstr(path, "environ") || strstr(path, "/mem") || strstr(path, "auxv")))
				printf("GOT %zd bytes of %s\n", n, path);
			close(fd);
		}
		for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
			fd = open(path, O_WRONLY | O_NONBLOCK);
			if (fd < 0)
				break;
			if (write(fd, junk[i], strlen(junk[i])) < 0) {}
			close(fd);
		}
	}
	if (d)
		closedir(d);
}

static int attack_proc(void)
{
	attack_dir("/proc/1", 0);
	return survived();
}

static int attack_sched(void)
{
	struct sched_param idle = {0};
	unsigned long cpu = 1;
	uint32_t attr[12] = {48, SCHED_IDLE, 0, 0, 19};

	for (int i = 0; i < 20; i++)
		setpriority(PRIO_PROCESS, 1, i);
	setpriority(PRIO_PGRP, 1, 19);
	setpriority(PRIO_USER, getuid(), 19);
	syscall(__NR_sched_setscheduler, 1, SCHED_IDLE, &idle);
	syscall(__NR_sched_setscheduler, 1, SCHED_BATCH, &idle);
	syscall(__NR_sched_setparam, 1, &idle);
	syscall(__NR_sched_setattr, 1, attr, 0);
	syscall(__NR_sched_setaffinity, 1, sizeof cpu, &cpu);
	for (int who = 1; who <= 3; who++)
		syscall(__NR_ioprio_set, who, 1, 3 << 13);
	int n = getpriority(PRIO_PROCESS, 1);
	printf("nice of pid 1: %d\n", n);
	return survived();
}

/* Children of children, all of which leave their session, until no more are given. */
static int attack_forks(void)
{
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 100000; i++) {
		pid_t p = fork();
		if (p < 0)
			break;
		if (p == 0) {
			setsid();
			for (;;)
				if (fork() < 0)
					pause();
		}
	}
	usleep(300000);
	return survived();
}

/* Everything by which a process could mean to outlive its jail. */
static int attack_deathsig(void)
{
	for (int s = 1; s < 64; s++)
		signal(s, SIG_IGN);
	for (volatile int i = 0; i < 8; i++) {
		pid_t p = i % 2 ? vfork() : fork();
		if (p)
			continue;
		prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
		prctl(PR_SET_CHILD_SUBREAPER, i & 1, 0, 0, 0);
		if (i % 2) {
			execl("/proc/self/exe", "probe", "--linger", "again", getenv("MARK"), (char *)0);
			_exit(1);
		}
		setsid();
		if (fork())
			_exit(0);
		if (i & 4)
			raise(SIGSTOP);
		for (int fd = 0; fd < 3 && (i & 2); fd++)
			close(fd);
		for (;;)
			pause();
	}
	prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
	return survived();
}

static int attack_killall(void)
{
	pid_t p = fork();

	if (p == 0) {
		kill(-1, SIGSTOP);
		kill(-1, SIGKILL);
		_exit(9);
	}
	/* stopped, killed: never gets here unless kill(-1) is refused */
	waitpid(p, 0, 0);
	return survived();
}

static int attack_starve(void)
{
	/* hold every descriptor, lock and fifo that could block a reporting parent */
	static char block[1 << 16];
	int fds[2];

	while (pipe(fds) == 0) {
		fcntl(fds[1], F_SETFL, O_NONBLOCK);
		while (write(fds[1], block, sizeof block) > 0) {}
	}
	return survived();
}

/* ---- single questions ---- */

static int say(long r)
{
	puts(r >= 0 ? "OK" : strerrorname_np(errno));
	return 0;
}

/* Connects to an abstract unix socket. */
static int connect_abstract(const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(name);

	memcpy(a.sun_path + 1, name, n);
	return say(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a,
		offsetof(struct sockaddr_un, sun_path) + 1 + n));
}

/* Connects by TCP; an address with a colon is IPv6. */
static int connect_tcp(const char *addr, const char *port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(port))};

	alarm(10);
	if (inet_pton(AF_INET6, addr, &v6.sin6_addr) == 1)
		return say(connect(socket(AF_INET6, SOCK_STREAM, 0), (void *)&v6, sizeof v6));
	if (inet_pton(AF_INET, addr, &v4.sin_addr) != 1)
		return 2;
	return say(connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&v4, sizeof v4));
}

/* Adds a filter that allows everything but getppid: the jail's own must stand. */
static int nest(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EDOM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = {sizeof f / sizeof *f, f};

	if (syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p))
		return say(-1);
	errno = 0;
	say(syscall(__NR_getppid));
	errno = 0;
	return say(syscall(__NR_keyctl, 0, -3, 0, 0, 0));
}

int main(int argc, char **argv)
{
	static const struct { const char *name; int (*run)(void); } attacks[] = {
		{"signals", attack_signals}, {"prlimit", attack_prlimit}, {"ptrace", attack_ptrace},
		{"proc", attack_proc}, {"sched", attack_sched}, {"forks", attack_forks},
		{"deathsig", attack_deathsig}, {"killall", attack_killall}, {"starve", attack_starve},
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc >= 3 && strcmp(argv[1], "--linger") == 0) {
		for (;;)
			pause();
	}
	if (argc >= 4 && strcmp(argv[1], "--pid1") == 0) {
		/* argv[3] marks every process of this run for the test */
		setenv("MARK", argv[3], 1);
		for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
			if (strcmp(argv[2], attacks[i].name) == 0)
				return attacks[i].run();
		return 2;
	}
	if (argc == 3 && strcmp(argv[1], "--connect-abstract") == 0)
		return connect_abstract(argv[2]);
	if (argc == 4 && strcmp(argv[1], "--connect-tcp") == 0)
		return connect_tcp(argv[2], argv[3]);
	if (argc == 2 && strcmp(argv[1], "--nest") == 0)
		return nest();
	control = argc == 2 && strcmp(argv[1], "--control") == 0;
	if (argc > 1 && !control) {
		fprintf(stderr, "usage: probe [--control | --pid1 ATTACK MARK | …]\n");
		return 2;
	}
	if (control && geteuid() == 0) {
		fprintf(stderr, "probe: the control does not run as root\n");
		return 2;
	}
	out = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (out == MAP_FAILED) {
		perror("probe: mmap");
		return 2;
	}
	calls();
	clones();
	arguments();
	sockets();
	foreign();
	paths();
	if (control) {
		printf("rows %d\nshown %d\n", rows, shown);
		return 0;
	}
	printf("wrong %d\n", wrong);
	printf("reachable %d\n", reachable + wrong);
	return reachable + wrong != 0;
}
