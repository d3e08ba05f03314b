package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const all = "cpuset cpu io memory pids"

func TestRefusals(t *testing.T) {
	const scope = "/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope"
	for _, tc := range []struct {
		name  string
		make  func(t *testing.T) *fake
		id    string
		ctl   string
		file  string // suffix
		words []string
	}{
		{
			name: "unprivileged v1",
			make: func(t *testing.T) *fake {
				f := newFake(t, 1000)
				f.v1("memory", "rw", "memory")
				f.v1("pids", "rw", "pids")
				f.v1("cpu,cpuacct", "rw", "cpu,cpuacct")
				return f
			},
			id: "cgroup.v1.memory", ctl: "memory", file: "/memory", words: []string{"v1", "root", "unified_cgroup_hierarchy=1"},
		},
		{
			name: "unprivileged hybrid",
			make: func(t *testing.T) *fake {
				f := newFake(t, 1000)
				f.v1("memory", "rw", "memory")
				f.v1("pids", "rw", "pids")
				f.v1("cpu", "rw", "cpu")
				f.v2("unified", "/", "rw", "hugetlb")
				return f
			},
			id: "cgroup.v1.memory", ctl: "memory", file: "/memory",
		},
		{
			name: "unprivileged v2, not delegated",
			make: func(t *testing.T) *fake {
				f := newFake(t, 1000)
				f.v2("", "/", "rw", all)
				f.cgroup("user.slice/user-1000.slice/session-3.scope", "memory pids")
				f.own("/user.slice/user-1000.slice/session-3.scope")
				return f
			},
			id: "cgroup.delegation", ctl: "memory, pids, cpu", file: "session-3.scope",
			words: []string{"systemd-run --user --scope -p Delegate=yes -- jailer run", "root"},
		},
		{
			name: "v2 mounted elsewhere",
			make: func(t *testing.T) *fake {
				f := newFake(t, 0)
				f.v2("elsewhere", "/", "rw", all)
				return f
			},
			id: "cgroup.mountpoint", ctl: "memory, pids, cpu", file: "/elsewhere", words: []string{"mount -t cgroup2 -o nsdelegate"},
		},
		{
			name: "in the true root",
			make: func(t *testing.T) *fake {
				f := newFake(t, 1000)
				f.v2("", "/", "rw", all)
				return f
			},
			id: "cgroup.delegation", ctl: "memory, pids, cpu", words: []string{"systemd-run"},
		},
		{
			name: "cpu not delegated",
			make: func(t *testing.T) *fake {
				f := newFake(t, 1000)
				f.v2("", "/", "rw", all)
				f.cgroup(scope, "memory pids")
				f.own(scope)
				f.owned = []string{"user.slice/user-1000.slice/user@1000.service"}
				return f
			},
			id: "cgroup.delegation.cpu", ctl: "cpu", file: "run-1.scope/cgroup.controllers",
			words: []string{"/etc/systemd/system/user@.service.d/delegate.conf", "Delegate=cpu cpuset io memory pids", "memory, pids"},
		},
		{
			name: "v2 mounted read-only",
			make: func(t *testing.T) *fake {
				f := newFake(t, 0)
				f.v2("", "/", "ro", all)
				return f
			},
			id: "cgroup.readonly", ctl: "memory, pids, cpu", words: []string{"read-only"},
		},
		{
			name: "one v1 controller mounted read-only",
			make: func(t *testing.T) *fake {
				f := newFake(t, 0)
				f.v1("memory", "rw", "memory")
				f.v1("pids", "ro", "pids")
				f.v1("cpu", "rw", "cpu")
				return f
			},
			id: "cgroup.readonly.pids", ctl: "pids", file: "/pids",
		},
		{
			name: "split",
			make: func(t *testing.T) *fake {
				f := newFake(t, 0)
				f.v1("cpu", "rw", "cpu,cpuacct")
				f.v2("unified", "/", "rw", "memory pids")
				return f
			},
			id: "cgroup.split", ctl: "cpu", words: []string{"memory, pids"},
		},
		{
			name: "memory switched off at boot",
			make: func(t *testing.T) *fake {
				f := newFake(t, 0)
				f.v2("", "/", "rw", "cpu pids")
				return f
			},
			id: "cgroup.controller.memory", ctl: "memory", file: "cgroup.controllers", words: []string{"cgroup_disable"},
		},
		{name: "nothing mounted", make: func(t *testing.T) *fake { return newFake(t, 0) }, id: "cgroup.mounted", ctl: "memory, pids, cpu"},
		{
			name: "own cgroup outside the mount",
			make: func(t *testing.T) *fake {
				f := newFake(t, 1000)
				f.v2("", "/docker/abc", "rw", all)
				f.own("/system.slice/x")
				return f
			},
			id: "cgroup.own", words: []string{"not visible"},
		},
		{
			name: "threaded",
			make: func(t *testing.T) *fake {
				f := newFake(t, 1000)
				f.v2("", "/", "rw", all)
				dir := f.cgroup(scope, all)
				f.write(filepath.Join(dir, "cgroup.type"), "domain threaded\n")
				f.own(scope)
				f.owned = []string{scope}
				return f
			},
			id: "cgroup.threaded", words: []string{"domain threaded"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := tc.make(t)
			b, err := Find(f.options())
			u := (*Unavailable)(nil)
			if !errors.As(err, &u) {
				t.Fatalf("got %v, %v", b, err)
			}
			if u.ID != tc.id || (tc.ctl != "" && u.Controller != tc.ctl) || !strings.HasSuffix(u.File, tc.file) {
				t.Errorf("got id %q, controller %q, file %q", u.ID, u.Controller, u.File)
			}
			if u.Hint == "" {
				t.Error("no hint")
			}
			for _, w := range tc.words {
				if !strings.Contains(u.Error()+"\n"+u.Hint, w) {
					t.Errorf("%q is not in %q, hint %q", w, u.Error(), u.Hint)
				}
			}
			if len(f.made) > 0 {
				t.Errorf("made %v before refusing", f.made)
			}
		})
	}
}

