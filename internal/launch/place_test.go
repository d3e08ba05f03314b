package launch

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/internal/usermanager"
	"github.com/jailer-project/jailer/policy"
)

// TestWithManager: of a cgroup that never was the caller's the manager is the
// reason; of one that lacks a controller, that it lacks.
func TestWithManager(t *testing.T) {
	manager := &usermanager.Error{ID: "cgroup.manager", Reason: "none runs", Hint: "start one"}
	for _, c := range []struct {
		id, wantID, wantHint string
		err                  error
	}{
		{"cgroup.delegation", "cgroup.manager", "start one", manager},
		{"cgroup.threaded", "cgroup.manager", "start one", manager},
		{"cgroup.delegation.cpu", "cgroup.delegation.cpu", "delegate", manager},
		{"cgroup.delegation", "cgroup.delegation", "delegate", errors.New("not ours")},
	} {
		u := &cgroup.Unavailable{ID: c.id, Reason: "not yours", Hint: "delegate"}
		got := withManager(u, c.err)
		if got.ID != c.wantID || got.Hint != c.wantHint || !strings.HasPrefix(got.Reason, "not yours") {
			t.Errorf("%s: %+v", c.id, got)
		}
		if c.err == manager && !strings.Contains(got.Reason, "none runs") {
			t.Errorf("%s: %+v", c.id, got)
		}
		if u.ID != c.id {
			t.Error("the first refusal was changed")
		}
	}
}

// TestMovable: what is mounted, no scope changes, and root needs none.
func TestMovable(t *testing.T) {
	for id, want := range map[string]bool{
		"cgroup.delegation": true, "cgroup.delegation.cpu": true, "cgroup.threaded": true,
		"cgroup.own": false, "cgroup.v1.memory": false, "cgroup.readonly": false, "cgroup.mounted": false, "cgroup.controller.io": false,
	} {
		want = want && os.Geteuid() != 0
		if got := movable(&cgroup.Unavailable{ID: id}) != nil; got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	if movable(errors.New("x")) != nil || movable(nil) != nil {
		t.Error("no refusal, and movable")
	}
}

// TestCheckCgroups: doctor asks the manager once at most, and for nothing that
// no limit of the profile needs.
func TestCheckCgroups(t *testing.T) {
	check, enter, uid := checkCgroups, enterScope, geteuid
	t.Cleanup(func() { checkCgroups, enterScope, geteuid = check, enter, uid })
	geteuid = func() int { return 1000 }
	for _, c := range []struct {
		name, lacks string
		answer      error
		asks        int
	}{
		{"has all", "io", nil, 0},
		{"hung", "cpu io", &usermanager.Error{ID: "cgroup.manager.timeout", Reason: "silence"}, 1},
		{"moved", "cpu io", nil, 1},
	} {
		asks := 0
		enterScope = func(string) (string, error) { asks++; return "x.scope", c.answer }
		checkCgroups = func(o cgroup.Options) (*cgroup.Layout, []cgroup.Finding) {
			var out []cgroup.Finding
			for _, ctl := range o.Need {
				f := cgroup.Finding{Controller: ctl, State: cgroup.Yes}
				if slices.Contains(strings.Fields(c.lacks), ctl) {
					f.Refuse(&cgroup.Unavailable{Controller: ctl, ID: "cgroup.delegation." + ctl})
				}
				out = append(out, f)
			}
			return nil, out
		}
		doctor := CheckCgroups("", &policy.Plan{})
		doctor(cgroup.Options{})
		_, found := doctor(cgroup.Options{Need: []string{"cpuset", "io"}})
		last := found[len(found)-1]
		if asks != c.asks || last.Cause.ID != "cgroup.delegation.io" {
			t.Errorf("%s: asked %d times, %+v", c.name, asks, last)
		}
		if told := strings.Contains(last.Reason, "silence"); told != (c.answer != nil) {
			t.Errorf("%s: %q", c.name, last.Reason)
		}
	}
}

// TestSwapNotEnforced: an rlimit keeps nobody from the host's swap.
func TestSwapNotEnforced(t *testing.T) {
	was := swapOn
	t.Cleanup(func() { swapOn = was })
	for _, c := range []struct {
		held []string
		swap bool
		want []string
	}{
		{nil, true, []string{"cpu", "swap"}},
		{nil, false, []string{"cpu"}},
		{[]string{"memory", "pids"}, true, []string{"cpu"}},
		{[]string{"pids", "cpu"}, true, []string{"swap"}},
	} {
		swapOn = func() bool { return c.swap }
		if got := (&Jail{held: c.held}).isolation(&policy.Plan{}).NotEnforced; !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
