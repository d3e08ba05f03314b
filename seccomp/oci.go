package seccomp

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// arches are the machines jailer runs on, by GOARCH.
var arches = map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}

// ToOCI gives the filter as an OCI runtime reads it, for one architecture by its
// GOARCH ("amd64", "arm64"). Only that architecture is named: calls through
// another ABI (i386's int 0x80, x32 numbers) meet the runtime's bad-architecture
// action, which is a kill. Rules that say what the default says are left out:
// libseccomp refuses them and runc skips them.
func (p *Profile) ToOCI(arch string) (*specs.LinuxSeccomp, error) {
	a, ok := arches[arch]
	if !ok {
		return nil, fmt.Errorf("seccomp: no filter for architecture %q", arch)
	}
	out := &specs.LinuxSeccomp{
		DefaultAction:   p.DefaultAction,
		DefaultErrnoRet: errnoRet(p.DefaultErrno),
		Architectures:   []specs.Arch{a},
		// An empty list, not nil: runc takes nil for "disable the speculative
		// store bypass mitigation" (SECCOMP_FILTER_FLAG_SPEC_ALLOW).
		Flags: []specs.LinuxSeccompFlag{},
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		if r.Action == p.DefaultAction && r.Errno == p.DefaultErrno {
			continue
		}
		for _, pat := range r.patterns() {
			call := specs.LinuxSyscall{Names: r.Names, Action: r.Action, ErrnoRet: errnoRet(r.Errno)}
			for j, m := range pat.mask {
				if m == 0 {
					continue
				}
				call.Args = append(call.Args, specs.LinuxSeccompArg{
					Index: uint(j), Op: specs.OpMaskedEqual, Value: uint64(m), ValueTwo: uint64(pat.value[j]),
				})
			}
			out.Syscalls = append(out.Syscalls, call)
		}
	}
	return out, nil
}

func errnoRet(name string) *uint {
	n, ok := errnos[name]
	if !ok {
		return nil
	}
	return &n
}
