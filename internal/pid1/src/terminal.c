/* terminal.c: a terminal of the jail's own. The caller's is never handed in: whoever
 * holds it can type into it (TIOCSTI, CVE-2017-5226 in bubblewrap), and nothing but
 * a filter stands before that. This one is a pair in a devpts instance that belongs
 * to the jail, so that no name in it leads to a terminal of the host. */
#include "terminal.h"
#include "sys.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <linux/fcntl.h>

#define PTMX "/dev/pts/ptmx"

/* As <asm/termios.h> has them, which can't be included beside termbits.h. */
struct size { unsigned short rows, cols, xpixel, ypixel; };

static long set_up(int master, uint32_t cols, uint32_t rows)
{
	struct size size = { (unsigned short)rows, (unsigned short)cols, 0, 0 };
	struct termios mode;
	int locked = 0;
	long r;

	/* Else the first program would see 0 x 0. */
	r = sys(__NR_ioctl, master, TIOCSWINSZ, &size);
	if (r == 0)
		r = sys(__NR_ioctl, master, TCGETS, &mode);
	if (r < 0)
		return r;
	mode.c_iflag |= IUTF8; /* the jail's LANG: erase a character, not a byte */
	r = sys(__NR_ioctl, master, TCSETS, &mode);
	if (r == 0)
		r = sys(__NR_ioctl, master, TIOCSPTLCK, &locked);
	return r;
}

long terminal_open(uint32_t cols, uint32_t rows, int *master)
{
	long r, m = sys(__NR_openat, AT_FDCWD, PTMX, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (m < 0)
		return m;
	r = set_up((int)m, cols, rows);
	/* By the master, not by a name that has to be the right one (CVE-2025-52565). */
	if (r == 0)
		r = sys(__NR_ioctl, m, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (r < 0)
		sys(__NR_close, m);
	else
		*master = (int)m;
	return r;
}

long terminal_take(int slave)
{
	long r = sys(__NR_ioctl, slave, TIOCSCTTY, 0);

	/* PID 1 keeps 0-2 taken, so the slave is none of them. */
	for (int fd = 0; fd < 3 && r >= 0; fd++)
		r = sys(__NR_dup3, slave, fd, 0);
	return r < 0 ? r : 0;
}
