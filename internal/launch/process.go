package launch

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
)

// Step 4: nothing that the caller left open reaches the jail, and no variable
// of the caller's steers us or our helpers. Inherited descriptors are marked
// close-on-exec, not closed: one of them may be the caller's --result-fd.
func (j *Jail) closeDescriptors() error {
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "kernel.floor",
			Message: "close_range(2) with CLOEXEC needs Linux 5.11", Err: err,
			Hint: "jailer needs Linux 5.14 or newer",
		}
	}
	os.Clearenv()
	// newuidmap and newgidmap are looked for here and nowhere else.
	os.Setenv("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
	return raiseNproc()
}

// raiseNproc raises the soft limit to the hard one: a limit below the user's
// present total, in force when the user namespace is made, would become that
// namespace's ceiling and starve the jail (setrlimit(2), user_namespaces(7)).
func raiseNproc() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &l); err != nil {
		return err
	}
	l.Cur = l.Max
	return unix.Setrlimit(unix.RLIMIT_NPROC, &l)
}
