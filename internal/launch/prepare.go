package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/container"
	"github.com/jailer-project/jailer/internal/host"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/seccomp/compiled"
)

// Step 1: read the request, strictly.
func (r *run) readRequest() error {
	if r.o.Request == nil {
		return nil
	}
	req, err := jailer.ParseRequest(r.o.Request)
	if err != nil {
		return err
	}
	r.request = req
	return nil
}

// Step 2: resolve it against the policy.
func (r *run) resolve() error {
	r.o.Overrides.HostCPUs = runtime.NumCPU()
	plan, err := policy.Resolve(r.o.Policy, r.request, r.o.Overrides)
	if err != nil {
		return err
	}
	r.plan = plan
	if r.o.ID == "" {
		r.o.ID = state.NewID()
	}
	if err := state.CheckID(r.o.ID); err != nil {
		return &jailer.Error{Code: jailer.CodeInvalidRequest, Path: "--id", Err: err}
	}
	return nil
}

// Step 3: probe what the plan needs. "Could not tell" counts as no.
func (r *run) probe() error {
	if err := checkOwner(r.o.OwnerPID); err != nil {
		return err
	}
	if err := r.probeBuild(); err != nil {
		return err
	}
	if err := probeUserNamespaces(); err != nil {
		return err
	}
	if r.plan.AppArmor == "required" {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "apparmor",
			Message: "AppArmor is required, and this version can't apply it",
			Hint:    `leave --apparmor out, and set apparmor = "auto" in the profile`,
		}
	}
	if err := r.chooseIDs(); err != nil {
		return err
	}
	base, err := cgroup.Find(cgroup.Options{})
	if err != nil {
		if r.plan.Enforce != "best-effort" {
			return unavailable(err)
		}
		r.log.Info("no cgroup limits, rlimits stand in", "reason", err)
	}
	r.base = base
	return r.checkRequired()
}

// probeBuild refuses what an incomplete or damaged program can't do. The
// embedded filter and PID 1 carry their checksums.
func (r *run) probeBuild() error {
	if !container.SeccompBuilt {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "build.seccomp",
			Message: "this jailer was built without its seccomp filter and PID 1",
			Hint:    "build it with `make build`; a plain `go build` has no isolation to offer",
		}
	}
	if r.plan.Seccomp != "default" {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "seccomp.profile",
			Message: fmt.Sprintf("seccomp profile %q is not built in", r.plan.Seccomp),
			Hint:    `set seccomp = "default" in the profile`,
		}
	}
	filter, err := compiled.Default()
	if err != nil {
		return damaged("the embedded seccomp filter", err)
	}
	r.filter = filter
	if _, err := pid1.Binary(); err != nil {
		return damaged("the embedded PID 1", err)
	}
	return nil
}

func damaged(what string, err error) error {
	return &jailer.Error{
		Code: jailer.CodeIsolationUnavailable, Reason: "build.intact",
		Message: what + " can't be used", Err: err,
		Hint: "install jailer again, or run `make build`",
	}
}

// probeUserNamespaces reads the switches that turn user namespaces off, so
// that the reason is known before anything has been made. A host that denies
// them in another way (a security module) is found out by libcontainer: Ubuntu's
// restriction is no switch, since a profile may permit this very program.
func probeUserNamespaces() error {
	for _, f := range host.Here().Switches() {
		if f.State == host.No {
			return &jailer.Error{
				Code: jailer.CodeIsolationUnavailable, Reason: f.ID, Message: f.Reason, Hint: f.Hint,
			}
		}
	}
	return nil
}

// unavailable turns a cgroup refusal into ours.
func unavailable(err error) error {
	e := &jailer.Error{Code: jailer.CodeIsolationUnavailable, Err: err}
	var u *cgroup.Unavailable
	var ce *cgroup.Error
	if errors.As(err, &ce) {
		e.Hint = ce.Hint
	}
	if errors.As(err, &u) {
		e.Reason, e.Hint = u.ID, u.Hint
		if os.Geteuid() != 0 {
			e.Hint += `; or, if rlimits are enough for you, a policy with [limits] enforce = "best-effort"`
		}
	}
	return e
}

// checkRequired compares the profile's require list with what will hold.
func (r *run) checkRequired() error {
	held := r.isolation()
	for _, want := range r.plan.Require {
		ok := false
		switch want {
		case "userns":
			ok = held.UserNS
		case "netns":
			ok = held.NetNS
		case "seccomp":
			ok = held.Seccomp != ""
		case "apparmor":
			ok = held.AppArmor != ""
		case "landlock":
			ok = held.LandlockABI > 0
		default:
			how, found := held.Limits[strings.TrimSuffix(want, "s")]
			if !found {
				how, found = held.Limits[want]
			}
			// A stand-in is not what "require" asks for.
			ok = found && how != "rlimit" && !slices.Contains(held.NotEnforced, want)
		}
		if !ok {
			return &jailer.Error{
				Code: jailer.CodeIsolationUnavailable, Reason: "require." + want,
				Message: fmt.Sprintf("profile %q requires %q, which can't be enforced here", r.plan.Profile, want),
				Hint:    "run `jailer doctor` for what this host lacks",
			}
		}
	}
	return nil
}

// Step 4: nothing that the caller left open reaches the jail, and no variable
// of the caller's steers us or our helpers. Inherited descriptors are marked
// close-on-exec, not closed: one of them may be the caller's --result-fd.
func (r *run) closeDescriptors() error {
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

// Step 5: the state directory, the lock, the record, renamed in whole.
func (r *run) makeState() error {
	dir, err := state.Open(r.o.StateDir, r.o.XDGRuntimeDir)
	if err != nil {
		return noState(err)
	}
	if dir.Hint != "" {
		r.log.Debug(dir.Hint)
	}
	if r.ids.owned {
		if err := r.takeUID(); err != nil {
			return err
		}
	}
	rec := state.Record{ID: r.o.ID, CreatedAt: r.o.Began.UTC(), HostUID: int(r.ids.uid)}
	if r.base != nil {
		r.cgroupName = dir.CgroupName(r.o.ID)
		rec.Cgroups = r.base.Plan(r.cgroupName)
	}
	s, err := dir.Create(rec)
	if errors.Is(err, state.ErrExists) {
		return &jailer.Error{
			Code: jailer.CodeSessionExists, Err: err,
			Hint: "choose another --id; `jailer gc` removes what a crash left",
		}
	}
	if err != nil {
		return noState(err)
	}
	r.session = s
	r.later(func() error {
		if r.leaked() {
			s.Abandon() // the record stays, for gc
			return nil
		}
		return s.Remove()
	})
	return nil
}

func noState(err error) error {
	return &jailer.Error{
		Code: jailer.CodeInternal, Op: "state", Reason: "state.dir", Message: "the state directory can't be used", Err: err,
		Hint: "name one that this user owns, on a file system with room, with --state-dir",
	}
}
