/* jobs.c: many jobs side by side. Each is cloned into user and cgroup namespaces of
 * its own; what one was given is closed here before the next is looked at. The death
 * of any of them, or of an orphan, comes as the same SIGCHLD, so every zombie is
 * looked at before it is reaped: of a job that has not yet been seen to execute, only
 * its /proc entry can tell whether it did. */
#include "jobs.h"
#include "mem.h"
#include "proc.h"
#include "protocol.h"
#include "report.h"
#include "socket.h"
#include "sys.h"
#include "terminal.h"

#include <asm/errno.h>
#include <asm/siginfo.h>
#include <asm/statfs.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/wait.h>

#define WAIT_ALL_MAX 16384 /* zombies reaped after the last job's end */

struct job {
	uint32_t id;
	int pid;      /* 0 until the clone; a free slot */
	int status;   /* its failures; -1 once it has executed */
	int terminal; /* the slave; -1: none */
	int seed;
	uint64_t utime_us, stime_us; /* of all that PID 1 had reaped at its start */
};

static struct job jobs[PROTOCOL_JOBS];
static int once, confined, signals_fd;

void jobs_init(int is_once, int is_confined, int signals)
{
	once = is_once;
	confined = is_confined;
	signals_fd = signals;
}

static uint32_t living(void)
{
	uint32_t n = 0;

	for (const struct job *j = jobs; j < jobs + PROTOCOL_JOBS; j++)
		n += j->pid != 0;
	return n;
}

int jobs_full(void)
{
	return living() == PROTOCOL_JOBS;
}

static struct job *by_pid(int pid)
{
	for (struct job *j = jobs; j < jobs + PROTOCOL_JOBS; j++)
		if (j->pid && j->pid == pid)
			return j;
	return NULL;
}

int jobs_pid(uint32_t id)
{
	for (struct job *j = jobs; j < jobs + PROTOCOL_JOBS; j++)
		if (j->pid && j->id == id)
			return j->pid;
	return 0;
}

static struct failure failure(uint32_t stage, long error, uint32_t detail)
{
	return (struct failure){ stage, (uint32_t)-error, detail };
}

static uint64_t us(struct __kernel_old_timeval t)
{
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_usec;
}

static void close_if(int *fd)
{
	if (*fd >= 0)
		sys(__NR_close, *fd);
	*fd = -1;
}

/* The slot is free, and nothing of the job's is left in PID 1. */
static void forget(struct job *j)
{
	close_if(&j->status);
	close_if(&j->terminal);
	j->pid = 0;
}

/* Of a killed process, or one that is about to end. */
static int reap_main(const struct job *j, struct rusage *ru)
{
	int status = 0;
	long r;

	do
		r = sys(__NR_wait4, j->pid, &status, __WALL, ru);
	while (r == -EINTR);
	must(STAGE_WAIT, r);
	return status;
}

/* The job never ran, and its process, if there was one, is reaped. */
static void give_up(struct job *j, struct failure f, int status)
{
	struct report r = {
		.type = REPORT_FAILED, .job = j->id, .pid = (uint32_t)j->pid, .status = status,
		.stage = (uint16_t)f.stage, .error = (int32_t)f.error, .detail = f.detail,
	};

	forget(j);
	report_send(&r);
	if (once && !j->seed)
		die(1);
}

/* What there is of a job that can't run is killed; the others go on. */
static void job_failed(struct job *j, struct failure f)
{
	if (j->pid) {
		sys(__NR_kill, j->pid, SIGKILL);
		reap_main(j, NULL);
	}
	give_up(j, f, 0);
}

void jobs_refuse(uint32_t id, struct failure f)
{
	job_failed(&(struct job){ .id = id, .status = -1, .terminal = -1 }, f);
}

