/* Calls what the filter is about, with harmless arguments, and prints one line
 * for each: its name and the errno (0 = the call worked). The last argument
 * names a foreign ABI to call through instead, which must be the end of us. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void try(const char *name, long nr, long a, long b, long c)
{
	errno = 0;
	long r = syscall(nr, a, b, c, 0, 0, 0);
	printf("%s %d\n", name, r == -1 ? errno : 0);
}

static int done;
static void *thread(void *arg) { done = 1; return arg; }

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "i386")) {
#ifdef __x86_64__
		long r;
		__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); /* getpid */
		printf("i386 getpid %ld\n", r);
#endif
		return 0;
	}
	if (argc > 1 && !strcmp(argv[1], "x32")) {
		printf("x32 getpid %ld\n", syscall(0x40000000 | SYS_getpid));
		return 0;
	}
	try("nr-9999", 9999, 0, 0, 0);
	try("nr-1000", 1000, 0, 0, 0);
	try("clone3", SYS_clone3, 0, 0, 0);
	try("io_uring_setup", 425, 0, 0, 0);
	try("socket-alg", SYS_socket, 38, 5, 0);
	try("socket-vsock", SYS_socket, 40, 1, 0);
	try("socket-packet", SYS_socket, 17, 3, 0);
	try("socket-high", SYS_socket, 1L << 32 | 38, 5, 0);
	try("socket-xfrm", SYS_socket, 16, 3, 6);
	try("socket-audit", SYS_socket, 16, 3, 9);
	try("socket-route", SYS_socket, 16, 3, 0);
	try("socket-unix", SYS_socket, 1, 1, 0);
	try("socket-inet", SYS_socket, 2, 1, 0);
	try("tiocsti-high", SYS_ioctl, 0, 1L << 32 | 0x5412, 0);
	try("keyctl", SYS_keyctl, 0, -3, 0);
	try("bpf", SYS_bpf, -1, 0, 0);
	try("unshare", SYS_unshare, 0, 0, 0);
	try("ptrace", SYS_ptrace, 2, -1, 0); /* not TRACEME: it would stop us */
	try("personality-read", SYS_personality, 0xffffffff, 0, 0);
	try("personality-norandom", SYS_personality, 0x40000, 0, 0);
	try("prlimit-pid1", SYS_prlimit64, 1, 7, 0);
	try("prlimit-self", SYS_prlimit64, 0, 7, 0);
	fflush(stdout);
	long child = syscall(SYS_clone, 0x10000000 | SIGCHLD, 0, 0, 0, 0);
	if (child == 0)
		_exit(0);
	printf("clone-newuser %d\n", child == -1 ? errno : 0);
	if (child > 0)
		waitpid(child, NULL, 0);
	pthread_t th;
	int r = pthread_create(&th, NULL, thread, NULL);
	if (!r)
		pthread_join(th, NULL);
	printf("pthread %d\n", done ? 0 : r ? r : -1);
	pid_t pid = fork();
	if (!pid)
		_exit(7);
	int st = 0;
	waitpid(pid, &st, 0);
	printf("fork %d\n", WEXITSTATUS(st) == 7 ? 0 : -1);
	return 0;
}
