package pid1

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The numbers of src/protocol.h.
const (
	magic     = 0x314c524a // "JRL1"
	version   = 2
	headerLen = 12
	setupMax  = 1024
	bodyMax   = 8 << 20

	tlvFlags       = 1
	tlvUIDMap      = 2
	tlvGIDMap      = 3
	tlvUID         = 4
	tlvGID         = 5
	tlvCgroupDir   = 6
	tlvCgroupProcs = 7
	tlvRlimit      = 8
	tlvAffinity    = 9
	tlvUmask       = 10
	tlvCwd         = 11
	tlvFilter      = 12
	tlvArg         = 13
	tlvEnv         = 14
	tlvTerminal    = 15
	tlvLabel       = 16
	tlvStack       = 17
	tlvJobLabel    = 18
	tlvExecutable  = 19
)

// Flags of a [Setup] or of a [Payload].
type Flags uint32

const (
	// NewCgroup makes the cgroup namespace with the clone: right with IntoCgroup,
	// whose target becomes its root.
	NewCgroup Flags = 1
	// IntoCgroup clones into the directory that is first in Files.Cgroup (v2).
	IntoCgroup Flags = 2
	// UnshareCgroupNS makes it after the move by the files of Files.Cgroup (v1).
	UnshareCgroupNS Flags = 4
	// SetgroupsDeny is needed for the gid map where the jail's user namespace
	// doesn't deny setgroups itself.
	SetgroupsDeny Flags = 8
	// NoFilter permits a payload without a filter.
	NoFilter Flags = 16
	// RequirePDeathSig makes PID 1 refuse its Setup unless its parent's death
	// kills it.
	RequirePDeathSig Flags = 32
	// SetIDs makes the job's process change to UID and GID and drop its groups (a
	// range of ids is mapped); without it the map alone must make it so.
	SetIDs Flags = 64
	// Seed makes the job's process read frames from its stdin and make the files
	// that they describe, where another would execute a program.
	Seed Flags = 256
	// Once, in a Setup, ends PID 1, and so the jail, with its first job that is
	// no seed.
	Once Flags = 512

	// stdio is Exec's own: Files says whether there are any.
	stdio Flags = 128
)

// What a seed reads: frames of a header, a path and a file's bytes. The header is
// SeedHeader bytes, little-endian: type, mode, bytes of the path with its NUL, 0 (32
// bits each), and the size of the file (64 bits). Paths are absolute in the jail,
// without ".", ".." and empty names; parents come first; no mode is over 0777. A
// directory may exist already, a file must not, and no link is followed.
const (
	SeedHeader  = 24
	SeedPathMax = 4096 // with the NUL

	SeedDir  = 1
	SeedFile = 2
	SeedEnd  = 3 // the rest of its header is 0, and nothing follows
)

// Rlimit is one resource limit, set in the job's process alone. Resource is the
// kernel's number (unix.RLIMIT_NPROC …), RLIM_INFINITY is all ones.
type Rlimit struct {
	Resource   uint32
	Soft, Hard uint64
}

// Payload is what PID 1 is told to run.
type Payload struct {
	Flags          Flags
	UIDMap, GIDMap string // text of /proc/PID/uid_map, as "1000 0 1"
	UID, GID       uint32 // what the job must be inside
	Rlimits        []Rlimit
	Affinity       []byte // CPU mask for sched_setaffinity(2), whole 8-byte words; nil leaves it
	Umask          uint32
	Cwd            string // absolute; none for a seed
	// Executables are absolute paths in the jail: with one or more of them the job and
	// all that comes of it execute these files alone (landlock(7)). None for a seed.
	Executables []string
	Filters     [][]byte // arrays of struct sock_filter, loaded in this order
	AppArmor    AppArmor // none unless PID 1 is confined too, see Setup
	Args        []string // Args[0] is looked for in the PATH of Env if it has no slash; none for a seed
	Env         []string // K=V; none for a seed

	// Cols and Rows, both or none, give the job a terminal of its own: it controls
	// the job, and is its stdio too unless Files has one. The first report then is
	// Terminal.
	Cols, Rows uint16
}

