//go:build seccomp

package bpf

import (
	libseccomp "github.com/seccomp/libseccomp-golang"
)

// newest is more than any call number of the tables that libseccomp has.
const newest = 1100

// Calls is libseccomp's table of system calls for the architecture with the
// given GOARCH, by name; nil where it has none.
func Calls(arch string) map[string]int {
	target, ok := targets[arch]
	if !ok {
		return nil
	}
	calls := map[string]int{}
	for nr := range newest {
		if name, err := libseccomp.ScmpSyscall(nr).GetNameByArch(target); err == nil {
			calls[name] = nr
		}
	}
	return calls
}

// Elsewhere says whether a name is that of a system call which another
// architecture has.
func Elsewhere(name string) bool {
	_, err := libseccomp.GetSyscallFromName(name)
	return err == nil
}