// read returns a file of the fake tree.
func (f *fake) read(path string) string {
	f.t.Helper()
	s, err := os.ReadFile(filepath.Join(f.root, path))
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(string(s))
}

func TestFindPlacesV2(t *testing.T) {
	for _, tc := range []struct {
		name  string
		uid   int
		make  func(f *fake)
		base  string
		moved bool
	}{
		{name: "root", base: "jailer", make: func(f *fake) { f.v2("", "/", "rw", all) }},
		{
			name: "own delegated scope", uid: 1000, base: "u/run.scope", moved: true,
			make: func(f *fake) {
				f.v2("", "/", "rw", all)
				f.cgroup("u/run.scope", all)
				f.own("/u/run.scope")
				f.owned = []string{"u/run.scope"}
			},
		},
		{
			name: "already in a launcher leaf", uid: 1000, base: "u/run.scope",
			make: func(f *fake) {
				f.v2("", "/", "rw", all)
				f.cgroup("u/run.scope", all)
				f.cgroup("u/run.scope/launcher", all)
				f.own("/u/run.scope/launcher")
				f.owned = []string{"u/run.scope"}
			},
		},
		{
			name: "leaf in a subtree of ours", uid: 1000, base: "deleg",
			make: func(f *fake) {
				f.v2("", "/", "rw", all)
				f.cgroup("deleg", all)
				f.cgroup("deleg/leaf", "")
				f.own("/deleg/leaf")
				f.owned = []string{"deleg"}
			},
		},
		{
			name: "container with its own cgroup namespace", base: "", moved: true,
			make: func(f *fake) {
				dir := f.v2("", "/", "rw", all)
				f.write(filepath.Join(dir, "cgroup.type"), "domain\n")
			},
		},
		{
			name: "v1 cpuacct beside", uid: 0, base: "jailer",
			make: func(f *fake) {
				f.v2("", "/", "rw", all)
				f.v1("cpuacct", "rw", "cpuacct")
			},
		},
		{
			name: "mount that starts below the root", uid: 1000, base: "in", moved: true,
			make: func(f *fake) {
				f.v2("", "/docker/abc", "rw", all)
				f.cgroup("in", all)
				f.own("/docker/abc/in")
				f.owned = []string{"in"}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, tc.uid)
			tc.make(f)
			o := f.options()
			cs, err := detect(o)
			if err != nil {
				t.Fatal(err)
			}
			c, u := pickV2(o.withDefaults(), cs)
			if u != nil {
				t.Fatal(u)
			}
			if want := filepath.Join(f.root, tc.base); c.dir != want || c.moves != tc.moved {
				t.Fatalf("picked %+v, want %s, moves %v", c, want, tc.moved)
			}
			if c.moves {
				f.write(filepath.Join(c.dir, "cgroup.procs"), "11\n12\n")
				f.busy = 2
			}
			b, err := Find(o)
			if err != nil {
				t.Fatal(err)
			}
			if b.Kind() != V2 {
				t.Errorf("kind %v", b.Kind())
			}
			if tc.moved && f.read(filepath.Join(tc.base, "launcher/cgroup.procs")) == "" {
				t.Error("nobody moved to the leaf")
			}
			if got := strings.Fields(f.read(filepath.Join(tc.base, "cgroup.subtree_control"))); len(without(controllers, got)) > 0 {
				t.Errorf("enabled in BASE: %v", got)
			}
		})
	}
}

