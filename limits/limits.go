// Package limits holds what a jail may use as plain data, with the parsers for
// sizes, durations and CPU counts. It is pure: no I/O, the same answer on every
// machine.
//
// One table, Fields, drives everything that treats limits alike: the policy's
// keys, the request's fields, the flags, the check against a ceiling. A limit
// that is not in the table can be neither set nor forgotten.
package limits

import "time"

// Limits is one set of limits. The zero value of a field means "not given",
// never "unlimited": there is no way to write unlimited. What may be left out
// altogether, Field.Optional names.
type Limits struct {
	Timeout time.Duration // wall clock of one run
	CPUTime time.Duration // CPU time of the whole job, user and system
	TTL     time.Duration // life of a session, whatever it does
	Idle    time.Duration // life of a session without a running command

	Memory          int64 // bytes, without Swap
	Workspace       int64 // bytes of the writable /workspace
	WorkspaceInodes int64
	TmpSize         int64 // bytes of each of /tmp, HOME and /dev/shm
	TmpInodes       int64 // inodes of each of them

	CPUs CPUs
	PIDs int64 // processes and threads of the job

	Swap    int64 // bytes of swap beyond Memory; 0 is none
	IORead  int64 // bytes per second from each block device; 0 is no limit
	IOWrite int64 // and to each

	MaxOutput int64 // bytes of each of stdout and stderr that are kept
	MaxFile   int64 // bytes of one file moved by jailer's own verbs
}

// CPUs is a number of CPUs in thousandths: 200 is a fifth of one CPU.
type CPUs int64

// TmpMounts is the number of mounts that have TmpSize bytes each: /tmp, HOME
// and /dev/shm.
const TmpMounts = 3
