/* armor.c: what a profile of AppArmor must refuse, tried one by one, each as a call
 * that does no harm where it is allowed. A line each: name, and "allowed" or the errno.
 * It runs with privilege: nothing but the profile stands before it. So it refuses to
 * run in the host's mount namespace, and mounts nothing but on the given directory.
 * Arguments: the pid of a process outside, a mount point that is a tmpfs, what
 * /proc/PID/ns/mnt is for the host, and the pids of processes under the labels of
 * another jail's PID 1 and of its command. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *name, long r)
{
	printf("%s %s\n", name, r < 0 ? strerrorname_np(errno) : "allowed");
	fflush(stdout);
}

/* In a child, whose namespaces and mounts end with it. */
#define TRY(name, call)                                                        \
	do {                                                                   \
		if (fork() == 0) {                                             \
			say(name, call);                                       \
			_exit(0);                                              \
		}                                                              \
		wait(NULL);                                                    \
	} while (0)

static long open_only(const char *path, int flags)
{
	return open(path, flags | O_CLOEXEC | O_NONBLOCK);
}

static long peek(pid_t pid)
{
	char byte;
	FILE *maps;
	char path[64];
	unsigned long at = 0;
	struct iovec here = { &byte, 1 }, there = { NULL, 1 };

	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	if (!maps || fscanf(maps, "%lx", &at) != 1)
		return -1;
	there.iov_base = (void *)at;
	return process_vm_readv(pid, &here, 1, &there, 1, 0);
}

static long environ_of(pid_t pid)
{
	char byte, path[64];
	int fd;

	snprintf(path, sizeof path, "/proc/%d/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -1 : read(fd, &byte, 1);
}

/* A namespace that can't be told counts as the host's. */
static int in_namespace_of(const char *host)
{
	char own[64];
	ssize_t n = readlink("/proc/self/ns/mnt", own, sizeof own - 1);

	if (n <= 0 || strncmp(host, "mnt:[", 5))
		return 1;
	own[n] = 0;
	return strcmp(own, host) == 0;
}

int main(int argc, char **argv)
{
	pid_t outside, init, fellow;
	const char *dir;

	if (argc != 6 || in_namespace_of(argv[3])) {
		fputs("armor: not in a mount namespace of its own\n", stderr);
		return 2;
	}
	outside = atoi(argv[1]);
	dir = argv[2];
	init = atoi(argv[4]);
	fellow = atoi(argv[5]);
	TRY("mount", mount("armor", dir, "tmpfs", 0, ""));
	TRY("bind", mount("/usr", dir, NULL, MS_BIND, NULL));
	TRY("remount", mount(NULL, dir, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
	TRY("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
	TRY("umount", umount2(dir, 0));
	TRY("unshare-user", unshare(CLONE_NEWUSER));
	TRY("unshare-mount", unshare(CLONE_NEWNS));
	TRY("sethostname", unshare(CLONE_NEWUTS) ? -1 : sethostname("armor", 5));
	TRY("ptrace", ptrace(PTRACE_SEIZE, outside, 0, 0));
	TRY("process_vm_readv", peek(outside));
	TRY("kill", kill(outside, 0));
	TRY("environ", environ_of(outside));
	TRY("ptrace-init", ptrace(PTRACE_SEIZE, init, 0, 0));
	TRY("kill-init", kill(init, 0));
	TRY("environ-init", environ_of(init));
	TRY("ptrace-fellow", ptrace(PTRACE_SEIZE, fellow, 0, 0));
	TRY("process_vm_readv-fellow", peek(fellow));
	/* One label for the commands of all jails: the documents say that these two
	 * are left to the namespaces. */
	TRY("+kill-fellow", kill(fellow, 0));
	TRY("+environ-fellow", environ_of(fellow));
	TRY("raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
	TRY("raw6", socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
	TRY("packet", socket(AF_PACKET, SOCK_RAW, 0));
	TRY("packet-dgram", socket(AF_PACKET, SOCK_DGRAM, 0));
	TRY("write-sysctl", open_only("/proc/sys/kernel/domainname", O_WRONLY));
	TRY("write-sysctl-deep", open_only("/proc/sys/net/ipv4/ip_forward", O_WRONLY));
	TRY("sysrq-trigger", open_only("/proc/sysrq-trigger", O_WRONLY));
	TRY("kcore", open_only("/proc/kcore", O_RDONLY));
	TRY("kallsyms", open_only("/proc/kallsyms", O_RDONLY));
	TRY("keys", open_only("/proc/keys", O_RDONLY));
	TRY("kmsg", open_only("/dev/kmsg", O_RDONLY));
	TRY("write-sys", open_only("/sys/kernel/mm/ksm/run", O_WRONLY));
	TRY("write-sys-module", open_only("/sys/module/printk/parameters/time", O_WRONLY));
	TRY("security", open_only("/sys/kernel/security/lsm", O_RDONLY));
	TRY("security-policy", open_only("/sys/kernel/security/apparmor/.replace", O_WRONLY));
	TRY("firmware", open_only("/sys/firmware", O_RDONLY));
	TRY("debug", open_only("/sys/kernel/debug", O_RDONLY));
	TRY("tracing", open_only("/sys/kernel/tracing", O_RDONLY));
	/* What a command needs. */
	TRY("+tcp", socket(AF_INET, SOCK_STREAM, 0));
	TRY("+udp6", socket(AF_INET6, SOCK_DGRAM, 0));
	TRY("+unix", socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){ 0, 0 }));
	TRY("+netlink", socket(AF_NETLINK, SOCK_RAW, 0));
	TRY("+own", kill(getppid(), 0));
	TRY("+sysctl", open_only("/proc/sys/kernel/osrelease", O_RDONLY));
	TRY("+status", open_only("/proc/self/status", O_RDONLY));
	/* The last: the root of all would be the empty directory. */
	TRY("pivot_root", syscall(SYS_pivot_root, dir, dir));
	return 0;
}
