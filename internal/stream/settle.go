package stream

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// settleLook is the time between two looks at a pipe that nobody should write to any
// more.
const settleLook = 5 * time.Millisecond

// Settle is Wait for a stream whose writers are gone, where a stranger may hold the
// other end: a process of another command in the same jail, which was sent it. What
// was written is read. Then an empty pipe is the end, and so is more than a pipe and
// our own buffer can have held, which somebody else has written since.
func (c *Capture) Settle(ctx context.Context) error {
	const most = 1<<20 + 2*chunk // /proc/sys/fs/pipe-max-size, for those without privileges
	began, empty := c.Total(), 0
	look := time.NewTicker(settleLook)
	defer look.Stop()
	for empty < 3 && c.Total() <= began+most {
		select {
		case <-c.done:
			return c.outErr
		case <-ctx.Done():
			return c.Wait(ctx)
		case <-look.C:
		}
		if c.pending() == 0 {
			empty++
		} else {
			empty = 0
		}
	}
	c.r.Close()
	return c.Wait(ctx)
}

// pending is the number of bytes that wait to be read. FIONREAD is TIOCINQ by another name.
func (c *Capture) pending() (n int) {
	raw, err := c.r.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n
}
