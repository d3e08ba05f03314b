package seccomp

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// The ioctls of linux/falloc.h, which every file system takes for fallocate(2).
const (
	fsIocReserve   = 0x40305828 // FS_IOC_RESVSP
	fsIocReserve64 = 0x4030582a // FS_IOC_RESVSP64
	fsIocZeroRange = 0x40305839 // FS_IOC_ZERO_RANGE
)

// NoPreallocation is a filter to be loaded beside a profile's, the raw sock_filter array
// for this machine: what reserves room in a file without writing it is answered with
// EOPNOTSUPP, as by a file system that can't; all else is left to the profile. A job could
// fill a file system with it before anybody who watches its free space has looked again.
// posix_fallocate(3) writes instead.
func NoPreallocation() []byte {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K

		nr, arg1 = 0, 24 // in struct seccomp_data; of arg1 the low half, which is all that ioctl(2) takes

		allow = 0x7fff0000                                  // SECCOMP_RET_ALLOW
		deny  = 0x00050000 | uint32(unix.EOPNOTSUPP)&0xffff // SECCOMP_RET_ERRNO
	)
	// A foreign ABI's numbers are the profile's to refuse: it kills for them.
	code := []unix.SockFilter{
		{Code: load, K: nr},
		{Code: equal, K: unix.SYS_FALLOCATE, Jt: 6},
		{Code: equal, K: unix.SYS_IOCTL, Jf: 4},
		{Code: load, K: arg1},
		{Code: equal, K: fsIocReserve, Jt: 3},
		{Code: equal, K: fsIocReserve64, Jt: 2},
		{Code: equal, K: fsIocZeroRange, Jt: 1},
		{Code: answer, K: allow},
		{Code: answer, K: deny},
	}
	var b bytes.Buffer
	_ = binary.Write(&b, binary.NativeEndian, code) // to a buffer it can't fail
	return b.Bytes()
}
