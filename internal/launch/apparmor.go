package launch

import (
	"fmt"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/policy"
)

// labelWait bounds the time from libcontainer's word that init may go on to its
// exec, at which the kernel changes the label.
const labelWait = 10 * time.Second

const labelHint = "as root, `jailer apparmor load` by the installed program, and start that one, under no profile but its own; or set apparmor = \"off\" in the policy"

// chooseAppArmor decides on the profiles that are loaded now: libcontainer, given
// the name of one that isn't, fails with an error that nobody understands, and
// where AppArmor is off it runs without.
func (j *Jail) chooseAppArmor() error {
	if j.plan.AppArmor == policy.AppArmorOff {
		return nil
	}
	why := apparmor.Here()
	switch {
	case why == nil:
		j.armor = true
	case j.plan.AppArmor == policy.AppArmorRequired:
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: why.ID,
			Message: "AppArmor is required, and can't be had: " + why.Text, Hint: why.Hint,
		}
	default:
		j.log.Info("no AppArmor", "reason", why.Text)
	}
	return nil
}

// checkLabel waits until PID 1 has its profile, before it is told what to run. PID
// 1 looks for itself too, and holds the command to its own; this is the view from
// outside.
func (j *Jail) checkLabel() error {
	if !j.armor {
		return nil
	}
	var label string
	var err error
	for end := time.Now().Add(labelWait); time.Now().Before(end) && j.aborted.Load() == nil; time.Sleep(200 * time.Microsecond) {
		if label, err = apparmor.Label(j.con.Pid()); err != nil || label == apparmor.PID1Label {
			break
		}
	}
	if err == nil && label == apparmor.PID1Label {
		return nil
	}
	return &jailer.Error{
		Code: jailer.CodeIsolationUnavailable, Reason: "apparmor.profile",
		Message: fmt.Sprintf("PID 1 runs under the label %.300q, not %q", label, apparmor.PID1Label), Err: err,
		Hint: labelHint,
	}
}