/* One write, as the kernel demands for maps. */
static long write_proc(int pid, const char *name, const void *text, uint32_t n)
{
	char path[64];
	long fd, r;

	proc_path(path, (uint32_t)pid, name);
	fd = sys(__NR_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return fd;
	r = sys(__NR_write, fd, text, n);
	sys(__NR_close, fd);
	if (r < 0)
		return r;
	return r == (long)n ? 0 : -EIO;
}

static struct failure move_to_cgroups(int pid, const struct payload *p, const int *files)
{
	char path[64], *text = path + 6, *end = text;

	/* The pid as this namespace numbers it: "/proc/N/" without the rest. The
	 * kernel translates for the writer, and checks the rights of the opener. */
	proc_path(path, (uint32_t)pid, "");
	while (*end != '/')
		end++;
	for (uint32_t i = 0; i < p->nprocs; i++) {
		long r = sys(__NR_write, files[p->procs[i]], text, end - text);
		if (r < 0)
			return failure(STAGE_CGROUP, r, i);
	}
	return failure(STAGE_NONE, 0, 0);
}

/* The launcher alone gets the master. PID 1 keeps the slave to the job's end: without
 * it the launcher would read EIO, and give up the job's output, whenever the job has
 * closed its last descriptor and may still open /dev/tty again. */
static long make_terminal(struct job *j, const struct payload *p)
{
	struct report r = { .type = REPORT_TERMINAL, .job = j->id };
	int master = -1;
	long slave, sent;

	if (!p->cols)
		return 0;
	slave = terminal_open(p->cols, p->rows, &master);
	if (slave < 0)
		return slave;
	j->terminal = (int)slave;
	sent = report_send_with(&r, master);
	sys(__NR_close, master);
	return sent;
}

/* In the child: PID 1's ends are no job's. Held here, a copy of one would hide PID
 * 1's death, or the hang-up of another job's terminal. */
static void drop_all(int own)
{
	sys(__NR_close, own);
	sys(__NR_close, FD_CONTROL);
	sys(__NR_close, signals_fd);
	for (struct job *j = jobs; j < jobs + PROTOCOL_JOBS; j++) {
		if (!j->pid)
			continue;
		close_if(&j->status);
		close_if(&j->terminal);
	}
}

static struct failure clone_job(struct job *j, const struct payload *p, char **argv, const int *files)
{
	struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	struct rusage before = { 0 };
	int pair[2];
	long r;

	if (p->flags & FLAG_NEWCGROUP)
		args.flags |= CLONE_NEWCGROUP;
	if (p->flags & FLAG_INTO_CGROUP) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)files[p->cgroup_dir];
	}
	r = sys(__NR_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
	if (r < 0)
		return failure(STAGE_PAIR, r, 0);
	sys(__NR_getrusage, RUSAGE_CHILDREN, &before);
	j->utime_us = us(before.ru_utime);
	j->stime_us = us(before.ru_stime);
	r = sys(__NR_clone3, &args, sizeof args);
	if (r == 0) {
		drop_all(pair[0]);
		job_run(p, argv, argv + p->nargs + 1, pair[1], j->terminal, files);
	}
	sys(__NR_close, pair[1]);
	j->status = pair[0];
	if (r < 0)
		return failure(STAGE_CLONE, r, 0);
	j->pid = (int)r;
	return failure(STAGE_NONE, 0, 0);
}

/* The child waits until it has its ids and its cgroups. */
static struct failure release(struct job *j, const struct payload *p, const int *files)
{
	struct failure f;
	long r = write_proc(j->pid, "uid_map", p->uidmap.p, p->uidmap.n);

	if (r < 0)
		return failure(STAGE_UIDMAP, r, 0);
	if (p->flags & FLAG_SETGROUPS_DENY) {
		r = write_proc(j->pid, "setgroups", "deny", 4);
		if (r < 0)
			return failure(STAGE_SETGROUPS, r, 0);
	}
	r = write_proc(j->pid, "gid_map", p->gidmap.p, p->gidmap.n);
	if (r < 0)
		return failure(STAGE_GIDMAP, r, 0);
	f = move_to_cgroups(j->pid, p, files);
	if (f.stage)
		return f;
	r = sys(__NR_sendto, j->status, "g", 1, MSG_NOSIGNAL, NULL, 0);
	if (r < 0 && r != -EPIPE && r != -ECONNRESET) /* died already: settle will say so */
		return failure(STAGE_RELEASE, r, 0);
	return failure(STAGE_NONE, 0, 0);
}

static struct failure start(struct job *j, const struct order *o)
{
	static struct payload p;
	struct failure f;
	uint32_t bad = 0;
	uint64_t size;
	long r;

