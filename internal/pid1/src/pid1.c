/* pid1.c: process 1 of a jail. It starts the job as its child in a second user
 * namespace, reaps everything, and tells the launcher the true wait status on a
 * socket that the job never holds. The job is hostile and has, with the single-id
 * map, the same host uid: PID 1 is not dumpable, holds CAP_SETFCAP (which the job
 * doesn't), and installs no signal handler, so that the kernel drops every signal
 * sent from inside the namespace.
 *
 * The end of PID 1 is the end of the jail: the kernel then kills every process of
 * the pid namespace. So wherever something can't go on, it exits. */
#include "apparmor.h"
#include "job.h"
#include "mem.h"
#include "payload.h"
#include "proc.h"
#include "protocol.h"
#include "sys.h"
#include "terminal.h"

#include <asm/errno.h>
#include <asm/statfs.h>
#include <linux/close_range.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/poll.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/time_types.h>

#define SIGKILL 9
#define SIGCHLD 17
#define SA_NOCLDSTOP 1ul
#define AF_UNIX 1
#define SOL_SOCKET 1
#define SCM_RIGHTS 1
#define SOCK_SEQPACKET 5
#define SOCK_CLOEXEC 02000000
#define MSG_DONTWAIT 0x40
#define MSG_NOSIGNAL 0x4000
#define WNOHANG 1
#define WALL 0x40000000
#define WAIT_ALL_MAX 16384 /* zombies reaped after the main process's end */
#define WAIT_ROUND 256     /* zombies reaped between two looks at the launcher */

struct report {
	uint32_t magic;
	uint16_t type, stage;
	int32_t error, status;
	uint32_t leftover, pid;
	uint64_t utime_us, stime_us, maxrss_kb;
	uint64_t children_utime_us, children_stime_us, children_maxrss_kb;
	uint32_t detail;
	uint32_t space; /* EXITED: what is known of the workspace */
	uint64_t space_used;
	unsigned char zero[PROTOCOL_REPORT - 88];
};
_Static_assert(sizeof(struct report) == PROTOCOL_REPORT, "report");

static int job_pid;    /* 0 until the clone */
static int status_fd;  /* the job's failures; -1 once it has executed */
static int signals_fd; /* SIGCHLD */
static int terminal;   /* the slave; -1: none */

static void send(struct report *r)
{
	r->magic = PROTOCOL_MAGIC;
	r->pid = (uint32_t)job_pid;
	/* Four reports at most in a life: they always fit the socket's buffer. */
	sys(__NR_sendto, FD_CONTROL, r, sizeof *r, MSG_NOSIGNAL, NULL, 0);
}

static __attribute__((noreturn)) void fail_with(struct report r)
{
	r.type = REPORT_FAILED;
	send(&r);
	die(1);
}

static __attribute__((noreturn)) void fail(uint16_t stage, long error, uint32_t detail)
{
	fail_with((struct report){ .stage = stage, .error = (int32_t)-error, .detail = detail });
}

static long must(uint16_t stage, long r)
{
	if (r < 0)
		fail(stage, r, 0);
	return r;
}

/* First of all: what is non-dumpable has a /proc entry that the same uid can't use
 * (descriptors, memory, root); no descriptor passes an exec by accident. */
static void harden(void)
{
	/* Inherited SIG_IGN would make the kernel throw the wait status away.
	 * NOCLDSTOP: a child that is stopped and continued doesn't wake PID 1. */
	struct { unsigned long head[3]; uint64_t mask; } dfl = { { 0, SA_NOCLDSTOP, 0 }, 0 };
	uint64_t chld = 1ull << (SIGCHLD - 1);

	must(STAGE_SETUP, sys(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0));
	/* With one of 0-2 missing, a socket of ours would become the job's stdio. */
	for (int fd = 0; fd < 3; fd++)
		must(STAGE_SETUP, sys(__NR_fcntl, fd, F_GETFD));
	must(STAGE_SETUP, sys(__NR_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC));
	sys(__NR_close, FD_SELF);
	must(STAGE_SETUP, sys(__NR_rt_sigaction, SIGCHLD, &dfl, NULL, 8));
	must(STAGE_SETUP, sys(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &chld, NULL, 8));
	signals_fd = (int)must(STAGE_SETUP, sys(__NR_signalfd4, -1, &chld, 8, O_CLOEXEC | O_NONBLOCK));
}

