/* apparmor.c: the kernel may ignore a profile (AppArmor off, another LSM answering
 * for attr/current), so what it did is read back. attr/apparmor is AppArmor's alone
 * (since Linux 5.8). */
#include "apparmor.h"
#include "mem.h"
#include "payload.h"
#include "sys.h"

#include <asm/errno.h>
#include <linux/fcntl.h>

#define CURRENT "/proc/thread-self/attr/apparmor/current"

long apparmor_is(const char *label)
{
	char have[MAX_LABEL + 2]; /* a line end, and one byte that would be too much */
	size_t len = strlen(label);
	long n, fd = sys(__NR_openat, AT_FDCWD, CURRENT, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return fd;
	n = sys(__NR_read, fd, have, sizeof have);
	sys(__NR_close, fd);
	if (n < 0)
		return n;
	if (n > 0 && have[n - 1] == '\n')
		n--;
	if ((size_t)n != len)
		return -EPERM;
	for (size_t i = 0; i < len; i++)
		if (have[i] != label[i])
			return -EPERM;
	return 0;
}

long apparmor_stack(const char *profile)
{
	char order[6 + MAX_LABEL] = "stack ";
	size_t len = strlen(profile);
	long n, fd = sys(__NR_openat, AT_FDCWD, CURRENT, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return fd;
	memcpy(order + 6, profile, len); /* MAX_LABEL at most with its NUL */
	n = sys(__NR_write, fd, order, 6 + len);
	sys(__NR_close, fd);
	if (n < 0)
		return n;
	return (size_t)n == 6 + len ? 0 : -EIO;
}
