/* proc.c: /proc, read with care for names that the job chooses: the second field
 * of stat may hold blanks and brackets, so parsing starts behind the last ')'. */
#include "proc.h"
#include "mem.h"
#include "protocol.h"
#include "sys.h"

#include <asm/errno.h>
#include <linux/fcntl.h>

/* include/linux/sched.h: "forked but didn't exec"; cleared past the point of no
 * return of execve. Shown in field 9 of /proc/PID/stat, for zombies too. */
#define PF_FORKNOEXEC 0x40
/* "getting shut down": set before anything of the process is taken apart. */
#define PF_EXITING 0x4

/* A storm of forks must not keep PID 1 counting. */
#define COUNT_MAX 65536

struct dirent64 {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

void proc_path(char *buf, uint32_t pid, const char *name)
{
	char digits[10];
	int n = 0;

	memcpy(buf, "/proc/", 6);
	buf += 6;
	do
		digits[n++] = (char)('0' + pid % 10);
	while (pid /= 10);
	while (n)
		*buf++ = digits[--n];
	*buf++ = '/';
	memcpy(buf, name, strlen(name) + 1);
}

/* The text behind the command's name, "S 1 2 …", or NULL. buf: 1024 bytes, more
 * than pid, name (64 at most) and the fields that are used. */
static const char *stat_fields(uint32_t pid, char *buf, long *error)
{
	char path[64];
	const char *end = NULL;
	long fd, n;

	proc_path(path, pid, "stat");
	fd = sys(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		*error = fd;
		return NULL;
	}
	n = sys(__NR_read, fd, buf, 1023);
	sys(__NR_close, fd);
	if (n < 0) {
		*error = n;
		return NULL;
	}
	buf[n] = 0;
	for (long i = 0; i < n; i++)
		if (buf[i] == ')')
			end = buf + i;
	*error = -EIO;
	return end && end[1] == ' ' && end[2] ? end + 2 : NULL;
}

/* The kernel's flags of a process, or a negative errno. */
static int64_t flags_of(uint32_t pid)
{
	char buf[1024];
	int64_t flags = 0;
	long error = 0;
	const char *s = stat_fields(pid, buf, &error);

	if (!s)
		return error;
	for (int blanks = 0; blanks < 6; s++) { /* state is field 3, flags 9 */
		if (!*s)
			return -EIO;
		if (*s == ' ')
			blanks++;
	}
	if (*s < '0' || *s > '9')
		return -EIO;
	for (; *s >= '0' && *s <= '9'; s++)
		flags = flags * 10 + (*s - '0');
	return flags;
}

int proc_executed(uint32_t pid)
{
	int64_t flags = flags_of(pid);

	return flags < 0 ? (int)flags : !(flags & PF_FORKNOEXEC);
}

int proc_exiting(uint32_t pid)
{
	int64_t flags = flags_of(pid);

	return flags < 0 ? (int)flags : !!(flags & PF_EXITING);
}

static uint32_t pid_of(const char *name)
{
	uint32_t pid = 0;

	for (; *name; name++) {
		if (*name < '0' || *name > '9' || pid > 100000000)
			return 0;
		pid = pid * 10 + (uint32_t)(*name - '0');
	}
	return pid;
}

/* A process whose first thread has ended shows as a zombie as long as others run;
 * field 20 counts them all. */
static int living(const char *s)
{
	uint32_t threads = 0;

	if (*s == 'X')
		return 0;
	if (*s != 'Z')
		return 1;
	for (int blanks = 0; blanks < 17; s++) {
		if (!*s)
			return 0;
		if (*s == ' ')
			blanks++;
	}
	for (; *s >= '0' && *s <= '9'; s++)
		threads = threads * 10 + (uint32_t)(*s - '0');
	return threads > 1;
}

uint32_t proc_living(void)
{
	static char entries[16384] __attribute__((aligned(8)));
	char buf[1024];
	uint32_t count = 0, seen = 0;
	long dir, n;

	dir = sys(__NR_openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return LEFTOVER_UNKNOWN;
	while ((n = sys(__NR_getdents64, dir, entries, sizeof entries)) > 0) {
		for (long off = 0; off < n;) {
			struct dirent64 *e = (struct dirent64 *)(entries + off);
			uint32_t pid = pid_of(e->name);
			long error;
			const char *s;

			off += e->len;
			if (pid < 2 || ++seen > COUNT_MAX)
				continue;
			s = stat_fields(pid, buf, &error);
			if (s && living(s))
				count++;
		}
		if (seen > COUNT_MAX)
			break;
	}
	sys(__NR_close, dir);
	return n < 0 ? LEFTOVER_UNKNOWN : count;
}
