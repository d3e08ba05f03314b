package workspace

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the kernel's headers say and x/sys doesn't: quotactl_fd(2), linux/quota.h,
// linux/dqblk_xfs.h, linux/fs.h.
const (
	prjquota  = 2
	qGetQuota = 0x800007
	qSetQuota = 0x800008
	qGetState = 'X'<<8 | 5
	enforced  = 1 << 5 // FS_QUOTA_PDQ_ENFD

	limitsValid = 1 | 4 // QIF_BLIMITS, QIF_ILIMITS
	blockSize   = 1024  // of a limit, QIF_DQBLKSIZE

	fsGetXattr  = 0x801c581f
	fsSetXattr  = 0x401c5820
	projInherit = 0x200
)

type dqblk struct { // struct if_dqblk
	hard, soft, space    uint64
	ihard, isoft, inodes uint64
	btime, itime         uint64
	valid                uint32
	_                    uint32
}

type fsxattr struct {
	flags, extsize, extents, project, cowextsize uint32
	_                                            [8]byte
}

func quotactl(f *os.File, cmd uint32, id uint32, p unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, f.Fd(), uintptr(cmd<<8|prjquota), uintptr(id), uintptr(p), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func ioctl(f *os.File, cmd uint, x *fsxattr) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), uintptr(cmd), uintptr(unsafe.Pointer(x)))
	if errno != 0 {
		return errno
	}
	return nil
}

// SetQuota has the kernel hold the quota, by a project quota of the file system (ext4
// and xfs, mounted with prjquota), and says whether it does. That takes real root. The
// project is the host id of the files, which no other workspace has. A workspace that
// had files before its file system had such quotas is not changed.
func (w *Workspace) SetQuota(q Quota) (bool, error) {
	if os.Geteuid() != 0 {
		return false, nil
	}
	dir, err := w.Open()
	if err != nil {
		return false, err
	}
	defer dir.Close()
	var state [256]byte // struct fs_quota_stat: version, a pad, and 16 bits of flags
	state[0] = 1        // FS_QSTAT_VERSION
	if quotactl(dir, qGetState, 0, unsafe.Pointer(&state)) != nil || *(*uint16)(unsafe.Pointer(&state[2]))&enforced == 0 {
		return false, nil
	}
	id := uint32(w.HostUID)
	if ok, err := setProject(dir, id); !ok || err != nil {
		return false, err
	}
	limit := dqblk{hard: uint64((q.Bytes + blockSize - 1) / blockSize), ihard: uint64(q.Inodes), valid: limitsValid}
	if err := quotactl(dir, qSetQuota, id, unsafe.Pointer(&limit)); err != nil {
		return false, noData(os.NewSyscallError("quotactl_fd", err))
	}
	// As with every limit: what holds is what can be read back.
	var got dqblk
	if err := quotactl(dir, qGetQuota, id, unsafe.Pointer(&got)); err != nil {
		return false, noData(os.NewSyscallError("quotactl_fd", err))
	}
	if got.hard != limit.hard || got.ihard != limit.ihard {
		return false, noData(fmt.Errorf("a project quota of %d KiB and %d inodes reads back as %d and %d", limit.hard, limit.ihard, got.hard, got.ihard))
	}
	return true, nil
}

// setProject gives an empty directory a project, which all that comes into it inherits.
// A jail can't change that: it takes the first user namespace.
func setProject(dir *os.File, id uint32) (bool, error) {
	var x fsxattr
	if err := ioctl(dir, fsGetXattr, &x); err != nil {
		return false, nil // no such file system
	}
	if x.project == id && x.flags&projInherit != 0 {
		return true, nil
	}
	if names, err := dir.Readdirnames(1); len(names) > 0 {
		return false, err
	}
	x.project, x.flags = id, x.flags|projInherit
	if err := ioctl(dir, fsSetXattr, &x); err != nil {
		return false, noData(os.NewSyscallError("ioctl", err))
	}
	return true, nil
}

// QuotaUsage is what the kernel counts against a quota that it holds, and whether that
// is used up: by less than a block, or all its inodes.
func (w *Workspace) QuotaUsage() (u Usage, full bool, err error) {
	dir, err := w.Open()
	if err != nil {
		return u, false, err
	}
	defer dir.Close()
	var got dqblk
	if err := quotactl(dir, qGetQuota, uint32(w.HostUID), unsafe.Pointer(&got)); err != nil {
		return u, false, os.NewSyscallError("quotactl_fd", err)
	}
	if got.hard == 0 {
		return u, false, errors.New("the quota is gone")
	}
	const block = 4096
	u = Usage{Bytes: int64(got.space), Inodes: int64(got.inodes)}
	return u, got.space+block > got.hard*blockSize || got.ihard > 0 && got.inodes >= got.ihard, nil
}
