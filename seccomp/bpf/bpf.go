//go:build seccomp

package bpf

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jailer-project/jailer/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	libseccomp "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// targets are the architectures as libseccomp and the kernel know it.
var targets = map[string]libseccomp.ScmpArch{"amd64": libseccomp.ArchAMD64, "arm64": libseccomp.ArchARM64}

// Compile turns the profile into the raw sock_filter array that seccomp(2) takes,
// for the architecture with the given GOARCH, whatever the machine it runs on.
// It compiles the very data that p.ToOCI gives. A profile that Check refuses is
// not compiled; a name that libseccomp has never heard of is an error, since it
// is either a typing mistake or a rule that would silently be missing.
func Compile(p *seccomp.Profile, arch string) ([]byte, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := checkNames(p); err != nil {
		return nil, err
	}
	oci, err := p.ToOCI(arch)
	if err != nil {
		return nil, err
	}
	target, ok := targets[arch]
	if !ok {
		return nil, fmt.Errorf("seccomp: libseccomp architecture for %q is not known", arch)
	}
	filter, err := newFilter(oci, target)
	if err != nil {
		return nil, err
	}
	defer filter.Release()
	for _, call := range oci.Syscalls {
		if err := addRule(filter, target, call); err != nil {
			return nil, err
		}
	}
	code, err := export(filter)
	if n := len(code) / insnSize; err == nil && n > maxInsns {
		return nil, fmt.Errorf("seccomp: the profile compiles to %d instructions, and the kernel takes %d: use fewer notIn32 conditions, each is up to 32 comparisons", n, maxInsns)
	}
	return code, err
}

const (
	insnSize = 8    // of struct sock_filter, linux/filter.h
	maxInsns = 4096 // BPF_MAXINSNS, linux/bpf_common.h
)

// checkNames wants libseccomp to know every call of the profile, on whatever
// architecture.
func checkNames(p *seccomp.Profile) error {
	var errs []error
	for i, r := range p.Rules {
		for _, name := range r.Names {
			if !Elsewhere(name) {
				errs = append(errs, fmt.Errorf("%s: system call %q is not known to libseccomp", p.Place(i), name))
			}
		}
	}
	return errors.Join(errs...)
}

// export goes through a memory file: libseccomp 2.5 writes to descriptors only.
func export(filter *libseccomp.ScmpFilter) ([]byte, error) {
	fd, err := unix.MemfdCreate("seccomp", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("seccomp: export: %w", err)
	}
	f := os.NewFile(uintptr(fd), "seccomp")
	defer f.Close()
	if err := filter.ExportBPF(f); err != nil {
		return nil, fmt.Errorf("seccomp: export: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("seccomp: export: %w", err)
	}
	return io.ReadAll(f)
}

// newFilter gives an empty filter for target alone.
func newFilter(oci *specs.LinuxSeccomp, target libseccomp.ScmpArch) (_ *libseccomp.ScmpFilter, err error) {
	def, err := action(oci.DefaultAction, oci.DefaultErrnoRet)
	if err != nil {
		return nil, err
	}
	filter, err := libseccomp.NewFilter(def)
	if err != nil {
		return nil, fmt.Errorf("seccomp: new filter: %w", err)
	}
	defer func() {
		if err != nil {
			filter.Release()
		}
	}()
	// A new filter has the machine's own architecture.
	if err := filter.AddArch(target); err != nil {
		return nil, fmt.Errorf("seccomp: add architecture: %w", err)
	}
	native, err := libseccomp.GetNativeArch()
	if err != nil {
		return nil, fmt.Errorf("seccomp: native architecture: %w", err)
	}
	if native != target {
		if err := filter.RemoveArch(native); err != nil {
			return nil, fmt.Errorf("seccomp: remove native architecture: %w", err)
		}
	}
	// A foreign ABI (i386's int 0x80, x32 numbers) numbers its calls differently,
	// so that no rule of ours says anything about it.
	if err := filter.SetBadArchAction(libseccomp.ActKillProcess); err != nil {
		return nil, fmt.Errorf("seccomp: bad architecture action: %w", err)
	}
	// PID 1 sets no_new_privs itself, before it loads what we compile here.
	if err := filter.SetNoNewPrivsBit(false); err != nil {
		return nil, fmt.Errorf("seccomp: no_new_privs: %w", err)
	}
	// Level 2 is a binary tree over the call numbers.
	if err := filter.SetOptimize(2); err != nil {
		return nil, fmt.Errorf("seccomp: optimise: %w", err)
	}
	return filter, nil
}

func addRule(filter *libseccomp.ScmpFilter, target libseccomp.ScmpArch, call specs.LinuxSyscall) error {
	act, err := action(call.Action, call.ErrnoRet)
	if err != nil {
		return err
	}
	var conds []libseccomp.ScmpCondition
	for _, a := range call.Args {
		c, err := libseccomp.MakeCondition(a.Index, libseccomp.CompareMaskedEqual, a.Value, a.ValueTwo)
		if err != nil || a.Op != specs.OpMaskedEqual {
			return fmt.Errorf("seccomp: condition %+v: %v", a, err)
		}
		conds = append(conds, c)
	}
	for _, name := range call.Names {
		there, err := libseccomp.GetSyscallFromNameByArch(name, target)
		if err != nil {
			return fmt.Errorf("seccomp: system call %q is not known to libseccomp", name)
		}
		if there < 0 {
			continue // this architecture hasn't got it
		}
		// Rules take the building machine's number for a call (or the negative
		// one that libseccomp invents), and libseccomp translates it by name.
		nr, err := libseccomp.GetSyscallFromName(name)
		if err != nil {
			return fmt.Errorf("seccomp: system call %q is not known to libseccomp", name)
		}
		if err := filter.AddRuleConditionalExact(nr, act, conds); err != nil {
			return fmt.Errorf("seccomp: rule for %s: %w", name, err)
		}
	}
	return nil
}

func action(a specs.LinuxSeccompAction, errno *uint) (libseccomp.ScmpAction, error) {
	switch {
	case a == specs.ActAllow:
		return libseccomp.ActAllow, nil
	case a == specs.ActKillProcess:
		return libseccomp.ActKillProcess, nil
	case a == specs.ActErrno && errno != nil:
		return libseccomp.ActErrno.SetReturnCode(int16(*errno)), nil
	}
	return libseccomp.ActInvalid, fmt.Errorf("seccomp: action %q can't be compiled", a)
}