	if (payload_parse(&p, o->body, o->nbody, &bad))
		return failure(STAGE_PAYLOAD, -EBADMSG, bad);
	j->seed = !!(p.flags & FLAG_SEED);
	/* PID 1's profile holds PID 1's rights: never the job's by itself. */
	if (!confined != !p.stack)
		return failure(STAGE_PAYLOAD, -EBADMSG, o->nbody);
	if (o->nfiles != p.nfiles)
		return failure(STAGE_FILES, -EBADMSG, o->nfiles);
	r = make_terminal(j, &p);
	if (r < 0)
		return failure(STAGE_TERMINAL, r, 0);
	size = ((uint64_t)p.nargs + p.nenv + 2) * sizeof(char *);
	r = sys(__NR_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r < 0 && r > -4096)
		return failure(STAGE_PAYLOAD, r, 0);
	char **argv = (char **)r;
	payload_vectors(o->body, o->nbody, argv, argv + p.nargs + 1);
	f = clone_job(j, &p, argv, o->files);
	if (!f.stage)
		f = release(j, &p, o->files);
	sys(__NR_munmap, argv, size);
	return f;
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

/* What the jail holds besides: whose it was can't be told while other jobs live. */
static uint32_t leftover(void)
{
	if (living())
		return LEFTOVER_UNKNOWN;
	/* Bounded: orphans of a fork storm may come faster than they are reaped. */
	for (int i = 0; i < WAIT_ALL_MAX; i++)
		if (sys(__NR_wait4, -1, NULL, WNOHANG | __WALL, NULL) <= 0)
			break;
	return proc_living();
}

/* The main process is reaped. Its own usage is in ru (with that of the children it
 * waited for); RUSAGE_CHILDREN has all that PID 1 ever reaped. */
static void job_exited(struct job *j, int status, const struct rusage *ru)
{
	struct report r = {
		.type = REPORT_EXITED,
		.job = j->id,
		.pid = (uint32_t)j->pid,
		.status = status,
		.utime_us = us(ru->ru_utime),
		.stime_us = us(ru->ru_stime),
		.maxrss_kb = (uint64_t)ru->ru_maxrss,
	};
	struct rusage all = { 0 };

	forget(j);
	r.leftover = leftover();
	if (sys(__NR_getrusage, RUSAGE_CHILDREN, &all) == 0) {
		r.children_utime_us = us(all.ru_utime) - j->utime_us;
		r.children_stime_us = us(all.ru_stime) - j->stime_us;
		r.children_maxrss_kb = (uint64_t)all.ru_maxrss;
	}
	measure_space(&r);
	report_send(&r);
	if (once && !j->seed)
		die(0); /* the kernel kills the rest */
}

/* A seed executes nothing: it has done its work if it ended with 0. */
static void reap_job(struct job *j)
{
	struct rusage ru = { 0 };
	int status = reap_main(j, &ru);

	if (j->status < 0 || (j->seed && status == 0))
		job_exited(j, status, &ru);
	else
		give_up(j, failure(STAGE_DIED, -ECHILD, 0), status);
}

void jobs_exec(const struct order *o)
{
	struct job j = { .id = o->job, .status = -1, .terminal = -1 }, *slot = jobs;
	struct failure f = start(&j, o);

	/* Killed by another job: nothing can be written for it any more (EACCES, ESRCH). */
	if (f.stage && j.pid && proc_exiting((uint32_t)j.pid) == 1) {
		reap_job(&j);
		return;
	}
	if (f.stage) {
		job_failed(&j, f);
		return;
	}
	while (slot->pid)
		slot++;
	*slot = j;
}

/* The job's process speaks only to say why it failed; its end of the socket closes
 * by the exec, or by a death before it (killed, out of memory, by its own filter).
 * Only the kernel can tell the two apart. Of a zombie the socket is closed already:
 * a process's descriptors go before its parent learns of its end. */
static void settle(struct job *j, int zombie)
{
	struct failure f;
	long r = sys(__NR_recvfrom, j->status, &f, sizeof f, MSG_DONTWAIT, NULL, NULL);

	if ((r == -EAGAIN || r == -EINTR) && !zombie)
		return;
	if (r > 0) {
		job_failed(j, r == sizeof f ? f : failure(STAGE_RELEASE, -EPROTO, 0));
		return;
	}
	/* r < 0, ECONNRESET: it died with the release unread. */
	if (j->seed || r < 0 || proc_executed((uint32_t)j->pid) != 1) {
		if (!j->seed)
			sys(__NR_kill, j->pid, SIGKILL);
		reap_job(j);
		return;
	}
	close_if(&j->status);
	report_send(&(struct report){ .type = REPORT_STARTED, .job = j->id, .pid = (uint32_t)j->pid });
}

uint32_t jobs_poll(struct pollfd *p)
{
	uint32_t n = 0;

	for (struct job *j = jobs; j < jobs + PROTOCOL_JOBS; j++)
		if (j->pid && j->status >= 0)
			p[n++] = (struct pollfd){ j->status, POLLIN, 0 };
	return n;
}

void jobs_settle(const struct pollfd *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		for (struct job *j = jobs; p[i].revents && j < jobs + PROTOCOL_JOBS; j++)
			if (j->pid && j->status == p[i].fd) {
				settle(j, 0);
				break;
			}
}

/* A main process is an older child of PID 1 than any orphan that comes after it, so
 * a storm of them can't keep it waiting. */
int jobs_reap(void)
{
	int n = 0;

	for (; n < WAIT_ROUND; n++) {
		siginfo_t info = { 0 };
		struct job *j;
		long r = sys(__NR_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL, NULL);

		if (r == -ECHILD && !living()) /* the main process of a job can't be gone */
			break;
		must(STAGE_WAIT, r);
		if (!info.si_pid)
			break;
		j = by_pid(info.si_pid);
		if (j && j->status >= 0)
			settle(j, 1);
		else if (j)
			reap_job(j);
		else
			must(STAGE_WAIT, sys(__NR_wait4, info.si_pid, NULL, WNOHANG | __WALL, NULL));
	}
	return n;
}
