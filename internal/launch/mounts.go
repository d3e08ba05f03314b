package launch

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/hostdir"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/rootfs"
)

// never are directories that no mount may be, under whatever name; home directories come
// from /etc/passwd besides.
var never = []string{"/", "/home", "/root", "/run", "/dev", "/dev/shm", "/proc", "/sys", "/etc", "/var", "/var/run", "/tmp", "/var/tmp"}

// judgeMounts refuses those of the policy's mounts that a jail may not be shown, before
// anything is made, and finds where the others really are.
func (j *Jail) judgeMounts() error {
	if len(j.plan.Mounts) == 0 {
		return nil
	}
	owners := []int{0}
	if o := int(j.o.Policy.FileOwner()); o != 0 {
		owners = append(owners, o)
	}
	rules := hostdir.Rules{Owners: owners, Named: policy.CheckSource, Never: append(homeDirectories(), never...)}
	for i, m := range j.plan.Mounts {
		f, real, err := rules.Judge(m.Source)
		if err != nil {
			return mountError(j.plan.Profile, i, err)
		}
		var st unix.Stat_t
		err = unix.Fstat(int(f.Fd()), &st)
		f.Close()
		if err != nil {
			return mountError(j.plan.Profile, i, err)
		}
		j.mounts = append(j.mounts, rootfs.Mount{
			Source: real, Target: m.Target, Writable: m.Writable, Dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, Dev: st.Dev, Ino: st.Ino,
		})
	}
	return nil
}

func mountError(profile string, i int, err error) error {
	e := &jailer.Error{
		Code: jailer.CodePolicyDenied, Op: "mounts", Path: fmt.Sprintf("profiles.%s.mounts[%d]", profile, i), Err: err,
		Hint: "name a directory of root's or of the policy's owner that holds nothing but what jails may see",
	}
	if errors.Is(err, unix.ENOENT) {
		e.Hint = "make it, or take the mount out of the policy"
	}
	return e
}

// homeDirectories are those of /etc/passwd; of other sources of users nothing is known.
func homeDirectories() (all []string) {
	b, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(f) > 5 && strings.HasPrefix(f[5], "/") && f[5] != "/nonexistent" {
			all = append(all, f[5])
		}
	}
	return all
}
