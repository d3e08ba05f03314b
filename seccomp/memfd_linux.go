package seccomp

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// NoMemfd is a filter to be loaded beside a profile's, the raw sock_filter array for this
// machine: memfd_create(2) and memfd_secret(2) are answered with EPERM; all else is left to
// the profile. What is in such a file can be executed by /proc/self/fd, whatever mounts
// say.
func NoMemfd() []byte {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
		nr     = 0 // in struct seccomp_data

		allow = 0x7fff0000                             // SECCOMP_RET_ALLOW
		deny  = 0x00050000 | uint32(unix.EPERM)&0xffff // SECCOMP_RET_ERRNO
	)
	// A foreign ABI's numbers are the profile's to refuse: it kills for them.
	code := []unix.SockFilter{
		{Code: load, K: nr},
		{Code: equal, K: unix.SYS_MEMFD_CREATE, Jt: 2},
		{Code: equal, K: unix.SYS_MEMFD_SECRET, Jt: 1},
		{Code: answer, K: allow},
		{Code: answer, K: deny},
	}
	var b bytes.Buffer
	_ = binary.Write(&b, binary.NativeEndian, code) // to a buffer it can't fail
	return b.Bytes()
}
