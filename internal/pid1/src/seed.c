/* seed.c: the files that a job is to find. They are made with the job's ids, without
 * a capability, under its filter and profile: a seed can reach nothing that the job
 * itself couldn't. Other jobs may be changing the tree meanwhile, so no link is ever
 * followed, and a file is always a new one. */
#include "seed.h"
#include "mem.h"
#include "protocol.h"
#include "sys.h"

#include <asm/errno.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>

#define SIG_IGN 1ul

struct frame {
	uint32_t type, mode, path, zero;
	uint64_t size;
};
_Static_assert(sizeof(struct frame) == SEED_HEADER, "frame");

static unsigned char buffer[32768];
static uint32_t at, have;

/* More of the stream: 0, or a negative errno. */
static long fill(void)
{
	long r;

	do
		r = sys(__NR_read, 0, buffer, sizeof buffer);
	while (r == -EINTR);
	if (r <= 0)
		return r < 0 ? r : -EPROTO;
	at = 0;
	have = (uint32_t)r;
	return 0;
}

static long take(void *to, uint32_t n)
{
	unsigned char *p = to;

	while (n) {
		uint32_t part = have - at;
		long r;

		if (!part) {
			r = fill();
			if (r < 0)
				return r;
			continue;
		}
		if (part > n)
			part = n;
		memcpy(p, buffer + at, part);
		at += part;
		p += part;
		n -= part;
	}
	return 0;
}

/* Absolute, and of plain names: none is empty, "." or "..". n counts the NUL. */
static int is_path(const char *p, uint32_t n)
{
	uint32_t name = 0; /* its length so far */

	if (n < 3 || p[0] != '/' || p[n - 1])
		return 0;
	for (uint32_t i = 1; i < n; i++) {
		if (!p[i] && i != n - 1)
			return 0;
		if (p[i] && p[i] != '/') {
			name++;
			continue;
		}
		if (name == 0 || (name == 1 && p[i - 1] == '.') ||
		    (name == 2 && p[i - 1] == '.' && p[i - 2] == '.'))
			return 0;
		name = 0;
	}
	return 1;
}

static long open_at(long dir, const char *path, uint64_t flags, uint64_t mode)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC,
		.mode = mode,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	return sys(__NR_openat2, dir, path, &how, sizeof how);
}

/* mkdir follows links on its way; openat2 doesn't. So the parent is opened first. */
static long make_directory(char *path, uint32_t mode)
{
	char *name = path + strlen(path);
	long dir, r;

	while (name[-1] != '/')
		name--;
	if (name == path + 1) {
		dir = open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
	} else {
		name[-1] = 0;
		dir = open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0);
	}
	if (dir < 0)
		return dir;
	r = sys(__NR_mkdirat, dir, name, mode);
	if (r == -EEXIST) { /* fine if it is a directory, and no link to one */
		r = open_at(dir, name, O_PATH | O_DIRECTORY, 0);
		if (r >= 0)
			sys(__NR_close, r);
	}
	sys(__NR_close, dir);
	return r < 0 ? r : 0;
}

static long write_all(long fd, const unsigned char *p, uint32_t n)
{
	while (n) {
		long r = sys(__NR_write, fd, p, n);
		if (r == -EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? r : -EIO;
		p += r;
		n -= (uint32_t)r;
	}
	return 0;
}

static long copy(long fd, uint64_t size)
{
	long r = 0;

	while (size && r == 0) {
		uint32_t part = have - at;

		if (!part) {
			r = fill();
			continue;
		}
		if (part > size)
			part = (uint32_t)size;
		r = write_all(fd, buffer + at, part);
		at += part;
		size -= part;
	}
	return r;
}

static long make_file(const char *path, uint32_t mode, uint64_t size)
{
	long closed, r, fd = open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);

	if (fd < 0)
		return fd;
	r = copy(fd, size);
	closed = sys(__NR_close, fd); /* some file systems say only now that it is full */
	return r < 0 ? r : closed;
}

/* One frame: 1 if it was the last. */
static long make_one(void)
{
	static char path[SEED_PATH_MAX];
	struct frame f;
	long r = take(&f, sizeof f);

	if (r < 0)
		return r;
	if (f.type == SEED_END) /* and nothing behind it */
		return f.mode || f.path || f.zero || f.size || at != have ? -EBADMSG : 1;
	if (f.type != SEED_DIR && f.type != SEED_FILE)
		return -EBADMSG;
	if (f.mode > 0777 || f.path > sizeof path || f.zero || (f.type == SEED_DIR && f.size))
		return -EBADMSG;
	r = take(path, f.path);
	if (r < 0)
		return r;
	if (!is_path(path, f.path))
		return -EBADMSG;
	return f.type == SEED_DIR ? make_directory(path, f.mode) : make_file(path, f.mode, f.size);
}

long seed_make(uint32_t *frame)
{
	struct { unsigned long head[3]; uint64_t mask; } ignore = { { SIG_IGN, 0, 0 }, 0 };
	long r;

	/* Over RLIMIT_FSIZE the kernel would kill it before it could say so. */
	r = sys(__NR_rt_sigaction, SIGXFSZ, &ignore, NULL, 8);
	if (r < 0)
		return r;
	sys(__NR_umask, 0);
	for (*frame = 0; (r = make_one()) == 0; ++*frame)
		;
	return r < 0 ? r : 0;
}