// The writes of a whole v2 run, in order, up to the limits.
func TestTreeV2(t *testing.T) {
	f := newFake(t, 1000)
	f.v2("", "/", "rw", all)
	f.write(filepath.Join(f.cgroup("u/run.scope", all), "cgroup.procs"), "11\n12\n")
	f.own("/u/run.scope")
	f.owned = []string{"u/run.scope"}
	f.write(filepath.Join(f.proc, "swaps"), "Filename\tType\n")
	b, err := Find(f.options())
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Plan("7"); len(got) != 1 || got[0] != filepath.Join(f.root, "u/run.scope/jail-7") {
		t.Errorf("plan %v", got)
	}
	j, err := b.Create("7", -1)
	if err != nil {
		t.Fatal(err)
	}
	if got := j.InitPath(); got != "/u/run.scope/jail-7/init" {
		t.Errorf("init at %q", got)
	}
	o, err := j.NewJob(1, Limits{Memory: 64 << 20, Pids: 16, CPUMilli: 500})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/u/run.scope/launcher/cgroup.procs 11",
		"/u/run.scope/launcher/cgroup.procs 12",
		"/u/run.scope/cgroup.subtree_control +memory +pids +cpu",
		"/u/run.scope/jail-7/cgroup.subtree_control +memory +pids +cpu",
	}
	if d := cmp.Diff(want, f.log); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"/u/run.scope/launcher", "/u/run.scope/jail-7", "/u/run.scope/jail-7/job-1"}, f.made); d != "" {
		t.Error(d)
	}
	f.write(filepath.Join(f.root, "u/run.scope/jail-7/cgroup.procs"), "21\n") // where the fake looks for what is moved
	if err := j.Adopt(21); err != nil {
		t.Fatal(err)
	}
	if got := f.read("u/run.scope/jail-7/init/cgroup.procs"); got != "21" {
		t.Errorf("adopted: %q", got)
	}
	if err := j.Adopt(22); !errors.Is(err, unix.ESRCH) {
		t.Errorf("adopted nobody: %v", err)
	}
	for name, value := range map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "16", "cpu.max": "50000 100000",
	} {
		if got := f.read("u/run.scope/jail-7/job-1/" + name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if got := f.read("u/run.scope/jail-7/memory.oom.group"); got != "0" {
		t.Error("oom.group on the jail would kill PID 1")
	}
	u, err := o.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if u.CPUUser != 20_000 || u.CPUSystem != 10_000 || u.MemoryPeak == nil || *u.MemoryPeak != 4096 || u.PidsPeak != nil || *u.Throttled != 5000 {
		t.Errorf("%+v", u)
	}
	if c, err := o.CPUTime(); err != nil || c != 30_000 {
		t.Errorf("CPU time %v, %v", c, err)
	}
	if fs, err := o.Procs(); len(fs) > 0 || err != nil {
		t.Errorf("%v, %v", fs, err)
	}
}

// Swap that the kernel doesn't account makes a memory limit worthless.
func TestSwapUnaccounted(t *testing.T) {
	for _, tc := range []struct {
		swaps string
		ok    bool
	}{{"Filename\tType\n", true}, {"Filename\tType\n/dev/sda2 partition\n", false}, {"", true}} {
		f := newFake(t, 0)
		f.v2("", "/", "rw", all)
		f.write(filepath.Join(f.proc, "swaps"), tc.swaps)
		o := f.options()
		mkdir := o.mkdir
		o.mkdir = func(dir string) error {
			defer os.Remove(filepath.Join(dir, "memory.swap.max"))
			return mkdir(dir)
		}
		b, err := Find(o)
		if err != nil {
			t.Fatal(err)
		}
		j, err := b.Create("s", -1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = j.NewJob(1, Limits{Memory: 1 << 20})
		if u := (*Unavailable)(nil); (err == nil) != tc.ok || (err != nil && (!errors.As(err, &u) || u.ID != "cgroup.swap")) {
			t.Errorf("%q: %v", tc.swaps, err)
		}
	}
}

// TestCheckSwap: doctor says no where NewJob will.
func TestCheckSwap(t *testing.T) {
	const none, some = "Filename\tType\n", "Filename\tType\n/dev/sda2 partition\n"
	for _, c := range []struct {
		name, swaps string
		v1, file    bool
		grant       int64
		want        State
	}{
		{"v2", some, false, true, 0, Yes},
		{"v2, granted", none, false, true, 1, Yes},
		{"v2, unaccounted", some, false, false, 0, No},
		{"v2, unaccounted, no swap", none, false, false, 0, Yes},
		{"v2, unaccounted, no swap, granted", none, false, false, 1, No},
		{"v1", some, true, true, 1, Yes},
		{"v1, no memsw", some, true, false, 0, Yes},
		{"v1, no memsw, granted", none, true, false, 1, No},
	} {
		f := newFake(t, 0)
		if c.v1 {
			for _, ctl := range controllers {
				f.v1(ctl, "rw", ctl)
			}
			if c.file {
				f.write(filepath.Join(f.root, "memory", "memory.memsw.limit_in_bytes"), "")
			}
		} else {
			f.v2("", "/", "rw", all)
			dir := f.cgroup("system.slice", all)
			if !c.file {
				os.Remove(filepath.Join(dir, "memory.swap.max"))
			}
			f.own("/")
			for _, top := range []string{"memory.max", "memory.swap.max"} { // the true root has neither
				os.Remove(filepath.Join(f.root, top))
			}
		}
		f.write(filepath.Join(f.proc, "swaps"), c.swaps)
		o := f.options()
		o.Swap = c.grant
		_, fs := Check(o)
		i := slices.IndexFunc(fs, func(g Finding) bool { return g.ID == "cgroup.swap" })
		if i < 0 || fs[i].State != c.want || (c.want != Yes) != (fs[i].Hint != "") {
			t.Errorf("%s: %+v, want %s", c.name, fs, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	state := func(fs []Finding, id string) Finding {
		for _, f := range fs {
			if f.ID == id {
				return f
			}
		}
		return Finding{}
	}
	t.Run("hybrid", func(t *testing.T) {
		f := newFake(t, 0)
		for _, c := range []string{"memory", "pids", "cpu", "cpuacct"} {
			f.v1(c, "rw", c)
		}
		f.v2("unified", "/", "rw", "hugetlb")
		l, fs := Check(f.options())
		if l.Mode != ModeHybrid {
			t.Error(l.Mode)
		}
		if h := state(fs, "cgroup.hierarchy"); !strings.Contains(h.Reason, "cgroup v2 has no memory, pids, cpu here") {
			t.Errorf("%+v", h)
		}
		for _, c := range controllers {
			if got := state(fs, "cgroup."+c); got.State != Yes || !strings.HasSuffix(got.Where, "/"+c) {
				t.Errorf("%+v", got)
			}
		}
		if got := state(fs, "cgroup.kill"); got.State != Yes {
			t.Errorf("%+v", got)
		}
		if len(f.made) > 0 {
			t.Errorf("made %v", f.made)
		}
	})
	t.Run("memory and pids delegated", func(t *testing.T) {
		f := newFake(t, 1000)
		f.v2("", "/", "rw", all)
		f.cgroup("s", "memory pids")
		f.own("/s")
		f.owned = []string{"s"}
		_, fs := Check(f.options())
		for c, want := range map[string]State{"memory": Yes, "pids": Yes, "cpu": No} {
			if got := state(fs, "cgroup."+c); got.State != want {
				t.Errorf("%+v", got)
			}
		}
		if got := state(fs, "cgroup.cpu"); got.Cause == nil || got.Cause.ID != "cgroup.delegation.cpu" || got.Hint == "" {
			t.Errorf("%+v", got)
		}
		if got := state(fs, "cgroup.nsdelegate"); got.State != Yes {
			t.Errorf("%+v", got)
		}
		// What is missing is only asked for when it is needed.
		o := f.options()
		o.Need = []string{"memory", "pids"}
		if b, err := Find(o); err != nil {
			t.Error(err)
		} else if j, err := b.Create("x", -1); err != nil {
			t.Error(err)
		} else if _, err := j.NewJob(1, Limits{CPUMilli: 100}); err == nil {
			t.Error("a CPU limit without the controller was taken")
		}
	})
	t.Run("mounts unreadable", func(t *testing.T) {
		f := newFake(t, 0)
		os.Remove(filepath.Join(f.proc, "mountinfo"))
		_, fs := Check(f.options())
		if got := state(fs, "cgroup.memory"); got.State != Unknown {
			t.Errorf("%+v", got)
		}
	})
}

// A limit file that takes the write and keeps another value must not pass.
func TestReadBackFails(t *testing.T) {
	var l limitFiles
	file := filepath.Join(t.TempDir(), "pids.max")
	if err := os.WriteFile(file, []byte("max\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l.add(file, "16")
	err := l.readBack()
	if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), `"16"`) || !strings.Contains(err.Error(), `"max"`) {
		t.Error(err)
	}
}
