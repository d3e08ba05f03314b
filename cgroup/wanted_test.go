package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const wide = "cpuset cpu io memory pids"

// newWanted is a jail in a subtree with every controller, found for need.
func newWanted(t *testing.T, f *fake, need ...string) *Jail {
	t.Helper()
	f.v2("", "/", "rw", wide)
	f.cgroup("u/run.scope", wide)
	f.own("/u/run.scope")
	f.owned = []string{"u/run.scope"}
	o := f.options()
	o.Need = append(Controllers(), need...)
	b, err := Find(o)
	if err != nil {
		t.Fatal(err)
	}
	j, err := b.Create("7", -1)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Controllers that only a limit asks for are enabled for that limit alone.
func TestWantedControllers(t *testing.T) {
	for _, c := range []struct {
		need []string
		want string
	}{{nil, "memory pids cpu"}, {[]string{"io"}, "memory pids cpu io"}, {[]string{"cpuset", "io"}, "memory pids cpu cpuset io"}} {
		f := newFake(t, 1000)
		j := newWanted(t, f, c.need...)
		if got := f.read("u/run.scope/jail-7/cgroup.subtree_control"); got != c.want {
			t.Errorf("need %q: %q, want %q", c.need, got, c.want)
		}
		if len(c.need) == 2 {
			continue
		}
		_, err := j.NewJob(9, Limits{CPUSet: "0", IORead: 1})
		if u, ok := errors.AsType[*Unavailable](err); !ok || u.ID != "cgroup.controller.cpuset" || u.Hint == "" {
			t.Errorf("need %q: %v", c.need, err)
		}
	}
	// One that is not delegated is named, and v1 is not used for it.
	f := newFake(t, 1000)
	f.v2("", "/", "rw", wide)
	f.cgroup("u/run.scope", "cpuset cpu memory pids")
	f.own("/u/run.scope")
	f.owned = []string{"u/run.scope"}
	o := f.options()
	o.Need = append(Controllers(), "io")
	_, err := Find(o)
	if u, ok := errors.AsType[*Unavailable](err); !ok || u.ID != "cgroup.delegation.io" || u.Controller != "io" || !strings.Contains(u.Hint, "Delegate=cpu cpuset io") {
		t.Errorf("%v", err)
	}
	f = newFake(t, 0)
	for _, c := range controllers {
		f.v1(c, "rw", c)
	}
	o = f.options()
	o.Need = append(Controllers(), "cpuset")
	_, err = Find(o)
	if u, ok := errors.AsType[*Unavailable](err); !ok || u.ID != "cgroup.v2only.cpuset" || !strings.Contains(u.Reason, "v2 alone") {
		t.Errorf("%v", err)
	}
}

// TestCheckWanted: Check names what Find would refuse for, also where v2 has the
// controller and v1 the limits that every job has.
func TestCheckWanted(t *testing.T) {
	for _, v2 := range []string{"", "cpuset io"} {
		f := newFake(t, 0)
		for _, c := range controllers {
			f.v1(c, "rw", c)
		}
		f.v2("unified", "/", "rw", v2)
		f.own("/")
		o := f.options()
		o.Need = append(Controllers(), wanted...)
		_, found := Check(o)
		for _, g := range found {
			switch {
			case slices.Contains(controllers, g.Controller) && g.State != Yes:
				t.Errorf("v2 has %q: %+v", v2, g)
			case slices.Contains(wanted, g.Controller):
				o.Need = append(Controllers(), g.Controller)
				_, err := Find(o)
				u, _ := errors.AsType[*Unavailable](err)
				if u == nil || g.Cause == nil || g.Cause.ID != u.ID || u.ID != "cgroup.v2only."+g.Controller || g.Hint != hintBoot {
					t.Errorf("v2 has %q: %+v, and Find says %v", v2, g, err)
				}
			}
		}
	}
}

// The kernel takes a set of CPUs that are not there, and uses others.
func TestCPUSet(t *testing.T) {
	for effective, works := range map[string]bool{"0-1": true, "0": false, "0-3": false, "": false} {
		f := newFake(t, 1000)
		f.effective = effective
		_, err := newWanted(t, f, "cpuset").NewJob(1, Limits{CPUSet: "0-1"})
		if (err == nil) != works {
			t.Errorf("effective %q: %v", effective, err)
		}
		if works {
			if got := f.read("u/run.scope/jail-7/job-1/cpuset.cpus"); got != "0-1" {
				t.Errorf("cpuset.cpus is %q", got)
			}
		}
	}
}

func TestIO(t *testing.T) {
	disk := func(f *fake, name, dev, size string) {
		dir := filepath.Join(f.blocks, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		f.write(filepath.Join(dir, "dev"), dev+"\n")
		f.write(filepath.Join(dir, "size"), size+"\n")
	}
	try := func(l Limits, disks ...string) (string, error) {
		f := newFake(t, 1000)
		f.blocks = t.TempDir()
		for i, d := range disks {
			dev, size, _ := strings.Cut(d, " ")
			disk(f, string(rune('a'+i)), dev, size)
		}
		j := newWanted(t, f, "io")
		if _, err := j.NewJob(1, l); err != nil {
			return "", err
		}
		return f.read("u/run.scope/jail-7/job-1/io.max"), nil
	}
	for _, c := range []struct {
		l    Limits
		want string
	}{
		{Limits{IORead: 1 << 20}, "254:0 rbps=1048576 wbps=max"},
		{Limits{IOWrite: 5}, "254:0 rbps=max wbps=5"},
		{Limits{Pids: 3}, ""},
	} {
		if got, err := try(c.l, "7:0 0", "254:0 2048"); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v, want %q", c.l, got, err, c.want)
		}
	}
	// The fake file has room for one device: the first is not there any more.
	if _, err := try(Limits{IORead: 1}, "8:0 9", "8:16 9"); err == nil || !strings.Contains(err.Error(), "read back") {
		t.Errorf("a device without a bound: %v", err)
	}
	for _, disks := range [][]string{nil, {"7:0 0"}} {
		_, err := try(Limits{IORead: 1}, disks...)
		if u, ok := errors.AsType[*Unavailable](err); !ok || u.ID != "cgroup.io.device" || u.Hint == "" {
			t.Errorf("devices %q: %v", disks, err)
		}
	}
}

func TestParseStall(t *testing.T) {
	for text, want := range map[string]*Stall{
		"some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n": {12 * time.Microsecond, 7 * time.Microsecond},
		"some avg10=99.00 total=3\n": {3 * time.Microsecond, 0},
		"full avg10=0.00 total=3\n":  nil,
		"":                           nil,
		"some\n":                     nil,
		"some avg10=0.00 total=-3\n": nil,
		"some avg10=0.00 total=x\n":  nil,
		"some avg10=0.00\n":          nil,
	} {
		got, err := parseStall(text)
		if (err == nil) != (want != nil) || want != nil && *got != *want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}

// BASE/launcher goes with the jail of a launcher that was killed, unless somebody
// is in it.
func TestRealReapLauncher(t *testing.T) {
	b := unifiedBase(t)
	base := b.places[0].dir
	leaf := filepath.Join(base, launcherDir)
	if err := b.o.mkdir(leaf); err != nil {
		t.Fatal(err)
	}
	cmd := sleeper(t, leaf)
	jail := []string{filepath.Join(base, "jail-gone")}
	if err := Reap(within(t, 5*time.Second), jail); err != nil || !exists(leaf) {
		t.Errorf("with somebody in it: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	other := filepath.Join(base, "other")
	if err := b.o.mkdir(other); err != nil {
		t.Fatal(err)
	}
	if err := Reap(within(t, 5*time.Second), jail); err != nil || exists(leaf) || !exists(other) {
		t.Errorf("empty: %v, launcher %v, other %v", err, exists(leaf), exists(other))
	}
	plain := t.TempDir()
	if err := os.Mkdir(filepath.Join(plain, launcherDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if _ = Reap(within(t, 5*time.Second), []string{filepath.Join(plain, "jail-x")}); !exists(filepath.Join(plain, launcherDir)) {
		t.Error("a plain directory was removed")
	}
}