// AppArmor is the confinement of a job; both members or none. PID 1 refuses to start
// one under any other label.
type AppArmor struct {
	Stack    string // profile that the job's process adds to PID 1's own
	JobLabel string // what then must be the job's, as attr/current shows it: "NAME (MODE)"
}

// encode gives the payload with the places of ncgroup descriptors. Its errors are the
// mistakes that would change the meaning (a NUL that cuts a string short); PID 1
// checks everything again and refuses what it doesn't like with StagePayload.
func (p *Payload) encode(ncgroup int) ([]byte, error) {
	if len(p.Args) == 0 && p.Flags&Seed == 0 {
		return nil, errors.New("pid1: no command")
	}
	b := make([]byte, 0, 4096)
	b = appendU32(b, tlvFlags, uint32(p.Flags))
	b = appendTLV(b, tlvUIDMap, []byte(p.UIDMap))
	b = appendTLV(b, tlvGIDMap, []byte(p.GIDMap))
	b = appendU32(b, tlvUID, p.UID)
	b = appendU32(b, tlvGID, p.GID)
	place := uint32(0)
	if p.Flags&stdio != 0 {
		place = 3
	}
	for i := range ncgroup {
		typ := uint16(tlvCgroupProcs)
		if i == 0 && p.Flags&IntoCgroup != 0 {
			typ = tlvCgroupDir
		}
		b = appendU32(b, typ, place)
		place++
	}
	for _, l := range p.Rlimits {
		v := binary.LittleEndian.AppendUint32(nil, l.Resource)
		v = binary.LittleEndian.AppendUint32(v, 0)
		v = binary.LittleEndian.AppendUint64(v, l.Soft)
		v = binary.LittleEndian.AppendUint64(v, l.Hard)
		b = appendTLV(b, tlvRlimit, v)
	}
	if p.Affinity != nil {
		b = appendTLV(b, tlvAffinity, p.Affinity)
	}
	b = appendU32(b, tlvUmask, p.Umask)
	if p.Cols|p.Rows != 0 {
		b = appendU32(b, tlvTerminal, uint32(p.Cols)|uint32(p.Rows)<<16)
	}
	for _, f := range p.Filters {
		b = appendTLV(b, tlvFilter, f)
	}
	var err error
	for _, s := range []struct {
		typ        uint16
		what, text string
	}{
		{tlvCwd, "cwd", p.Cwd},
		{tlvStack, "AppArmor profile", p.AppArmor.Stack},
		{tlvJobLabel, "AppArmor label", p.AppArmor.JobLabel},
	} {
		if s.text == "" {
			continue
		}
		if b, err = appendString(b, s.typ, s.what, s.text); err != nil {
			return nil, err
		}
	}
	for _, x := range p.Executables {
		if b, err = appendString(b, tlvExecutable, "executable", x); err != nil {
			return nil, err
		}
	}
	for _, a := range p.Args {
		if b, err = appendString(b, tlvArg, "argument", a); err != nil {
			return nil, err
		}
	}
	for _, e := range p.Env {
		if b, err = appendString(b, tlvEnv, "environment", e); err != nil {
			return nil, err
		}
	}
	if len(b) > bodyMax {
		return nil, fmt.Errorf("pid1: payload of %d bytes is over %d", len(b), bodyMax)
	}
	return b, nil
}

func appendTLV(b []byte, typ uint16, data []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, typ)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	b = append(b, data...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func appendU32(b []byte, typ uint16, v uint32) []byte {
	return appendTLV(b, typ, binary.LittleEndian.AppendUint32(nil, v))
}

func appendString(b []byte, typ uint16, what, s string) ([]byte, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, fmt.Errorf("pid1: %s %q holds a NUL byte", what, s)
	}
	return appendTLV(b, typ, append([]byte(s), 0)), nil
}
