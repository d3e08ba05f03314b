/* job.c: from PID 1's child to the job. The order is the point: ids first (they
 * need the capabilities that a new user namespace gives), then everything is given
 * up, then what a path could reach, AppArmor's profile, the filter last. Any error
 * ends here; there is no way on to execve past one. */
#include "job.h"
#include "apparmor.h"
#include "exec.h"
#include "landlock.h"
#include "protocol.h"
#include "seed.h"
#include "sys.h"
#include "terminal.h"

#include <linux/capability.h>
#include <linux/close_range.h>
#include <asm/errno.h>
#include <linux/fcntl.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>

#define STATUS_FD 3
#define NSIG 64

static int status_fd;

static __attribute__((noreturn)) void fail(uint32_t stage, long error, uint32_t detail)
{
	struct failure f = { stage, (uint32_t)-error, detail };

	/* write, not sendto: the filter may be on. If it refuses even this, PID 1
	 * sees a process that ended without an exec. */
	sys(__NR_write, status_fd, &f, sizeof f);
	die(127);
}

static void must(uint32_t stage, long r)
{
	if (r < 0)
		fail(stage, r, 0);
}

/* Held until the maps and the cgroups are right. End of file: PID 1 gave up. */
static void wait_for_release(void)
{
	char go;
	long r;

	do
		r = sys(__NR_read, status_fd, &go, 1);
	while (r == -EINTR);
	if (r != 1)
		die(127);
}

static void take_ids(const struct payload *p)
{
	uint32_t u[3], g[3];

	if (p->flags & FLAG_SETIDS) {
		must(STAGE_SETIDS, sys(__NR_setgroups, 0, NULL));
		must(STAGE_SETIDS, sys(__NR_setresgid, p->gid, p->gid, p->gid));
		must(STAGE_SETIDS, sys(__NR_setresuid, p->uid, p->uid, p->uid));
	}
	must(STAGE_IDS, sys(__NR_getresuid, &u[0], &u[1], &u[2]));
	must(STAGE_IDS, sys(__NR_getresgid, &g[0], &g[1], &g[2]));
	for (int i = 0; i < 3; i++)
		if (u[i] != p->uid || g[i] != p->gid)
			fail(STAGE_IDS, -EPERM, 0);
}

/* A blocked or ignored signal survives an exec and would change what the job does
 * (a Go launcher's SIGPIPE, a Python that never sees SIGINT). */
static void reset_signals(void)
{
	/* The kernel's struct: handler, flags, restorer, mask of 64 bits. */
	struct { unsigned long head[3]; uint64_t mask; } dfl = { { 0, 0, 0 }, 0 };
	uint64_t none = 0;

	for (int s = 1; s <= NSIG; s++)
		if (s != SIGKILL && s != SIGSTOP)
			must(STAGE_SIGNALS, sys(__NR_rt_sigaction, s, &dfl, NULL, 8));
	must(STAGE_SIGNALS, sys(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &none, NULL, 8));
}

/* RLIMIT_NPROC belongs here: set before the clone it would become the new
 * namespace's ceiling for all processes of the host uid. */
static void set_limits(const struct payload *p)
{
	for (uint32_t i = 0; i < p->nlimits; i++) {
		const struct limit *l = &p->limits[i];
		uint64_t v[2] = { l->soft, l->hard };
		long r = sys(__NR_prlimit64, 0, l->resource, v, NULL);
		if (r < 0)
			fail(STAGE_RLIMIT, r, l->resource);
	}
	sys(__NR_umask, p->umask);
	if (p->affinity.n)
		must(STAGE_AFFINITY, sys(__NR_sched_setaffinity, 0, p->affinity.n, p->affinity.p));
}

