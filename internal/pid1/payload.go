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
	version   = 1
	headerLen = 12
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
)

// Flags say how the job is cloned and what its absence would be refused for.
type Flags uint32

const (
	// NewCgroup makes the cgroup namespace with the clone: right with IntoCgroup,
	// whose target becomes its root.
	NewCgroup Flags = 1
	// IntoCgroup clones into Payload.CgroupDir (cgroup v2).
	IntoCgroup Flags = 2
	// UnshareCgroupNS makes it after the move by Payload.CgroupProcs (v1).
	UnshareCgroupNS Flags = 4
	// SetgroupsDeny is needed for the gid map where the jail's user namespace
	// doesn't deny setgroups itself.
	SetgroupsDeny Flags = 8
	// NoFilter permits a payload without a filter.
	NoFilter Flags = 16
	// RequirePDeathSig makes PID 1 refuse to start unless its parent's death
	// kills it.
	RequirePDeathSig Flags = 32
	// SetIDs makes the job's process change to UID and GID and drop its groups (a
	// range of ids is mapped); without it the map alone must make it so.
	SetIDs Flags = 64
)

// Rlimit is one resource limit, set in the job's process alone. Resource is the
// kernel's number (unix.RLIMIT_NPROC …), RLIM_INFINITY is all ones.
type Rlimit struct {
	Resource   uint32
	Soft, Hard uint64
}

// Payload is what PID 1 is told to run. Descriptors are PID 1's numbers, from 5 on.
type Payload struct {
	Flags          Flags
	UIDMap, GIDMap string // text of /proc/PID/uid_map, as "1000 0 1"
	UID, GID       uint32 // what the job must be inside
	CgroupDir      int    // with IntoCgroup
	CgroupProcs    []int  // descriptors of v1 cgroup.procs files
	Rlimits        []Rlimit
	Affinity       []byte // CPU mask for sched_setaffinity(2), whole 8-byte words; nil leaves it
	Umask          uint32
	Cwd            string   // absolute
	Filters        [][]byte // arrays of struct sock_filter, loaded in this order
	AppArmor       AppArmor
	Args           []string // Args[0] is looked for in the PATH of Env if it has no slash
	Env            []string // K=V

	// Cols and Rows, both or none, give the job a terminal of its own. The first
	// report then is Terminal.
	Cols, Rows uint16
}

// AppArmor is the confinement of PID 1 and the job; all members or none. PID 1
// refuses to start a job under any other label.
type AppArmor struct {
	Label    string // PID 1's own, as attr/current shows it: "NAME (MODE)"
	Stack    string // profile that the job's process adds to it
	JobLabel string // what then must be the job's
}

// Encode gives header and body. Its errors are the mistakes that would change the
// meaning (a NUL that cuts a string short); PID 1 checks everything again and
// refuses what it doesn't like with StagePayload.
func (p *Payload) Encode() ([]byte, error) {
	if len(p.Args) == 0 {
		return nil, errors.New("pid1: no command")
	}
	b := make([]byte, headerLen, 4096)
	b = appendU32(b, tlvFlags, uint32(p.Flags))
	b = appendTLV(b, tlvUIDMap, []byte(p.UIDMap))
	b = appendTLV(b, tlvGIDMap, []byte(p.GIDMap))
	b = appendU32(b, tlvUID, p.UID)
	b = appendU32(b, tlvGID, p.GID)
	if p.Flags&IntoCgroup != 0 {
		b = appendU32(b, tlvCgroupDir, uint32(p.CgroupDir))
	}
	for _, fd := range p.CgroupProcs {
		b = appendU32(b, tlvCgroupProcs, uint32(fd))
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
	if b, err = appendString(b, tlvCwd, "cwd", p.Cwd); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		typ  uint16
		text string
	}{{tlvLabel, p.AppArmor.Label}, {tlvStack, p.AppArmor.Stack}, {tlvJobLabel, p.AppArmor.JobLabel}} {
		if s.text == "" {
			continue
		}
		if b, err = appendString(b, s.typ, "AppArmor label", s.text); err != nil {
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
	body := len(b) - headerLen
	if body > bodyMax {
		return nil, fmt.Errorf("pid1: payload of %d bytes is over %d", body, bodyMax)
	}
	binary.LittleEndian.PutUint32(b[0:], magic)
	binary.LittleEndian.PutUint32(b[4:], version)
	binary.LittleEndian.PutUint32(b[8:], uint32(body))
	return b, nil
}

func appendTLV(b []byte, typ uint16, data []byte) []byte {
	b = binary.LittleEndian.AppendUint16(b, typ)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	b = append(b, data...)
	for len(b)%4 != 0 { // the header is 12 bytes: offsets of file and body agree
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
