package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/container"
	"github.com/jailer-project/jailer/internal/host"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/seccomp"
	"github.com/jailer-project/jailer/seccomp/compiled"
)

type doctorFlags struct {
	policy, profile string
	json            bool
}

func (a *app) doctorCommand() *cobra.Command {
	f := &doctorFlags{}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can enforce, and how to mend what it can't",
		Long: `Say what this host can and can't enforce for this user, and for what is missing
the command or file that mends it. Run it as the user, and from the place, that
jailer will be run by: rights differ between a login, a service and a container.
Where a run would move itself to a scope of the user's systemd manager, so does
doctor.

Each line has an id, an answer (yes, no, or unknown) and what was found. What the
profile needs is marked; there, "unknown" counts as no. The ids are those that a
refused run gives as details.reason, and the sections of docs/host-setup.md.

Exit status: 0 the profile can be enforced; 1 something that it needs can't be;
2 usage.`,
		Args: exactly(0),
		RunE: func(*cobra.Command, []string) error { return a.doctor(f) },
	}
	c.Flags().StringVar(&f.policy, "policy", "", "operator's policy `FILE` (default /etc/jailer/policy.toml, else the built-in one)")
	c.Flags().StringVar(&f.profile, "profile", "", "profile `NAME` of the policy (default \"default\")")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON document")
	c.AddCommand(&cobra.Command{
		Use:    host.TrialArgs[1],
		Short:  "The part of doctor that runs in new namespaces",
		Hidden: true,
		Args:   exactly(0),
		RunE:   func(*cobra.Command, []string) error { a.code = host.Inside(); return nil },
	})
	return c
}

// diagnosis is the document of --json.
type diagnosis struct {
	V        int            `json:"v"`
	OK       bool           `json:"ok"`
	Profile  string         `json:"profile"`
	Policy   string         `json:"policy"`
	UID      int            `json:"uid"`
	Kernel   string         `json:"kernel"`
	Arch     string         `json:"arch"`
	Failed   []string       `json:"failed"`
	Findings []host.Finding `json:"findings"`
}

func (a *app) doctor(f *doctorFlags) error {
	p, err := policy.Load(f.policy)
	if err != nil {
		return err
	}
	plan, err := policy.Resolve(p, nil, policy.Overrides{
		Profile: f.profile, Argv: []string{"true"}, HostCPUs: runtime.NumCPU(),
	})
	if err != nil {
		return err
	}
	h := host.Here()
	h.Cgroups = launch.CheckCgroups(a.xdg, plan)
	found := h.Check(a.want(p, plan))
	failed := host.Failed(found)
	if len(failed) > 0 {
		a.code = 1
	}
	if f.json {
		if failed == nil {
			failed = []string{}
		}
		return writeJSON(a.out, diagnosis{
			V: jailer.ProtocolVersion, OK: len(failed) == 0, Profile: plan.Profile, Policy: p.Name,
			UID: h.UID, Kernel: h.Release, Arch: h.Arch, Failed: failed, Findings: found,
		})
	}
	_, err = fmt.Fprintf(a.out, "profile %s of policy %s, uid %d, Linux %s, %s\n\n%s",
		printable(plan.Profile), printable(p.Name), h.UID, printable(h.Release), h.Arch, table(found))
	if err != nil {
		return err
	}
	if len(failed) == 0 {
		_, err = fmt.Fprintln(a.out, "\neverything that the profile needs can be enforced here")
	} else {
		_, err = fmt.Fprintf(a.out, "\nmissing: %s (docs/host-setup.md has a section for each)\n", strings.Join(failed, ", "))
	}
	return err
}

// want is the plan as the probes read it.
func (a *app) want(p *policy.Policy, plan *policy.Plan) host.Want {
	w := host.Want{
		BestEffort: plan.Enforce == policy.EnforceBestEffort,
		IDRange:    plan.IDs == policy.IDsRange,
		UIDRange:   plan.UIDRange,
		CPUSet:     plan.CPUSet,
		Seccomp:    plan.Seccomp,
		Filter:     host.Filter{Path: plan.SeccompPath},
		AppArmor:   plan.AppArmor,
		Rootfs:     plan.Rootfs.Name, RootPath: plan.Rootfs.Path,
		Executables: plan.Exec != nil && plan.Exec.Enforce == policy.EnforceDescendants, Require: plan.Require,
		StateDir: a.stateDir, RuntimeDir: a.xdg, DataHome: os.Getenv("XDG_DATA_HOME"), Home: os.Getenv("HOME"),
		Events: p.Events.Path, EventsNeeded: p.Events.OnError == policy.SinkFail,
		Build: host.Build{Seccomp: container.SeccompBuilt},
		CheckUIDRange: func(passwd, subuid []byte) (reason, hint string) {
			err := policy.CheckUIDRange(plan.UIDRange, passwd, subuid)
			if err == nil {
				return "", ""
			}
			var e *jailer.Error
			if errors.As(err, &e) {
				hint = e.Hint
			}
			return err.Error(), hint
		},
	}
	for name, dir := range p.Roots() {
		w.Roots = append(w.Roots, host.Root{Name: name, Path: dir})
	}
	slices.SortFunc(w.Roots, func(a, b host.Root) int { return strings.Compare(a.Name, b.Name) })
	if w.Build.Seccomp {
		for _, name := range seccomp.Builtin() {
			if _, err := compiled.Filter(name); err != nil {
				w.Build.Filter = err
			}
		}
		_, w.Build.PID1 = pid1.Binary()
	}
	if w.Build.Seccomp && plan.SeccompPath != "" {
		if _, err := launch.Filter(p, plan.Seccomp); err != nil {
			w.Filter.Err = err.Error()
			if e, ok := errors.AsType[*jailer.Error](err); ok {
				w.Filter.Hint = e.Hint
			}
		}
	}
	return w
}

// table lays the findings out in columns. What isn't "yes" has what mends it
// below it.
func table(found []host.Finding) string {
	width := len("id")
	for _, f := range found {
		width = max(width, len(f.ID))
	}
	var b strings.Builder
	row(&b, width, "ID", "ANSWER", "NEEDED", "FOUND")
	for _, f := range found {
		needed := "-"
		if f.Needed {
			needed = "needed"
		}
		text := f.Reason
		if f.Where != "" && !strings.Contains(text, f.Where) {
			text += " (" + f.Where + ")"
		}
		row(&b, width, f.ID, string(f.State), needed, text)
		if f.Cause != "" {
			row(&b, width, "", "", "", "reason: "+f.Cause)
		}
		if f.Hint != "" && f.State != host.Yes || f.Hint != "" && f.ID == "state.dir" {
			row(&b, width, "", "", "", "mend: "+f.Hint)
		}
	}
	return b.String()
}

func row(w io.Writer, width int, id, answer, needed, text string) {
	fmt.Fprintf(w, "%-*s  %-7s  %-6s  %s\n", width, id, answer, needed, printable(text))
}