static void read_full(unsigned char *p, uint32_t n)
{
	while (n) {
		long r = sys(__NR_read, FD_CONTROL, p, n);
		if (r == -EINTR)
			continue;
		must(STAGE_PAYLOAD, r);
		if (r == 0)
			fail(STAGE_PAYLOAD, -EPROTO, 0);
		p += r;
		n -= (uint32_t)r;
	}
}

static void *allocate(uint64_t n)
{
	long r = sys(__NR_mmap, NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (r < 0 && r > -4096)
		fail(STAGE_PAYLOAD, r, 0);
	return (void *)r;
}

static unsigned char *read_payload(uint32_t *n)
{
	uint32_t head[3];
	unsigned char *body;

	read_full((unsigned char *)head, PROTOCOL_HEADER);
	if (head[0] != PROTOCOL_MAGIC)
		fail(STAGE_PAYLOAD, -EBADMSG, 0);
	if (head[1] != PROTOCOL_VERSION)
		fail(STAGE_PAYLOAD, -EPROTONOSUPPORT, 0);
	if (head[2] > PROTOCOL_BODY_MAX)
		fail(STAGE_PAYLOAD, -EMSGSIZE, 0);
	*n = head[2];
	body = allocate((uint64_t)*n + 1);
	read_full(body, *n);
	return body;
}

/* One write, as the kernel demands for maps. */
static void write_proc(uint16_t stage, const char *name, const void *text, uint32_t n)
{
	char path[64];
	long fd, r;

	proc_path(path, (uint32_t)job_pid, name);
	fd = must(stage, sys(__NR_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC));
	r = must(stage, sys(__NR_write, fd, text, n));
	if (r != (long)n)
		fail(stage, -EIO, 0);
	sys(__NR_close, fd);
}

static void move_to_cgroups(const struct payload *p)
{
	char path[64], *text = path + 6, *end = text;

	/* The pid as this namespace numbers it: "/proc/N/" without the rest. The
	 * kernel translates for the writer, and checks the rights of the opener. */
	proc_path(path, (uint32_t)job_pid, "");
	while (*end != '/')
		end++;
	for (uint32_t i = 0; i < p->nprocs; i++) {
		long r = sys(__NR_write, p->procs[i], text, end - text);
		if (r < 0)
			fail(STAGE_CGROUP, r, i);
		sys(__NR_close, p->procs[i]);
	}
}

/* The kernel's structures for sendmsg with one descriptor. */
static long send_with(const struct report *r, int fd)
{
	struct { const void *base; size_t len; } data = { r, sizeof *r };
	struct { size_t len; int level, type, fd, pad; } rights = {
		sizeof rights - sizeof rights.pad, SOL_SOCKET, SCM_RIGHTS, fd, 0
	};
	struct {
		void *name;
		int namelen;
		void *iov;
		size_t iovlen;
		void *control;
		size_t controllen;
		unsigned flags;
	} m = { NULL, 0, &data, 1, &rights, sizeof rights, 0 };

	return sys(__NR_sendmsg, FD_CONTROL, &m, MSG_NOSIGNAL);
}

/* The launcher alone gets the master. PID 1 keeps the slave to the end: without it
 * the launcher would read EIO, and give up the job's output, whenever the job has
 * closed its last descriptor and may still open /dev/tty again. */
static void make_terminal(const struct payload *p)
{
	struct report r = { .magic = PROTOCOL_MAGIC, .type = REPORT_TERMINAL };
	int master = -1;

	terminal = -1;
	if (!p->cols)
		return;
	terminal = (int)must(STAGE_TERMINAL, terminal_open(p->cols, p->rows, &master));
	must(STAGE_TERMINAL, send_with(&r, master));
	sys(__NR_close, master);
}

static void start_job(const struct payload *p, char **argv, char **envp)
{
	struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	int pair[2];
	long r;

	if (p->flags & FLAG_NEWCGROUP)
		args.flags |= CLONE_NEWCGROUP;
	if (p->flags & FLAG_INTO_CGROUP) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)p->cgroup_dir;
	}
	must(STAGE_PAIR, sys(__NR_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	r = must(STAGE_CLONE, sys(__NR_clone3, &args, sizeof args));
	if (r == 0) {
		/* Held here, a copy of PID 1's end would hide PID 1's death. */
		sys(__NR_close, pair[0]);
		sys(__NR_close, FD_CONTROL);
		sys(__NR_close, signals_fd);
		job_run(p, argv, envp, pair[1], terminal);
	}
	job_pid = (int)r;
	status_fd = pair[0];
	sys(__NR_close, pair[1]);
	/* The launcher waits for the end of the job's output: hold none of it. */
	must(STAGE_SETUP, sys(__NR_close_range, 0, 2, 0));
	/* A directory of a cgroup is a way out (openat(fd, "../..")). */
	if (p->cgroup_dir >= 0)
		sys(__NR_close, p->cgroup_dir);

	write_proc(STAGE_UIDMAP, "uid_map", p->uidmap.p, p->uidmap.n);
	if (p->flags & FLAG_SETGROUPS_DENY)
		write_proc(STAGE_SETGROUPS, "setgroups", "deny", 4);
	write_proc(STAGE_GIDMAP, "gid_map", p->gidmap.p, p->gidmap.n);
	move_to_cgroups(p);
	r = sys(__NR_sendto, status_fd, "g", 1, MSG_NOSIGNAL, NULL, 0);
	if (r == -EPIPE || r == -ECONNRESET)
		return; /* it died already: job_status will say so */
	must(STAGE_RELEASE, r);
}

/* The job's process speaks only to say why it failed; its end of the socket closes
 * by the exec, or by a death before it (killed, out of memory, by its own filter).
 * Only the kernel can tell the two apart. */
static void job_status(void)
{
	struct failure f;
	long r = sys(__NR_recvfrom, status_fd, &f, sizeof f, MSG_DONTWAIT, NULL, NULL);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r == sizeof f)
		fail((uint16_t)f.stage, -(long)f.error, f.detail);
	if (r > 0)
		fail(STAGE_RELEASE, -EPROTO, 0);
	/* r < 0, ECONNRESET: it died with the release unread. */
	if (r < 0 || proc_executed((uint32_t)job_pid) != 1) {
		struct report gone = { .stage = STAGE_DIED, .error = ECHILD };
		sys(__NR_kill, job_pid, SIGKILL);
		do
			r = sys(__NR_wait4, job_pid, &gone.status, WALL, NULL);
		while (r == -EINTR);
		fail_with(gone);
	}
	sys(__NR_close, status_fd);
	status_fd = -1;
	send(&(struct report){ .type = REPORT_STARTED });
}

