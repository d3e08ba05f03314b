package launch

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/container"
	"github.com/jailer-project/jailer/internal/host"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/policy"
)

// Step 1: read the request, strictly.
func (j *Jail) readRequest() (err error) {
	j.request, err = parseRequest(j.o.Request)
	return err
}

func parseRequest(doc []byte) (*jailer.Request, error) {
	if doc == nil {
		return nil, nil
	}
	return jailer.ParseRequest(doc)
}

// resolve is the first step of a command in a session.
func (c *command) resolve() error {
	req, err := parseRequest(c.o.Request)
	if err != nil {
		return err
	}
	c.o.Overrides.HostCPUs, c.o.Overrides.Service = runtime.NumCPU(), c.o.Service
	plan, err := policy.ResolveExec(c.j.o.Policy, c.j.plan, req, c.o.Overrides)
	if err != nil {
		return err
	}
	c.plan = plan
	if c.o.Service {
		// Its output goes on for as long as it does; who keeps it bounds it.
		plan.Limits.MaxOutput, plan.OutputKeep, plan.OnOutputLimit = math.MaxInt64, jailer.KeepHead, jailer.OnLimitTruncate
	}
	if c.o.Overrides.AppArmorRequired && !c.j.armor {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "apparmor.session",
			Message: "AppArmor is required, and the session was created without", Hint: "create the session with --apparmor required",
		}
	}
	if err := c.j.mayExecute(plan); err != nil {
		return err
	}
	for _, need := range needs(plan) {
		if plan.Enforce != policy.EnforceBestEffort && !c.j.holds(need) {
			return &jailer.Error{
				Code: jailer.CodeIsolationUnavailable, Reason: "session.controller",
				Message: fmt.Sprintf("the session has no %s controller", need), Hint: "ask for such a limit when the session is created",
			}
		}
	}
	return c.allowed()
}

// Step 2: resolve it against the policy.
func (j *Jail) resolve() error {
	j.o.Overrides.HostCPUs = runtime.NumCPU()
	j.o.Overrides.Session = j.only == nil
	plan, err := policy.Resolve(j.o.Policy, j.request, j.o.Overrides)
	if err != nil {
		return err
	}
	j.plan = plan
	if err := j.mayExport(); err != nil {
		return err
	}
	if j.o.Seed, err = j.o.Seed.Join(plan); err != nil {
		return err
	}
	for _, w := range j.o.Seed.Warnings() {
		if j.o.Warn != nil {
			j.o.Warn(w)
		}
	}
	if j.o.ID == "" {
		j.o.ID = state.NewID()
	}
	if err := state.CheckID(j.o.ID); err != nil {
		return &jailer.Error{Code: jailer.CodeInvalidRequest, Path: "--id", Err: err}
	}
	return j.authorize()
}

// Step 3: probe what the plan needs. "Could not tell" counts as no.
func (j *Jail) probe() error {
	if err := checkOwner(j.o.OwnerPID); err != nil {
		return err
	}
	if err := j.probeBuild(); err != nil {
		return err
	}
	if err := probeUserNamespaces(); err != nil {
		return err
	}
	if err := j.chooseAppArmor(); err != nil {
		return err
	}
	if err := j.chooseIDs(); err != nil {
		return err
	}
	if f := host.Here().CPUs(j.plan.CPUSet); f.Failed() {
		return refusal(&f)
	}
	bestEffort := j.plan.Enforce == policy.EnforceBestEffort
	base, err := findBase(j.o.XDGRuntimeDir, needs(j.plan), bestEffort)
	if err != nil {
		if !bestEffort {
			// Inside a container or another jail the cgroups are seldom the only
			// thing that lacks; what no policy gets around comes first.
			if f := host.Here().Refusal(); f != nil {
				return refusal(f)
			}
			return unavailable(err)
		}
		j.log.Info("not all limits are cgroups', rlimits stand in", "reason", err)
	}
	j.base = base
	if base != nil {
		j.held = slices.DeleteFunc(needs(j.plan), func(c string) bool { return !base.Has(c) })
	}
	if err := j.chooseExecutables(); err != nil {
		return err
	}
	if err := j.checkRequired(); err != nil {
		return err
	}
	if err := j.judgeMounts(); err != nil {
		return err
	}
	return j.approve()
}

// probeBuild refuses what an incomplete or damaged program can't do. The
// embedded filter and PID 1 carry their checksums.
func (j *Jail) probeBuild() error {
	if !container.SeccompBuilt {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Reason: "build.seccomp",
			Message: "this jailer was built without its seccomp filter and PID 1",
			Hint:    "build it with `make build`; a plain `go build` has no isolation to offer",
		}
	}
	if err := j.loadFilter(); err != nil {
		return err
	}
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
			return refusal(&f)
		}
	}
	return nil
}

func refusal(f *host.Finding) *jailer.Error {
	return &jailer.Error{Code: jailer.CodeIsolationUnavailable, Reason: f.ID, Message: f.Reason, Hint: f.Hint}
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
func (j *Jail) checkRequired() error {
	held := j.isolation(j.plan)
	for _, want := range j.plan.Require {
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
			ok = want == "workspace" && j.plan.Workspace != nil || // looked at when it is there
				found && how != "rlimit" && !slices.Contains(held.NotEnforced, want)
		}
		if !ok {
			return &jailer.Error{
				Code: jailer.CodeIsolationUnavailable, Reason: "require." + want,
				Message: fmt.Sprintf("profile %q requires %q, which can't be enforced here", j.plan.Profile, want),
				Hint:    "run `jailer doctor` for what this host lacks",
			}
		}
	}
	return nil
}
