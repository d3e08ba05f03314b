/* landlock.c: a ruleset of the files that may be executed. The kernel asks it for each
 * execve, of the interpreters that #! and an ELF header name too, whatever name or
 * descriptor leads there; not for what a program maps by itself, which mounts with noexec
 * are for. */
#include "landlock.h"
#include "sys.h"

#include <linux/fcntl.h>

#define ACCESS_FS_EXECUTE 1
#define RULE_PATH_BENEATH 1
#define CREATE_RULESET_VERSION 1
#define SCOPE_ABSTRACT_UNIX_SOCKET 1
#define SCOPE_SIGNAL 2
#define ABI_SCOPE 6

/* The kernel's structures; older headers lack the later members. */
struct ruleset {
	uint64_t fs, net, scoped;
};

struct path_beneath {
	uint64_t access;
	int32_t parent;
} __attribute__((packed));

long landlock_executables(const char *const *paths, uint32_t n, uint32_t *which)
{
	struct ruleset r = { ACCESS_FS_EXECUTE, 0, 0 };
	unsigned long size = sizeof r.fs;
	long abi, set, fd, err;

	*which = n;
	abi = sys(__NR_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
	if (abi < 0)
		return abi;
	if (abi >= ABI_SCOPE) {
		r.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
		size = sizeof r;
	}
	set = sys(__NR_landlock_create_ruleset, &r, size, 0);
	if (set < 0)
		return set;
	for (uint32_t i = 0; i < n; i++) {
		struct path_beneath rule = { ACCESS_FS_EXECUTE, 0 };

		*which = i;
		fd = sys(__NR_openat, AT_FDCWD, paths[i], O_PATH | O_CLOEXEC);
		if (fd < 0)
			return fd;
		rule.parent = (int32_t)fd;
		err = sys(__NR_landlock_add_rule, set, RULE_PATH_BENEATH, &rule, 0);
		sys(__NR_close, fd);
		if (err < 0)
			return err;
	}
	*which = n;
	err = sys(__NR_landlock_restrict_self, set, 0);
	sys(__NR_close, set);
	return err;
}
