/* pid1.c: process 1 of a jail. It starts jobs as its children, each in a second user
 * namespace, reaps everything, and tells the launcher the true wait status on a
 * socket that no job ever holds. Jobs are hostile and have, with the single-id map,
 * the same host uid: PID 1 is not dumpable, holds CAP_SETFCAP (which no job does),
 * and installs no signal handler, so that the kernel drops every signal sent from
 * inside the namespace.
 *
 * The end of PID 1 is the end of the jail: the kernel then kills every process of
 * the pid namespace. So wherever something can't go on, it exits. What goes wrong
 * with one job alone ends that job alone (jobs.c). */
#include "apparmor.h"
#include "control.h"
#include "jobs.h"
#include "payload.h"
#include "protocol.h"
#include "report.h"
#include "sys.h"

#include <asm/errno.h>
#include <linux/close_range.h>
#include <linux/fcntl.h>
#include <linux/poll.h>
#include <linux/prctl.h>
#include <linux/time_types.h>

#define SA_NOCLDSTOP 1ul

static int signals_fd; /* SIGCHLD */

/* First of all: what is non-dumpable has a /proc entry that the same uid can't use
 * (descriptors, memory, root); no descriptor passes an exec by accident, and what
 * whoever started PID 1 left open is not even here. */
static void harden(void)
{
	/* Inherited SIG_IGN would make the kernel throw the wait status away.
	 * NOCLDSTOP: a child that is stopped and continued doesn't wake PID 1. */
	struct { unsigned long head[3]; uint64_t mask; } dfl = { { 0, SA_NOCLDSTOP, 0 }, 0 };
	uint64_t chld = 1ull << (SIGCHLD - 1);

	must(STAGE_SETUP, sys(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0));
	/* With one of 0-2 missing, a socket of ours would become a job's stdio. */
	for (int fd = 0; fd < 3; fd++)
		must(STAGE_SETUP, sys(__NR_fcntl, fd, F_GETFD));
	must(STAGE_SETUP, sys(__NR_close_range, FD_CONTROL, FD_CONTROL, CLOSE_RANGE_CLOEXEC));
	must(STAGE_SETUP, sys(__NR_close_range, FD_SELF, ~0u, 0));
	must(STAGE_SETUP, sys(__NR_rt_sigaction, SIGCHLD, &dfl, NULL, 8));
	must(STAGE_SETUP, sys(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &chld, NULL, 8));
	signals_fd = (int)must(STAGE_SETUP, sys(__NR_signalfd4, -1, &chld, 8, O_CLOEXEC | O_NONBLOCK));
	/* What PID 1 was started with as 0-2 is closed: it may be a pipe whose end
	 * somebody waits for. Their places stay taken. */
	for (int fd = 0; fd < 3; fd++)
		must(STAGE_SETUP, sys(__NR_dup3, signals_fd, fd, O_CLOEXEC));
}

static void check_parent(int confined)
{
	int sig = 0;

	/* AppArmor takes the signal away when an exec changes the label
	 * (apparmor_bprm_committing_creds). A launcher that has died meanwhile shows as
	 * the end of the control socket. */
	if (confined)
		must(STAGE_PDEATHSIG, sys(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
	must(STAGE_PDEATHSIG, sys(__NR_prctl, PR_GET_PDEATHSIG, &sig, 0, 0, 0));
	if (sig != SIGKILL)
		fail(STAGE_PDEATHSIG, -EPERM, 0);
}

/* ready says that PID 1 takes orders, and hands the workspace over: the mount is the
 * jail's own, no path outside leads to it. No job has ever run, so that the name is
 * no link of anybody's. */
static void ready(void)
{
	struct report r = { .type = REPORT_READY };
	long fd = sys(__NR_openat, AT_FDCWD, WORKSPACE, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		report_send(&r); /* whoever needs it misses it */
		return;
	}
	must(STAGE_SETUP, report_send_with(&r, (int)fd));
	must(STAGE_SETUP, sys(__NR_close, fd));
}

static void set_up(void)
{
	static unsigned char body[PROTOCOL_SETUP_MAX];
	struct setup s;
	uint32_t bad = 0, n = control_setup(body);

	if (setup_parse(&s, body, n, &bad))
		fail(STAGE_PAYLOAD, -EBADMSG, bad);
	if (sys(__NR_getpid) != 1)
		fail(STAGE_PID, -EPERM, 0);
	if (s.flags & FLAG_REQUIRE_PDEATHSIG)
		check_parent(s.label != NULL);
	if (s.label)
		must(STAGE_APPARMOR, apparmor_is(s.label));
	jobs_init(!!(s.flags & FLAG_ONCE), s.label != NULL, signals_fd);
	ready();
}

static void drain_signals(void)
{
	unsigned char info[128];

	while (sys(__NR_read, signals_fd, info, sizeof info) == sizeof info)
		;
}

static __attribute__((noreturn)) void supervise(void)
{
	static const struct __kernel_timespec now = { 0, 0 };
	static const struct __kernel_timespec pause = { 0, 1000000 };
	int more = 0, idle = 0;

	for (;;) {
		struct pollfd p[2 + PROTOCOL_JOBS] = { { FD_CONTROL, POLLIN, 0 }, { signals_fd, POLLIN, 0 } };
		uint32_t n = jobs_poll(p + 2);
		long r = sys(__NR_ppoll, p, 2 + n, more ? &now : NULL, NULL, 0);

		if (r == -EINTR)
			continue;
		must(STAGE_WAIT, r);
		jobs_settle(p + 2, n);
		if (p[1].revents || more) {
			int reaped;
			drain_signals();
			reaped = jobs_reap();
			more = reaped == WAIT_ROUND;
			/* kill(1, SIGCHLD) in a loop costs PID 1 a wake-up a ms, no more. */
			idle = reaped ? 0 : idle + 1;
			if (idle > 2)
				sys(__NR_nanosleep, &pause, NULL);
		}
		if (p[0].revents)
			control_obey();
	}
}

void pid1_main(void) __attribute__((noreturn, used));
void pid1_main(void)
{
	harden();
	set_up();
	supervise();
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tand $-16, %rsp\n\tcall pid1_main\n\thlt\n");
#else
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tbl pid1_main\n\tbrk #0\n");
#endif
