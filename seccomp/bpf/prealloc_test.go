//go:build seccomp

package bpf

import (
	"encoding/binary"
	"testing"

	"github.com/jailer-project/jailer/seccomp"
	"golang.org/x/sys/unix"
)

// What reserves room without writing is refused, whatever the high half of its
// arguments says, and nothing else is.
func TestNoPreallocation(t *testing.T) {
	code := seccomp.NoPreallocation()
	var prog []insn
	for ; len(code) > 0; code = code[insnSize:] {
		prog = append(prog, insn{binary.NativeEndian.Uint16(code), code[2], code[3], binary.NativeEndian.Uint32(code[4:])})
	}
	const eopnotsupp = retErrno | 95
	for _, c := range []struct {
		name string
		nr   int
		arg1 uint64
		want uint32
	}{
		{"fallocate", unix.SYS_FALLOCATE, 0, eopnotsupp},
		{"fallocate, punching", unix.SYS_FALLOCATE, 3, eopnotsupp},
		{"FS_IOC_RESVSP", unix.SYS_IOCTL, 0x40305828, eopnotsupp},
		{"FS_IOC_RESVSP64", unix.SYS_IOCTL, 0x4030582a, eopnotsupp},
		{"FS_IOC_ZERO_RANGE", unix.SYS_IOCTL, 0x40305839, eopnotsupp},
		{"FS_IOC_ZERO_RANGE, more bits", unix.SYS_IOCTL, 0xdead_0000_4030_5839, eopnotsupp},
		{"FS_IOC_UNRESVSP, which frees", unix.SYS_IOCTL, 0x40305829, retAllow},
		{"FICLONE", unix.SYS_IOCTL, 0x40049409, retAllow},
		{"write of such a number", unix.SYS_WRITE, 0x40305828, retAllow},
		{"ftruncate", unix.SYS_FTRUNCATE, 0, retAllow},
		{"execve", unix.SYS_EXECVE, 0, retAllow},
		{"none", -1, 0, retAllow},
	} {
		got, _, err := interpret(prog, &record{nr: uint32(c.nr), args: [6]uint64{1: c.arg1}})
		if got != c.want || err != nil {
			t.Errorf("%s: %#x, %v; want %#x", c.name, got, err, c.want)
		}
	}
}
