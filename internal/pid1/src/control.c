/* control.c: the launcher's orders. It is trusted, and sends each at once, so the body
 * of an EXEC is waited for. What it says wrongly about one job is that job's failure;
 * what is no order at all is the end of PID 1: the two no longer agree about the
 * stream. */
#include "control.h"
#include "jobs.h"
#include "mem.h"
#include "protocol.h"
#include "report.h"
#include "socket.h"
#include "sys.h"

#include <asm/errno.h>
#include <linux/mman.h>

#define MAX_FILES (3 + 1 + MAX_PROCS)

/* Descriptors that came with the order at hand, close-on-exec. */
static int files[MAX_FILES];
static uint32_t nfiles;
static int cut; /* more came than an order can have, or than could be opened */

static void drop_files(void)
{
	while (nfiles)
		sys(__NR_close, files[--nfiles]);
	cut = 0;
}

/* recvmsg: bytes, 0 at the end of the stream, or a negative errno. */
static long receive(void *to, uint32_t n, unsigned flags)
{
	struct bytes_at data = { to, n };
	struct { struct rights head; int fd[MAX_FILES]; } c = { 0 };
	struct message m = { .data = &data, .ndata = 1, .control = &c, .ncontrol = sizeof c };
	long r = sys(__NR_recvmsg, FD_CONTROL, &m, flags | MSG_CMSG_CLOEXEC);

	if (r < 0)
		return r;
	if (m.flags & MSG_CTRUNC)
		cut = 1;
	if (m.ncontrol < sizeof c.head || c.head.level != SOL_SOCKET || c.head.type != SCM_RIGHTS)
		return r;
	for (size_t i = 0; i < (c.head.len - sizeof c.head) / sizeof(int); i++) {
		if (nfiles < MAX_FILES) {
			files[nfiles++] = c.fd[i];
		} else {
			sys(__NR_close, c.fd[i]);
			cut = 1;
		}
	}
	return r;
}

/* 0, or a negative errno; EPROTO if the stream ends early. */
static long read_full(unsigned char *p, uint32_t n)
{
	while (n) {
		long r = receive(p, n, 0);
		if (r == -EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? r : -EPROTO;
		p += r;
		n -= (uint32_t)r;
	}
	return 0;
}

uint32_t control_setup(unsigned char *body)
{
	uint32_t head[3];

	must(STAGE_PAYLOAD, read_full((unsigned char *)head, PROTOCOL_HEADER));
	if (head[0] != PROTOCOL_MAGIC)
		fail(STAGE_PAYLOAD, -EBADMSG, 0);
	if (head[1] != PROTOCOL_VERSION)
		fail(STAGE_PAYLOAD, -EPROTONOSUPPORT, 0);
	if (head[2] > PROTOCOL_SETUP_MAX)
		fail(STAGE_PAYLOAD, -EMSGSIZE, 0);
	must(STAGE_PAYLOAD, read_full(body, head[2]));
	if (nfiles || cut)
		fail(STAGE_FILES, -EBADMSG, nfiles);
	return head[2];
}

/* The payload is read to its end even if there is no job for it: an order follows. */
static void skip(uint32_t n)
{
	unsigned char some[1024];

	while (n) {
		uint32_t part = n < sizeof some ? n : sizeof some;
		must(STAGE_PAYLOAD, read_full(some, part));
		n -= part;
	}
}

static void refuse(uint32_t job, uint32_t n, uint32_t stage, long error)
{
	skip(n);
	jobs_refuse(job, (struct failure){ stage, (uint32_t)-error, 0 });
}

static void exec(uint32_t job, uint32_t n)
{
	long body;

	/* A failure would pass for that of the job that has the number. */
	if (!job || jobs_pid(job))
		fail(STAGE_CONTROL, -EPROTO, job);
	if (n > PROTOCOL_BODY_MAX) {
		refuse(job, n, STAGE_PAYLOAD, -EMSGSIZE);
		return;
	}
	if (jobs_full()) {
		refuse(job, n, STAGE_JOBS, -EAGAIN);
		return;
	}
	body = sys(__NR_mmap, NULL, (uint64_t)n + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (body < 0 && body > -4096) {
		refuse(job, n, STAGE_PAYLOAD, body);
		return;
	}
	must(STAGE_PAYLOAD, read_full((unsigned char *)body, n));
	if (cut)
		jobs_refuse(job, (struct failure){ STAGE_FILES, EBADMSG, nfiles });
	else
		jobs_exec(&(struct order){ job, (unsigned char *)body, n, files, nfiles });
	/* The environment may hold secrets, and nothing of it is needed any more. */
	sys(__NR_munmap, body, (uint64_t)n + 1);
}

static void follow(uint32_t kind, uint32_t job, uint32_t arg)
{
	if (kind == CONTROL_EXEC) {
		exec(job, arg);
		/* The launcher waits for the end of the job's output, and a directory of a
		 * cgroup is a way out (openat(fd, "../..")): none is held any longer. */
		drop_files();
		return;
	}
	if (nfiles || cut)
		fail(STAGE_FILES, -EBADMSG, nfiles);
	if ((kind == CONTROL_SIGNAL || kind == CONTROL_SIGNAL_GROUP) && job && arg >= 1 && arg <= 64) {
		int pid = jobs_pid(job);
		if (pid)
			sys(__NR_kill, kind == CONTROL_SIGNAL ? pid : -pid, arg);
		return;
	}
	if (kind == CONTROL_KILL && !job && !arg) {
		/* All in the namespace but PID 1. A fork under way sees the signal
		 * pending and fails, so nothing slips through. */
		sys(__NR_kill, -1, SIGKILL);
		return;
	}
	fail(STAGE_CONTROL, -EPROTO, 0);
}

void control_obey(void)
{
	static unsigned char order[PROTOCOL_CONTROL];
	static uint32_t have;
	uint32_t word[3];
	long r = receive(order + have, sizeof order - have, MSG_DONTWAIT);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r <= 0)
		die(1);
	have += (uint32_t)r;
	if (have < sizeof order)
		return;
	have = 0;
	memcpy(word, order, sizeof word);
	follow(word[0], word[1], word[2]);
}