/* CLONE_NEWUSER refills every set, the bounding set too, whatever PID 1 had. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } }, have[2];

	for (int cap = 0; cap < 64; cap++) {
		long r = sys(__NR_prctl, PR_CAPBSET_READ, cap, 0, 0, 0);
		if (r == -EINVAL && cap > 0)
			break; /* one past the last that this kernel knows */
		must(STAGE_BOUNDING, r);
		if (r)
			must(STAGE_BOUNDING, sys(__NR_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0));
	}
	must(STAGE_AMBIENT, sys(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
	must(STAGE_CAPSET, sys(__NR_capset, &head, none));
	must(STAGE_CAPSET, sys(__NR_capget, &head, have));
	for (int i = 0; i < 2; i++)
		if (have[i].effective | have[i].permitted | have[i].inheritable)
			fail(STAGE_CAPSET, -EPERM, 0);
	must(STAGE_NO_NEW_PRIVS, sys(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

/* PID 1's own 0-2 are never the job's: the parser refuses a payload that would leave
 * one of them. */
static void take_stdio(const struct payload *p, int terminal, const int *stdio)
{
	if (terminal >= 0)
		must(STAGE_CTTY, terminal_take(terminal));
	if (p->flags & FLAG_STDIO)
		for (int fd = 0; fd < 3; fd++)
			must(STAGE_DESCRIPTORS, sys(__NR_dup3, stdio[fd], fd, 0));
}

/* Before the chdir: /proc/self/fd/N of a leaked directory is how CVE-2024-21626
 * left the root. What stays: 0-2, and the status socket until the exec. */
static void close_descriptors(void)
{
	if (status_fd != STATUS_FD)
		must(STAGE_DESCRIPTORS, sys(__NR_dup3, status_fd, STATUS_FD, O_CLOEXEC));
	status_fd = STATUS_FD;
	must(STAGE_DESCRIPTORS, sys(__NR_close_range, STATUS_FD + 1, ~0u, 0));
}

/* The second half of that lesson: a directory outside the root reads
 * "(unreachable)…". */
static void enter(const char *cwd)
{
	char real[4096];

	must(STAGE_CWD, sys(__NR_chdir, cwd));
	must(STAGE_CWD, sys(__NR_getcwd, real, sizeof real));
	if (real[0] != '/')
		fail(STAGE_CWD, -EXDEV, 0);
}

/* After all that PID 1's profile permits and the job's doesn't, which dropping the
 * bounding set is part of. PID 1's profile stays: no_new_privs forbids to leave it. */
static void take_profile(const struct payload *p)
{
	if (!p->stack)
		return;
	must(STAGE_STACK, apparmor_stack(p->stack));
	must(STAGE_STACK, apparmor_is(p->job_label));
}

/* Before the filter, which may refuse these calls; after no_new_privs, which they take. */
static void take_executables(const struct payload *p)
{
	uint32_t which = 0;
	long r;

	if (!p->nexecutables)
		return;
	r = landlock_executables(p->executables, p->nexecutables, &which);
	if (r < 0)
		fail(STAGE_LANDLOCK, r, which);
}

static void load_filters(const struct payload *p)
{
	for (uint32_t i = 0; i < p->nfilters; i++) {
		struct sock_fprog prog = {
			.len = (unsigned short)(p->filters[i].n / sizeof(struct sock_filter)),
			.filter = (struct sock_filter *)(uintptr_t)p->filters[i].p,
		};
		long r = sys(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
		if (r < 0)
			fail(STAGE_FILTER, r, i);
	}
}

static __attribute__((noreturn)) void make_seed(void)
{
	uint32_t frame = 0;
	long r = seed_make(&frame);

	if (r < 0)
		fail(STAGE_SEED, r, frame);
	die(0);
}

void job_run(const struct payload *p, char **argv, char **envp, int status, int terminal, const int *stdio)
{
	uint32_t detail = 0;
	long error;

	status_fd = status;
	wait_for_release();
	if (p->flags & FLAG_UNSHARE_CGROUPNS)
		must(STAGE_CGROUPNS, sys(__NR_unshare, CLONE_NEWCGROUP));
	take_ids(p);
	must(STAGE_SETSID, sys(__NR_setsid));
	take_stdio(p, terminal, stdio);
	reset_signals();
	set_limits(p);
	drop_capabilities();
	close_descriptors();
	enter(p->cwd ? p->cwd : "/");
	take_profile(p);
	take_executables(p);
	load_filters(p);
	if (p->flags & FLAG_SEED)
		make_seed();
	error = exec_search(argv, envp, &detail);
	fail(STAGE_EXEC, error, detail);
}