static uint64_t us(struct __kernel_old_timeval t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

/* A mount point of the launcher's, which the job can't replace. */
static void measure_space(struct report *r)
{
	struct statfs s = { 0 };

	if (sys(__NR_statfs, WORKSPACE, &s) < 0 || s.f_bsize <= 0 || s.f_blocks < s.f_bfree)
		return;
	r->space = SPACE_KNOWN;
	if (s.f_bfree == 0 || s.f_ffree == 0)
		r->space |= SPACE_FULL;
	r->space_used = (uint64_t)(s.f_blocks - s.f_bfree) * (uint64_t)s.f_bsize;
}

/* The main process is gone. Its own usage is in ru (with that of the children it
 * waited for); RUSAGE_CHILDREN has all that PID 1 reaped, the main process too. */
static __attribute__((noreturn)) void finish(int status, const struct rusage *ru)
{
	struct report r = {
		.type = REPORT_EXITED,
		.status = status,
		.utime_us = us(ru->ru_utime),
		.stime_us = us(ru->ru_stime),
		.maxrss_kb = (uint64_t)ru->ru_maxrss,
	};
	struct rusage all = { 0 };

	/* Bounded: orphans of a fork storm may come faster than they are reaped. */
	for (int i = 0; i < WAIT_ALL_MAX; i++)
		if (sys(__NR_wait4, -1, NULL, WNOHANG | WALL, NULL) <= 0)
			break;
	r.leftover = proc_living();
	if (sys(__NR_getrusage, RUSAGE_CHILDREN, &all) == 0) {
		r.children_utime_us = us(all.ru_utime);
		r.children_stime_us = us(all.ru_stime);
		r.children_maxrss_kb = (uint64_t)all.ru_maxrss;
	}
	measure_space(&r);
	send(&r);
	die(0); /* the kernel kills the rest */
}

/* Reaps up to WAIT_ROUND zombies; gives their number. The main process is PID 1's
 * eldest child, so a storm of orphans can't keep it waiting. */
static int reap(void)
{
	int n = 0;

	while (n < WAIT_ROUND) {
		struct rusage ru;
		int status = 0;
		long r = sys(__NR_wait4, -1, &status, WNOHANG | WALL, &ru);

		if (r == job_pid)
			finish(status, &ru);
		if (r == -EINTR)
			continue;
		must(STAGE_WAIT, r); /* ECHILD: the main process can't be gone */
		if (r == 0)
			break;
		n++;
	}
	return n;
}

static void drain_signals(void)
{
	unsigned char info[128];

	while (sys(__NR_read, signals_fd, info, sizeof info) == sizeof info)
		;
}

static void obey(uint32_t kind, uint32_t arg)
{
	/* The main process is ours and unreaped, so its number can't be another's. */
	if ((kind == CONTROL_SIGNAL || kind == CONTROL_SIGNAL_GROUP) && arg >= 1 && arg <= 64) {
		if (job_pid)
			sys(__NR_kill, kind == CONTROL_SIGNAL ? job_pid : -job_pid, arg);
		return;
	}
	if (kind == CONTROL_KILL) {
		/* All in the namespace but PID 1. A fork under way sees the signal
		 * pending and fails, so nothing slips through. */
		sys(__NR_kill, -1, SIGKILL);
		return;
	}
	fail(STAGE_CONTROL, -EPROTO, 0);
}

/* Messages come whole or in pieces; the end of the stream is the launcher's. */
static void control(void)
{
	static unsigned char message[PROTOCOL_CONTROL];
	static uint32_t have;
	uint32_t word[2];
	long r = sys(__NR_recvfrom, FD_CONTROL, message + have, sizeof message - have, MSG_DONTWAIT, NULL, NULL);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r <= 0)
		die(1);
	have += (uint32_t)r;
	if (have < sizeof message)
		return;
	have = 0;
	memcpy(word, message, sizeof word);
	obey(word[0], word[1]);
}

