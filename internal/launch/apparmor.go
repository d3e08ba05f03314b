package launch

import (
	"fmt"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/policy"
)

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

// checkLabel is the view from outside of what PID 1 has found itself: it has its
// profile, before it is told what to run.
func (j *Jail) checkLabel() error {
	if !j.armor {
		return nil
	}
	if label, err := apparmor.Label(j.con.Pid()); err != nil || label != apparmor.PID1Label {
		return j.wrongLabel()
	}
	return nil
}

func (j *Jail) wrongLabel() error {
	label, err := apparmor.Label(j.con.Pid())
	return &jailer.Error{
		Code: jailer.CodeIsolationUnavailable, Reason: "apparmor.profile",
		Message: fmt.Sprintf("PID 1 runs under the label %.300q, not %q", label, apparmor.PID1Label), Err: err,
		Hint: labelHint,
	}
}
