package pid1

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Memfd gives the program in a sealed memory file: executable, and writable by
// nobody. CVE-2019-5736 overwrote a launcher through /proc/self/exe; here the
// job's host uid is even the file's owner. The mode is 0555, not 0500: with a host
// uid of its own the jail isn't the owner, and an unreadable program would make
// the kernel (would_dump) take the process out of the jail's user namespace.
func Memfd() (*os.File, error) {
	b, err := Binary()
	if err != nil {
		return nil, err
	}
	return memfd(b)
}

func memfd(b []byte) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	// MFD_EXEC says it aloud since 6.3 (vm.memfd_noexec = 1 would clear the x
	// bits otherwise); older kernels answer EINVAL.
	fd, err := unix.MemfdCreate("jailer-pid1", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("jailer-pid1", flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "jailer-pid1")
	if err := fill(f, b); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func fill(f *os.File, b []byte) error {
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Chmod(0o555); err != nil {
		return err
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	return os.NewSyscallError("fcntl F_ADD_SEALS", err)
}
