//go:build seccomp

package pid1

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/test/need"
)

// underProfile is PID 1 under the profile of a real run.
var underProfile = options{armor: apparmor.Default, label: apparmor.PID1Label}

// confined asks for the labels of a real run, and for no filter: what is refused is
// refused by AppArmor, or by what it is stacked on.
func confined(script string) Payload {
	p := sh(script)
	p.Flags, p.Filters = p.Flags|NoFilter, nil
	p.AppArmor = AppArmor{Stack: apparmor.Job, JobLabel: apparmor.JobLabel}
	return p
}

// setupFails wants PID 1 to end with its setup.
func setupFails(t *testing.T, o options) Report {
	t.Helper()
	j := boot(t, o)
	if err := j.Setup(&Setup{RequirePDeathSig, o.label}); err != nil {
		t.Fatal(err)
	}
	r := j.next(t, Failed)
	if err := j.cmd.Wait(); err == nil || r.Job != 0 {
		t.Errorf("pid 1 ended with 0 after %+v", r)
	}
	return r
}

// A label is asked for that PID 1 hasn't: the kernel has no AppArmor, or whoever
// started PID 1 lost the profile on the way.
func TestJobWithoutItsProfile(t *testing.T) {
	r := setupFails(t, options{label: apparmor.PID1Label})
	if r.Stage != StageAppArmor || r.Errno != syscall.ENOENT && r.Errno != syscall.EPERM {
		t.Errorf("%v", r.Err())
	}
	// The job's profile without PID 1's.
	if r := runFails(t, confined("echo RAN"), options{}); r.Stage != StagePayload || r.Errno != syscall.EBADMSG {
		t.Errorf("%v", r.Err())
	}
}

func needProfile(t *testing.T) {
	t.Helper()
	why := apparmor.Here()
	need.Feature(t, "apparmor-loaded", why == nil, fmt.Sprint(why))
}

// TestAppArmor: without a filter, PID 1's profile and the job's hold, and the job
// never starts under less.
func TestAppArmor(t *testing.T) {
	needProfile(t)
	const attempts = `cat /proc/self/attr/apparmor/current
unshare -U true 2>&1
kill -0 1 2>&1
sh -c 'kill -0 $PPID && echo its own'`
	_, out := run(t, confined(attempts), underProfile)
	got := lines(strings.ReplaceAll(out, "\n\n", "\n")) // dash ends some messages twice
	if len(got) != 4 || got[0] != apparmor.JobLabel || got[3] != "its own" {
		t.Errorf("%q", got)
	}
	for _, l := range got[1:3] {
		if !strings.Contains(l, "ermission denied") {
			t.Errorf("%q", l)
		}
	}
	t.Run("without", func(t *testing.T) { // the control: only modes stand before these
		p := confined("unshare -U true && echo made; kill -0 1 && echo reached")
		p.AppArmor = AppArmor{}
		if _, out := run(t, p, options{}); out != "made\nreached\n" {
			t.Errorf("%q", out)
		}
	})
	for name, label := range map[string]string{
		"another label": "jailer-defaul (enforce)", "a longer label": apparmor.PID1Label + "x",
	} {
		t.Run(name, func(t *testing.T) {
			if r := setupFails(t, options{armor: apparmor.Default, label: label}); r.Stage != StageAppArmor || r.Errno != syscall.EPERM {
				t.Errorf("%v", r.Err())
			}
		})
	}
	for name, tc := range map[string]struct {
		change func(*AppArmor)
		stage  Stage
		errno  syscall.Errno
	}{
		"another label for job": {func(a *AppArmor) { a.JobLabel = apparmor.PID1Label }, StageStack, syscall.EPERM},
		"a profile not there":   {func(a *AppArmor) { a.Stack = "nosuch" }, StageStack, syscall.ENOENT},
		"no profile":            {func(a *AppArmor) { *a = AppArmor{} }, StagePayload, syscall.EBADMSG},
	} {
		t.Run(name, func(t *testing.T) {
			p := confined("echo RAN")
			tc.change(&p.AppArmor)
			if r := runFails(t, p, underProfile); r.Stage != tc.stage || r.Errno != tc.errno {
				t.Errorf("%v, want %v %v", r.Err(), tc.stage, tc.errno)
			}
		})
	}
}
