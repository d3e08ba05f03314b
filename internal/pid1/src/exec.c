/* exec.c: finding the program. It runs in the job's process with the filter on, so
 * that the search sees exactly what the job would. Unlike execvp(3), a file in an
 * unknown format is an error, not a script for /bin/sh. */
#include "exec.h"
#include "mem.h"
#include "protocol.h"
#include "sys.h"

#include <asm/errno.h>
#include <linux/fcntl.h>

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

static const char *path_of(char **envp)
{
	for (; *envp; envp++) {
		const char *e = *envp;
		if (e[0] == 'P' && e[1] == 'A' && e[2] == 'T' && e[3] == 'H' && e[4] == '=')
			return e + 5;
	}
	return DEFAULT_PATH;
}

/* execve gives ENOENT both for a file that is missing and for one whose "#!" or
 * ELF interpreter is: ask whether the file itself is there. */
static long try(const char *file, char **argv, char **envp, uint32_t *detail)
{
	long r = sys(__NR_execve, file, argv, envp);

	if (r == -ENOENT && sys(__NR_faccessat, AT_FDCWD, file, 0 /* F_OK */) == 0)
		*detail = DETAIL_INTERPRETER;
	return r;
}

static int has_slash(const char *s)
{
	for (; *s; s++)
		if (*s == '/')
			return 1;
	return 0;
}

long exec_search(char **argv, char **envp, uint32_t *detail)
{
	const char *name = argv[0], *path = path_of(envp);
	size_t len = strlen(name);
	long denied = -ENOENT;
	char file[4096];

	if (len == 0)
		return -ENOENT;
	if (has_slash(name))
		return try(name, argv, envp, detail);
	if (len > 255)
		return -ENAMETOOLONG;
	for (;;) {
		size_t dir = 0;
		while (path[dir] && path[dir] != ':')
			dir++;
		/* An empty element is the working directory (POSIX). */
		if (dir + 1 + len + 1 <= sizeof file) {
			memcpy(file, dir ? path : ".", dir ? dir : 1);
			size_t at = dir ? dir : 1;
			file[at++] = '/';
			memcpy(file + at, name, len + 1);
			long r = try(file, argv, envp, detail);
			if (r == -EACCES)
				denied = r; /* another directory may have it */
			else if (r != -ENOENT && r != -ENOTDIR)
				return r;
		}
		if (!path[dir])
			break;
		path += dir + 1;
	}
	if (denied != -ENOENT)
		*detail = 0;
	return denied;
}
