package policy

import (
	"fmt"

	"github.com/jailer-project/jailer/limits"
)

const (
	// minMemory is the least that a jail is started with: below it not even a
	// small static program gets to its first instruction, and the kill for
	// memory would look like the program's own fault.
	minMemory = 1 << 20

	// minTmpfs is one page: tmpfs rounds sizes to pages, and reads a size of 0
	// as "no limit" (tmpfs(5)), so no size may ever come out as 0.
	minTmpfs = 4096
)

// fitTmpfs makes the workspace and the TmpMounts small ones fit into half of the
// memory limit, to which the kernel charges what is in them. Sizes that were
// given stay, the others shrink in proportion. It returns what is wrong when the
// given ones don't fit.
func fitTmpfs(l *limits.Limits, given limits.Limits) string {
	half := l.Memory / 2
	room := half // for what was not given
	if given.Workspace != 0 {
		room -= min(given.Workspace, half+1)
	}
	if given.TmpSize != 0 {
		// Division in place of a product that may overflow.
		if given.TmpSize > half/limits.TmpMounts {
			room = -1
		} else {
			room -= limits.TmpMounts * given.TmpSize
		}
	}
	need := int64(0)
	if given.Workspace == 0 {
		need += minTmpfs
	}
	if given.TmpSize == 0 {
		need += limits.TmpMounts * minTmpfs
	}
	if room < need {
		return fmt.Sprintf("workspace and %d × tmp_size must fit into half of memory (%s of %s); give a larger memory or smaller sizes",
			limits.TmpMounts, limits.FormatSize(half), limits.FormatSize(l.Memory))
	}
	switch {
	case given.Workspace == 0 && given.TmpSize == 0:
		shrinkBoth(l, room)
	case given.Workspace == 0:
		l.Workspace = pages(min(l.Workspace, room))
	case given.TmpSize == 0:
		l.TmpSize = pages(min(l.TmpSize, room/limits.TmpMounts))
	}
	return ""
}

// fitTmp is fitTmpfs where the workspace is no tmpfs.
func fitTmp(l *limits.Limits, given limits.Limits) string {
	each := l.Memory / 2 / limits.TmpMounts
	if given.TmpSize > each {
		return fmt.Sprintf("%d × tmp_size must fit into half of memory (%s of %s); give a larger memory or a smaller size",
			limits.TmpMounts, limits.FormatSize(l.Memory/2), limits.FormatSize(l.Memory))
	}
	if given.TmpSize == 0 {
		l.TmpSize = pages(min(l.TmpSize, each))
	}
	return ""
}

// shrinkBoth keeps the proportion of the two sizes.
func shrinkBoth(l *limits.Limits, room int64) {
	w, t := float64(l.Workspace), float64(l.TmpSize)
	sum := w + limits.TmpMounts*t
	if sum <= float64(room) {
		l.Workspace, l.TmpSize = pages(l.Workspace), pages(l.TmpSize)
		return
	}
	// A page less each makes up for any rounding.
	share := float64(room) / sum
	tmp := pages(int64(t*share) - minTmpfs)
	l.TmpSize = min(tmp, pages(room/limits.TmpMounts))
	l.Workspace = pages(min(int64(w*share), room-limits.TmpMounts*l.TmpSize))
}

// pages rounds down to whole pages, at least one.
func pages(n int64) int64 { return max(minTmpfs, n/minTmpfs*minTmpfs) }
