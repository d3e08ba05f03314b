package seccomp

import (
	"fmt"
	"strings"
)

// arguments are the names that the manual pages (section 2) give to the
// arguments of calls on which filters put conditions.
var arguments = names(
	"chmod path mode", "fchmod fd mode", "fchmodat dirfd path mode", "fchmodat2 dirfd path mode flags",
	"clone flags stack parent_tid child_tid tls",
	"creat path mode", "open path flags mode", "openat dirfd path flags mode",
	"fcntl fd op arg", "ioctl fd op arg", "ioprio_get which who", "ioprio_set which who ioprio",
	"kill pid sig", "tgkill tgid tid sig", "tkill tid sig", "madvise addr length advice",
	"memfd_create name flags", "mkdir path mode", "mkdirat dirfd path mode", "mknod path mode dev", "mknodat dirfd path mode dev",
	"mmap addr length prot flags fd offset", "mprotect addr length prot", "pkey_mprotect addr length prot pkey",
	"mremap old_address old_size new_size flags new_address",
	"personality persona", "prctl op arg2 arg3 arg4 arg5", "arch_prctl op addr", "prlimit64 pid resource new_limit old_limit",
	"sched_setaffinity pid size mask", "sched_setattr pid attr flags", "sched_setparam pid param", "sched_setscheduler pid policy param",
	"setpriority which who prio", "getpriority which who", "setrlimit resource rlim", "getrlimit resource rlim",
	"setsockopt sockfd level optname optval optlen", "getsockopt sockfd level optname optval optlen",
	"shmat shmid shmaddr shmflg", "shmget key size shmflg", "socket domain type protocol", "socketpair domain type protocol sv",
	"unshare flags", "setns fd nstype", "seccomp operation flags args",
)

func names(calls ...string) map[string][]string {
	m := map[string][]string{}
	for _, c := range calls {
		words := strings.Fields(c)
		m[words[0]] = words[1:]
	}
	return m
}

// argumentName is "" where the name is not known.
func argumentName(syscall string, index uint) string {
	if names := arguments[syscall]; index < uint(len(names)) {
		return names[index]
	}
	return ""
}

func argumentLabel(syscall string, index uint) string {
	if n := argumentName(syscall, index); n != "" {
		return n
	}
	return fmt.Sprintf("argument %d", index)
}
