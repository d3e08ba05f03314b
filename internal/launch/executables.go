package launch

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/host"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/rootfs"
)

// chooseExecutables finds the files that alone may be executed, and what they need to be
// loaded, before anything is made.
func (j *Jail) chooseExecutables() error {
	want := j.plan.Exec
	if want == nil {
		return nil
	}
	root := j.plan.Rootfs.Path
	if root == "" {
		root = "/"
	}
	top, err := os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return execError(j.plan, -1, err)
	}
	defer top.Close()
	files := []rootfs.Mount{}
	var loaders []string
	for i, x := range want.Allow {
		f, m, err := executableIn(top, root, x)
		if err != nil {
			return execError(j.plan, i, err)
		}
		if !want.Interpreters && policy.RunsCode(m.Target) {
			f.Close()
			return execError(j.plan, i, fmt.Errorf("it is really %s, which runs code that it is given as data (allow_interpreters = true takes it)", m.Target))
		}
		loader, err := loaderOf(f)
		f.Close()
		if err != nil {
			return execError(j.plan, i, err)
		}
		if loader != "" && !slices.Contains(loaders, loader) {
			loaders = append(loaders, loader)
		}
		files = append(files, m)
	}
	if want.Enforce == policy.EnforceFirst {
		return j.mayExecute(j.plan)
	}
	if j.landlock, err = host.Here().Landlock(); err != nil || j.landlock < 1 {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "landlock", Err: err,
			Message: `what may be executed can't be held for all descendants: the kernel has no Landlock, or it is off`,
			Hint:    `boot with lsm=landlock,… and CONFIG_SECURITY_LANDLOCK=y; or, if the command alone need be looked at, enforce = "first"`,
		}
	}
	j.executables = files
	for _, m := range files {
		j.loadable = append(j.loadable, m.Target)
	}
	for _, l := range loaders {
		// The kernel opens the loader to execute it; that it then runs no other program,
		// those programs' mounts see to.
		if f, err := openIn(top, l); err == nil {
			f.Close()
			j.loadable = append(j.loadable, l)
		}
	}
	return nil
}

// openIn opens a path of the jail's as the jail would: links lead within the root.
func openIn(top *os.File, p string) (*os.File, error) {
	fd, err := unix.Openat2(int(top.Fd()), strings.TrimPrefix(p, "/"), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	return os.NewFile(uintptr(fd), p), nil
}

// executableIn is a listed file, open for reading, and where it really is.
func executableIn(top *os.File, root string, x policy.Executable) (*os.File, rootfs.Mount, error) {
	at, err := openIn(top, x.Path)
	if err != nil {
		return nil, rootfs.Mount{}, err
	}
	defer at.Close()
	proc := "/proc/self/fd/" + strconv.Itoa(int(at.Fd()))
	real, err := os.Readlink(proc)
	if err != nil {
		return nil, rootfs.Mount{}, err
	}
	inside, ok := strings.CutPrefix(real, strings.TrimSuffix(root, "/"))
	if !ok || !path.IsAbs(inside) {
		return nil, rootfs.Mount{}, fmt.Errorf("it is not in the root")
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(at.Fd()), &st); err != nil {
		return nil, rootfs.Mount{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0 {
		return nil, rootfs.Mount{}, errors.New("it is no file that can be executed")
	}
	f, err := os.Open(proc)
	if err != nil {
		return nil, rootfs.Mount{}, err
	}
	if x.SHA256 != "" {
		sum := sha256.New()
		if _, err := io.Copy(sum, f); err != nil {
			f.Close()
			return nil, rootfs.Mount{}, err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != x.SHA256 {
			f.Close()
			return nil, rootfs.Mount{}, fmt.Errorf("it has the SHA-256 %s", got)
		}
	}
	return f, rootfs.Mount{Source: real, Target: inside, Dev: st.Dev, Ino: st.Ino}, nil
}

// loaderOf is the program that the kernel starts in a dynamic one's place (PT_INTERP,
// elf(5)); "" for a static one, and for a script, whose interpreter has to be listed.
func loaderOf(f *os.File) (string, error) {
	e, err := elf.NewFile(f)
	if err != nil {
		return "", nil // no ELF file: the kernel decides
	}
	for _, p := range e.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > unix.PathMax {
			continue
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			return "", err
		}
		return strings.TrimRight(string(b), "\x00"), nil
	}
	return "", nil
}

// mayExecute looks at the command itself, where that is all that is looked at. Its name
// must leave nothing to the job's PATH or working directory, which a request chooses.
func (j *Jail) mayExecute(plan *policy.Plan) error {
	if plan.Exec == nil || plan.Exec.Enforce != policy.EnforceFirst || len(plan.Argv) == 0 {
		return nil
	}
	if slices.ContainsFunc(plan.Exec.Allow, func(x policy.Executable) bool { return x.Path == plan.Argv[0] }) {
		return nil
	}
	return &jailer.Error{
		Code: jailer.CodePolicyDenied, Op: "exec", Path: "argv[0]",
		Message: fmt.Sprintf("profile %q executes listed files alone, each by its absolute path, and %.200q is none", plan.Profile, plan.Argv[0]),
		Hint:    "the profile's exec.allow has the list",
	}
}

func execError(plan *policy.Plan, i int, err error) error {
	at := fmt.Sprintf("profiles.%s.exec", plan.Profile)
	if i >= 0 {
		at += fmt.Sprintf(".allow[%d] (%s)", i, plan.Exec.Allow[i].Path)
	}
	return &jailer.Error{
		Code: jailer.CodePolicyDenied, Op: "exec", Path: at, Err: err,
		Hint: "list files that the root has, with the content that they have",
	}
}
