// Package ways holds the program to what it must answer on hosts that are
// arranged in different ways: with and without a delegated cgroup, with user
// namespaces switched off, with and without a range of ids. A test bed makes one
// of them and names it in JAILER_WAY:
//
//	root       root, in a service of the system, cgroup v2
//	delegated  a user without a range of ids, in a cgroup that is his, with memory, pids and cpu
//	partial    the same with memory and pids alone
//	none       the user in a service of the system, where no cgroup is his; his manager lingers
//	session    the user in a login session, as ssh opens it
//	pidns      as none, in another pid namespace
//	container  the user in a private cgroup namespace whose root is his
//	unequipped as none, and the user's manager has no message bus
//	hung       as none, and the bus never answers
//	nomanager  as none, and nothing of systemd's runs for the user
//	dropin     the user after the drop-in was written that the refusal's hint names
//	ranged     a user with a range in /etc/subuid, delegated
//	nouserns   user.max_user_namespaces is 0
//	noclone    kernel.unprivileged_userns_clone is 0
//	apparmor   the delegated user, with jailer's AppArmor profiles loaded
//	armorroot  root with them, and the program installed where the launcher's is attached
//	nested     root: inside podman's containers, as root and as a user, and inside another jail
//	mend       root: breaks one thing after another, and does what doctor and the page say
//
// A way that refuses must refuse before the command starts, with the reason, the
// file and what mends it; where some policy can still run it, that is the control.
package ways

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

func TestMain(m *testing.M) { jail.Main(m) }

var ways = map[string]func(*testing.T){
	"root":       root,
	"delegated":  delegated,
	"partial":    partial,
	"none":       none,
	"session":    session,
	"pidns":      pidNamespace,
	"container":  containerRoot,
	"unequipped": unequipped,
	"hung":       hung,
	"nomanager":  noManager,
	"dropin":     dropin,
	"ranged":     ranged,
	"nouserns":   noUserNamespaces,
	"noclone":    noClone,
	"apparmor":   appArmor,
	"armorroot":  appArmorRoot,
	"nested":     nested,
	"mend":       mend,
}

func TestWay(t *testing.T) {
	name := os.Getenv("JAILER_WAY")
	need.Feature(t, "way", name != "", "JAILER_WAY doesn't say how this host is arranged")
	way := ways[name]
	if way == nil {
		t.Fatalf("JAILER_WAY=%q is none of %q", name, slices.Sorted(maps.Keys(ways)))
	}
	t.Run(name, way)
}

// The command of every run here: it says so if it runs.
var job = jail.Job{Sh: "echo RAN"}

func with(flags ...string) jail.Job {
	j := job
	j.Flags = flags
	return j
}

// builtin is c without a policy of its own: limits are required.
func builtin(c *jail.Caller) *jail.Caller {
	d := *c
	d.Policy = ""
	return &d
}

// ran wants the command's word, and this behind its limits.
func ran(t *testing.T, o *jail.Outcome, by string) *jailer.Result {
	t.Helper()
	r := o.Said(t, "RAN\n")
	for _, limit := range []string{"memory", "pids", "cpu"} {
		got, want := o.LimitedBy(limit), by
		if by == "rlimit" && limit == "cpu" {
			want = "" // there is no such rlimit
		}
		if got != want {
			t.Errorf("%s is held by %q, want %q", limit, got, want)
		}
		if told := slices.Contains(r.Isolation.NotEnforced, limit); told != (want == "") {
			t.Errorf("%s is held by %q, and notEnforced is %v", limit, got, r.Isolation.NotEnforced)
		}
	}
	if told := slices.Contains(r.Isolation.NotEnforced, "swap"); told != (by == "rlimit" && cgroup.SwapOn()) {
		t.Errorf("memory is held by %q, the host has swap: %v, and notEnforced is %v", by, cgroup.SwapOn(), r.Isolation.NotEnforced)
	}
	return r
}

// refused wants exit status 125 before the command started, this reason and
// each of the words in message or hint.
func refused(t *testing.T, o *jail.Outcome, reason string, words ...string) {
	t.Helper()
	if strings.Contains(o.Stdout+o.Stderr, "RAN\n") || strings.Contains(o.Stdout, `RAN\n`) {
		t.Fatalf("the command ran:\n%s", o)
	}
	o.Refused(t, 125, jailer.CodeIsolationUnavailable, words...)
	if o.Err.Reason != reason || o.Err.Hint == "" {
		t.Errorf("the reason is %q, want %q and a hint:\n%s", o.Err.Reason, reason, o)
	}
}

// finding is one of `jailer doctor --json`, as far as it is looked at here.
type finding struct {
	ID, State, Reason, Hint, Cause string
	Needed                         bool
}

// doctor wants exactly these ids to be what a run would be refused for, and the
// exit status that goes with it. It returns the findings by id.
func doctor(t *testing.T, c *jail.Caller, failed ...string) map[string]finding {
	t.Helper()
	args := []string{"doctor", "--json"}
	if c.Policy != "" {
		args = append(args, "--policy", c.Policy)
	}
	return diagnosis(t, c.Do(t, jail.Job{Raw: true}, args...), c.UID, failed)
}

// diagnosis reads what `jailer doctor --json` said and wants exactly these ids to
// be missing.
func diagnosis(t *testing.T, o *jail.Outcome, uid int, failed []string) map[string]finding {
	t.Helper()
	var doc struct {
		OK       bool
		UID      int
		Failed   []string
		Findings []finding
	}
	if err := json.Unmarshal([]byte(o.Stdout), &doc); err != nil {
		t.Fatalf("no document: %v\n%s", err, o)
	}
	want := 0
	if len(failed) > 0 {
		want = 1
	}
	failed = slices.Sorted(slices.Values(failed))
	slices.Sort(doc.Failed)
	if o.Code != want || doc.OK != (want == 0) || doc.UID != uid || !slices.Equal(doc.Failed, failed) {
		t.Errorf("doctor: exit status %d, ok %v, uid %d, failed %q; want exit status %d and %q:\n%s",
			o.Code, doc.OK, doc.UID, doc.Failed, want, failed, o)
	}
	out := map[string]finding{}
	for _, f := range doc.Findings {
		out[f.ID] = f
		if f.Needed && f.State != "yes" && f.Hint == "" {
			t.Errorf("doctor: no hint for %s:\n%s", f.ID, o)
		}
	}
	return out
}

// differs are the warnings that differ between guests, with their kernels' age, and
// between ways, with what is loaded and where the caller's home is.
var differs = []string{"kernel.bugs", "kernel.patches", "apparmor", "apparmor.profile", "landlock", "data.dir"}

// warned wants exactly these ids to be warnings: what no run is refused for, and
// is not a yes. No guest has NTP.
func warned(t *testing.T, fs map[string]finding, ids ...string) {
	t.Helper()
	want := slices.Sorted(slices.Values(append([]string{"clock.synced"}, ids...)))
	var got []string
	for _, f := range fs {
		if !f.Needed && f.State != "yes" && !slices.Contains(differs, f.ID) {
			got = append(got, f.ID)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("doctor warns of %q, want %q", got, want)
	}
}

// found wants this answer to an id.
func found(t *testing.T, fs map[string]finding, id, state string) finding {
	t.Helper()
	f, ok := fs[id]
	if !ok || f.State != state {
		t.Errorf("doctor: %s is %+v, want %s", id, f, state)
	}
	return f
}