static __attribute__((noreturn)) void supervise(void)
{
	static const struct __kernel_timespec now = { 0, 0 };
	static const struct __kernel_timespec pause = { 0, 1000000 };
	int more = 0, idle = 0;

	for (;;) {
		struct pollfd p[2] = { { FD_CONTROL, POLLIN, 0 }, { 0, POLLIN, 0 } };

		/* Nothing is reaped before the exec: /proc/PID must stay readable. */
		p[1].fd = status_fd >= 0 ? status_fd : signals_fd;
		long r = sys(__NR_ppoll, p, 2, more ? &now : NULL, NULL, 0);
		if (r == -EINTR)
			continue;
		must(STAGE_WAIT, r);
		if (status_fd >= 0) {
			if (p[1].revents)
				job_status();
			more = status_fd < 0; /* it may have ended already */
		} else if (p[1].revents || more) {
			int n;
			drain_signals();
			n = reap();
			more = n == WAIT_ROUND;
			/* kill(1, SIGCHLD) in a loop costs PID 1 a wake-up a ms, no more. */
			idle = n ? 0 : idle + 1;
			if (idle > 2)
				sys(__NR_nanosleep, &pause, NULL);
		}
		if (p[0].revents)
			control();
	}
}

static void check_parent(const struct payload *p)
{
	int sig = 0;

	/* AppArmor takes the signal away when an exec changes the label
	 * (apparmor_bprm_committing_creds). A launcher that has died meanwhile shows as
	 * the end of the control socket. */
	if (p->label)
		must(STAGE_PDEATHSIG, sys(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
	must(STAGE_PDEATHSIG, sys(__NR_prctl, PR_GET_PDEATHSIG, &sig, 0, 0, 0));
	if (sig != SIGKILL)
		fail(STAGE_PDEATHSIG, -EPERM, 0);
}

void pid1_main(void) __attribute__((noreturn, used));
void pid1_main(void)
{
	static struct payload p;
	uint32_t n, bad = 0;
	unsigned char *body;
	char **argv, **envp;

	harden();
	body = read_payload(&n);
	if (payload_parse(&p, body, n, &bad))
		fail(STAGE_PAYLOAD, -EBADMSG, bad);
	if (sys(__NR_getpid) != 1)
		fail(STAGE_PID, -EPERM, 0);
	if (p.flags & FLAG_REQUIRE_PDEATHSIG)
		check_parent(&p);
	if (p.label)
		must(STAGE_APPARMOR, apparmor_is(p.label));
	argv = allocate(((uint64_t)p.nargs + p.nenv + 2) * sizeof *argv);
	envp = argv + p.nargs + 1;
	payload_vectors(body, n, argv, envp);
	make_terminal(&p);
	start_job(&p, argv, envp);
	/* The environment may hold secrets, and nothing of it is needed any more. */
	sys(__NR_munmap, body, (uint64_t)n + 1);
	supervise();
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tand $-16, %rsp\n\tcall pid1_main\n\thlt\n");
#else
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tbl pid1_main\n\tbrk #0\n");
#endif
