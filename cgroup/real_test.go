package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/need"
)

// testName is BASE's name in these tests, apart from a real jailer's.
var testName = fmt.Sprintf("jailer-test-%d", os.Getpid())

// realBase finds a BASE with real limits on this host, as root.
func realBase(t *testing.T) *Base {
	t.Helper()
	need.Root(t)
	b, err := Find(Options{Name: testName})
	if u := (*Unavailable)(nil); errors.As(err, &u) {
		need.Feature(t, "cgroup", false, u.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, dir := range b.Dirs() {
			if filepath.Base(dir) == testName {
				cleanTree(t, dir)
			}
		}
	})
	return b
}

// cleanTree removes dir when a test ends, with a context that does not end with
// the test.
func cleanTree(t *testing.T, dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), need.Time(5*time.Second))
	defer cancel()
	if err := removeTree(ctx, dir); err != nil {
		t.Error(err)
	}
}

func newJail(t *testing.T, b *Base, id string) *Jail {
	t.Helper()
	j, err := b.Create(id, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), need.Time(5*time.Second))
		defer cancel()
		if err := errors.Join(j.Kill(), j.WaitEmpty(ctx), j.Remove(ctx)); err != nil {
			t.Error(err)
		}
	})
	return j
}

func newJob(t *testing.T, j *Jail, n int, l Limits) *Job {
	t.Helper()
	o, err := j.NewJob(n, l)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// start runs a shell script inside the job: it waits for its standard input to
// end, which it does once the process is where it belongs.
func start(t *testing.T, o *Job, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "read x; "+script)
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if o.jail.base.kind == V2 {
		dir, err := o.Dir()
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	fs, err := o.Procs()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		if _, err := fmt.Fprint(f, cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if _, err := io.WriteString(hold, "\n"); err != nil {
		t.Fatal(err)
	}
	hold.Close()
	return cmd
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), need.Time(d))
	t.Cleanup(cancel)
	return ctx
}

// eventually looks until f says yes.
func eventually(t *testing.T, otherwise string, f func() bool) {
	t.Helper()
	for ctx := within(t, 20*time.Second); !f(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal(otherwise)
		}
	}
}

func usage(t *testing.T, o *Job) Usage {
	t.Helper()
	u, err := o.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// await waits for an event that want likes.
func await(t *testing.T, ch <-chan Event, want func(Event) bool) {
	t.Helper()
	for ctx := within(t, 10*time.Second); ; {
		select {
		case ev, ok := <-ch:
			if !ok {
				t.Fatal("events ended")
			}
			if want(ev) {
				return
			}
		case <-ctx.Done():
			t.Fatal("no event")
		}
	}
}

func TestRealLimits(t *testing.T) {
	b := realBase(t)
	j := newJail(t, b, "limits")
	for i, tc := range []Limits{
		{Memory: 64 << 20, Pids: 16, CPUMilli: 200},
		{Memory: 100_000_000, Pids: 1, CPUMilli: 1}, // rounded to a page; the smallest quota
		{Memory: 1 << 30, Swap: 1 << 20, Pids: 4096, CPUMilli: 4096_000},
		{Pids: 5},
		{},
	} {
		t.Run(fmt.Sprintf("%+v", tc), func(t *testing.T) {
			o := newJob(t, j, i+1, tc)
			if b.Kind() == V1 && tc.Memory > 0 {
				dir, _ := o.dir("memory")
				got, err := readCount(filepath.Join(dir, "memory.limit_in_bytes"))
				if err != nil || got != tc.Memory&^4095 {
					t.Errorf("limit_in_bytes %d, %v", got, err)
				}
				// Without it TCP and UDP buffers are on nobody's bill.
				if file := filepath.Join(dir, "memory.kmem.tcp.limit_in_bytes"); exists(file) {
					if got, err := readCount(file); err != nil || got != tc.Memory/4&^4095 {
						t.Errorf("kmem.tcp.limit_in_bytes %d, %v", got, err)
					}
				}
			}
			dir, _ := o.dir("pids")
			want := fmt.Sprint(tc.Pids)
			if tc.Pids == 0 {
				want = "max"
			}
			if got, _ := readString(filepath.Join(dir, "pids.max")); got != want {
				t.Errorf("pids.max %q, want %q", got, want)
			}
			if err := o.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := j.NewJob(9, Limits{Memory: 100}); err == nil {
		t.Error("a limit that rounds to nothing was taken")
	}
	if _, err := j.NewJob(9, Limits{Pids: -1}); err == nil {
		t.Error("a negative limit was taken")
	}
	if _, err := j.NewJob(9, Limits{}); err != nil {
		t.Errorf("a refused job left its directory: %v", err)
	}
	if _, err := j.NewJob(9, Limits{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second job 9: %v", err)
	}
	if _, err := b.Create("limits", -1); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second jail: %v", err)
	}
	for _, id := range []string{"", "../x", "a/b", "a b", strings.Repeat("x", 200)} {
		if _, err := b.Create(id, -1); err == nil {
			t.Errorf("id %q was taken", id)
		}
	}
}

func TestRealOOM(t *testing.T) {
	j := newJail(t, realBase(t), "oom")
	o := newJob(t, j, 1, Limits{Memory: 32 << 20, Pids: 32, CPUMilli: 2000})
	ch, err := o.Watch(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	// tail holds a line that never ends.
	cmd := start(t, o, "head -c 268435456 /dev/zero | tail -n 1 >/dev/null")
	await(t, ch, func(e Event) bool { return e.OOM })
	cmd.Wait()
	if err := o.WaitEmpty(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	u := usage(t, o)
	if u.OOMKills < 1 {
		t.Errorf("%d oom kills", u.OOMKills)
	}
	if u.MemoryPeak == nil || *u.MemoryPeak < 24<<20 || *u.MemoryPeak > 32<<20 {
		t.Errorf("memory peak %v", u.MemoryPeak)
	}
	if u.PidsMaxHits != 0 {
		t.Errorf("%d pids hits", u.PidsMaxHits)
	}
}

func TestRealPids(t *testing.T) {
	j := newJail(t, realBase(t), "pids")
	o := newJob(t, j, 1, Limits{Memory: 64 << 20, Pids: 4})
	ch, err := o.Watch(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	start(t, o, "for i in 1 2 3 4 5 6; do sleep 60 & done 2>/dev/null; wait")
	if o.jail.base.kind == V2 {
		await(t, ch, func(e Event) bool { return e.PidsMax })
	}
	var before Usage
	eventually(t, "no pids hits", func() bool { before = usage(t, o); return before.PidsMaxHits > 0 })
	if before.PidsPeak != nil && *before.PidsPeak != 4 {
		t.Errorf("pids peak %d", *before.PidsPeak)
	}
	if err := o.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := o.WaitEmpty(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := o.Remove(); err != nil {
		t.Fatal(err)
	}
}

// v1Alone is a v1 BASE as on a host without a v2 hierarchy beside it.
func v1Alone(t *testing.T) *Base {
	t.Helper()
	b := realBase(t)
	need.Feature(t, "cgroup1", b.Kind() == V1, "no cgroup v1 here")
	alone := *b
	alone.places = slices.DeleteFunc(slices.Clone(b.places), func(p place) bool { return p.mount.V2 })
	return &alone
}

// The forks that fail because Kill forbids them are not the job's own hits of
// its pids limit.
func TestRealKillKeepsCounter(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprintf("whole jail %v", whole), func(t *testing.T) {
			j := newJail(t, v1Alone(t), "bomb")
			o := newJob(t, j, 1, Limits{Pids: 40})
			start(t, o, "while :; do (:); done 2>/dev/null")
			dir, _ := o.dir("pids")
			fence(dir, j.note) // Kill's first half, with time to fork before the second
			eventually(t, "no fork failed", func() bool {
				kv, err := readKV(filepath.Join(dir, "pids.events"))
				if err != nil {
					t.Fatal(err)
				}
				return kv["max"] > 0
			})
			kill := o.Kill
			if whole {
				kill = j.Kill
			}
			if err := kill(); err != nil {
				t.Fatal(err)
			}
			if err := o.WaitEmpty(within(t, 5*time.Second)); err != nil {
				t.Fatal(err)
			}
			if u := usage(t, o); u.PidsMaxHits != 0 {
				t.Errorf("%d pids hits", u.PidsMaxHits)
			}
		})
	}
}

// Without a v2 hierarchy beside v1 the loop has to end a fork bomb by itself.
func TestRealKillLoop(t *testing.T) {
	j := newJail(t, v1Alone(t), "loop")
	o := newJob(t, j, 1, Limits{Pids: 64, Memory: 256 << 20})
	start(t, o, "f() { f | f & }; (f) 2>/dev/null & exec sleep 60")
	dir, _ := o.dir("pids")
	eventually(t, "the bomb doesn't go off", func() bool {
		n, err := readCount(filepath.Join(dir, "pids.current"))
		return err == nil && n >= 16
	})
	begin := time.Now()
	if err := o.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := o.WaitEmpty(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Logf("empty after %v", time.Since(begin))
	if err := o.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := o.Remove(); err != nil {
		t.Errorf("second remove: %v", err)
	}
}

func TestRealThrottle(t *testing.T) {
	j := newJail(t, realBase(t), "cpu")
	o := newJob(t, j, 1, Limits{CPUMilli: 200})
	begin := time.Now()
	start(t, o, "while :; do :; done")
	var got, took time.Duration
	// A busy host gives it later.
	eventually(t, "the job doesn't get what it may have", func() bool {
		var err error
		if got, err = o.CPUTime(); err != nil {
			t.Fatal(err)
		}
		took = time.Since(begin)
		throttled := usage(t, o).Throttled
		return got >= 200*time.Millisecond && throttled != nil && *throttled >= 100*time.Millisecond
	})
	if err := o.Kill(); err != nil {
		t.Fatal(err)
	}
	if got > took*2/5 {
		t.Errorf("used %v of CPU in %v at 0.2 CPUs", got, took)
	}
	// Each of the three is cut to whole microseconds by the kernel.
	u := usage(t, o)
	if sum := u.CPUUser + u.CPUSystem + 2*time.Microsecond; sum < got {
		t.Errorf("user %v + system %v, CPUTime %v", u.CPUUser, u.CPUSystem, got)
	}
}

func TestRealWaitAndRemove(t *testing.T) {
	j := newJail(t, realBase(t), "wait")
	o := newJob(t, j, 1, Limits{Pids: 20})
	watched, stop := context.WithCancel(within(t, 30*time.Second))
	defer stop()
	ch, err := o.Watch(watched)
	if err != nil {
		t.Fatal(err)
	}
	cmd := start(t, o, "sleep 60 & sleep 60 & kill -STOP $$")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := o.WaitEmpty(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("not empty, yet %v", err)
	}
	if err := j.Remove(short); !errors.Is(err, syscall.EBUSY) {
		t.Fatalf("removed with processes in it: %v", err)
	}
	// At once after the kill: rmdir has to be patient.
	if err := j.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := j.Remove(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Kill(), j.WaitEmpty(t.Context()), j.Remove(t.Context())); err != nil {
		t.Errorf("of a jail that is gone: %v", err)
	}
	for _, dir := range j.Paths() {
		if exists(dir) {
			t.Errorf("%s is left", dir)
		}
	}
	stop()
	for range ch { // ends with its context, if not with the cgroup
	}
	cmd.Wait()
}

func TestRealReap(t *testing.T) {
	b := realBase(t)
	plan := b.Plan("reap")
	j, err := b.Create("reap", -1)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(plan) != fmt.Sprint(j.Paths()) {
		t.Errorf("planned %v, made %v", plan, j.Paths())
	}
	o := newJob(t, j, 1, Limits{Pids: 20, Memory: 64 << 20})
	cmd := start(t, o, "sleep 60 & sleep 60")
	if err := Reap(within(t, 5*time.Second), plan); err != nil {
		t.Fatal(err)
	}
	for _, dir := range plan {
		if exists(dir) {
			t.Errorf("%s is left", dir)
		}
	}
	cmd.Wait()
	if err := Reap(within(t, 5*time.Second), plan); err != nil {
		t.Errorf("second time: %v", err)
	}
}

func TestReapRefuses(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "jail-x")
	if err := os.Mkdir(plain, 0o755); err != nil {
		t.Fatal(err)
	}
	cases := []string{plain, plain + "/", "jail-x", "/sys/fs/cgroup", "/sys/fs/cgroup/../cgroup/jail-x", "/", "/sys/fs/cgroup/x/jail-", "/sys/fs/cgroup/jail-a b"}
	if os.Geteuid() == 0 {
		b := realBase(t)
		j := newJail(t, b, "aim")
		o := newJob(t, j, 1, Limits{})
		link := filepath.Join(t.TempDir(), "jail-aim")
		if err := os.Symlink(j.Paths()[0], link); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, link, b.Dirs()[0])
		t.Cleanup(func() {
			if !exists(o.Paths()[0]) {
				t.Error("reaped through a symbolic link")
			}
		})
	}
	for _, path := range cases {
		if err := Reap(t.Context(), []string{path}); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
	if !exists(plain) {
		t.Error("a plain directory was removed")
	}
}

func TestRealParallel(t *testing.T) {
	realBase(t) // the skip, and the removal
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for i := range 8 {
		wg.Go(func() {
			errs <- func() error {
				b, err := Find(Options{Name: testName})
				if err != nil {
					return err
				}
				j, err := b.Create(fmt.Sprintf("par-%d", i), -1)
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(t.Context(), need.Time(10*time.Second))
				defer cancel()
				o, err := j.NewJob(1, Limits{Memory: 16 << 20, Pids: 8, CPUMilli: 500})
				if err != nil {
					return errors.Join(err, j.Remove(ctx))
				}
				return errors.Join(o.Kill(), o.WaitEmpty(ctx), o.Remove(), j.Remove(ctx))
			}()
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

// unifiedBase is a v2 BASE on the real kernel without any controller: joining,
// events, kill and removal are the same with them.
func unifiedBase(t *testing.T) *Base {
	t.Helper()
	need.Root(t)
	o := Options{Name: testName + "-v2"}.withDefaults()
	l, err := detect(o)
	if err != nil {
		t.Fatal(err)
	}
	need.Feature(t, "cgroup2", l.Unified != nil && !l.Unified.ReadOnly, "no writable cgroup v2 hierarchy is mounted")
	b := &Base{kind: V2, o: o, layout: l}
	dir := filepath.Join(l.Unified.Point, o.Name)
	if err := b.makeRootBase(dir); err != nil {
		t.Fatal(err)
	}
	b.places = []place{{dir: dir, mount: *l.Unified}}
	t.Cleanup(func() {
		cleanTree(t, dir)
	})
	return b
}

func TestRealV2Mechanics(t *testing.T) {
	j := newJail(t, unifiedBase(t), "v2")
	o := newJob(t, j, 1, Limits{})
	ch, err := o.Watch(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	cmd := start(t, o, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 60 & sleep 60")
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(own), "/jail-v2/job-1\n") {
		t.Errorf("the process is in %s", own)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := o.WaitEmpty(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("not empty, yet %v", err)
	}
	if err := o.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, ch, func(e Event) bool { return e.Empty })
	if err := o.WaitEmpty(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	u := usage(t, o)
	if total, err := o.CPUTime(); err != nil || total <= 0 || u.CPUUser+u.CPUSystem <= 0 {
		t.Errorf("%+v, %v, %v", u, total, err)
	}
	if u.MemoryPeak != nil || u.PidsPeak != nil || u.Throttled != nil {
		t.Errorf("measured without controllers: %+v", u)
	}
	if _, err := j.NewJob(2, Limits{Pids: 3}); err == nil {
		t.Error("a limit without its controller was taken")
	}
	if err := o.Remove(); err != nil {
		t.Fatal(err)
	}
}

// sleeper is a process in a cgroup.
func sleeper(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if err := writeFile(filepath.Join(dir, "cgroup.procs"), fmt.Sprint(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestRealEvacuate(t *testing.T) {
	b := unifiedBase(t)
	dir := filepath.Join(b.places[0].dir, "own")
	if err := b.o.mkdir(dir); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		sleeper(t, dir)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := b.evacuate(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if pids, err := readPids(filepath.Join(dir, launcherDir)); err != nil || len(pids) != 3 || !procsEmpty(dir) {
		t.Errorf("in the leaf: %v, %v", pids, err)
	}
}

// Real root gives the jail's uid both files that CLONE_INTO_CGROUP looks at.
func TestRealOwner(t *testing.T) {
	b := unifiedBase(t)
	const uid = 54321
	j, err := b.Create("owner", uid)
	if err != nil {
		t.Fatal(err)
	}
	o := newJob(t, j, 1, Limits{})
	for _, dir := range append(j.Paths(), o.Paths()...) {
		if got, err := b.o.owner(filepath.Join(dir, "cgroup.procs")); err != nil || got != uid {
			t.Errorf("%s/cgroup.procs belongs to %d, %v", dir, got, err)
		}
		for _, other := range []string{"", "cgroup.subtree_control", "cgroup.kill"} {
			if got, err := b.o.owner(filepath.Join(dir, other)); err != nil || got != 0 {
				t.Errorf("%s/%s belongs to %d, %v", dir, other, got, err)
			}
		}
	}
	if err := j.Remove(within(t, 5*time.Second)); err != nil {
		t.Error(err)
	}
}

// A cover over a hierarchy stays in mountinfo, as does what it covers.
func TestRealVerify(t *testing.T) {
	need.Root(t)
	l, err := Detect("")
	if err != nil {
		t.Fatal(err)
	}
	var ms []Mount
	if l.Unified != nil {
		ms = append(ms, *l.Unified)
	}
	for _, m := range l.V1 {
		ms = append(ms, m)
	}
	need.Feature(t, "cgroup", len(ms) > 0, "no cgroup file system is mounted")
	for _, m := range ms {
		if err := m.verify(); err != nil {
			t.Error(err)
		}
		other := m
		other.V2 = !m.V2
		if other.verify() == nil {
			t.Errorf("%s passed for the other version", m.Point)
		}
		other = m
		other.Point = t.TempDir()
		if other.verify() == nil {
			t.Error("a plain directory passed")
		}
	}
}

func TestRealErrors(t *testing.T) {
	j := newJail(t, realBase(t), "errors")
	dir := j.Paths()[0]
	err := writeFile(filepath.Join(dir, "cgroup.procs"), "not a pid")
	if e := (*Error)(nil); !errors.As(err, &e) || !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "not a pid") {
		t.Errorf("%v", err)
	}
	// Above PIDS_MAX: the library's write fails, and the job is not left behind.
	_, err = j.NewJob(1, Limits{Memory: 1 << 20, Pids: 1 << 40})
	if e := (*Error)(nil); !errors.As(err, &e) || !errors.Is(err, syscall.EINVAL) || !strings.HasSuffix(e.File, "/job-1/pids.max") || e.Value != "1099511627776" {
		t.Errorf("%v", err)
	}
	for _, dir := range j.Paths() {
		if exists(filepath.Join(dir, "job-1")) {
			t.Errorf("%s/job-1 is left", dir)
		}
	}
	if e := (*Error)(nil); errors.As(fail("write", "f", "v", syscall.EBUSY), &e) && e.Hint == "" {
		t.Error("EBUSY without a hint")
	}
}

// What is frozen does nothing, can be killed, and goes on when thawed; PID 1 is not frozen.
func TestRealFreeze(t *testing.T) {
	b := realBase(t)
	j := newJail(t, b, "freeze")
	need.Feature(t, "cgroup2", j.CanFreeze(), "no cgroup v2 hierarchy: nothing can freeze a jail")
	beat := func(name string) string { return filepath.Join(t.TempDir(), name) }
	one, other, init := beat("one"), beat("other"), beat("init")
	const script = "while :; do echo x >> %s; done"
	o := newJob(t, j, 1, Limits{Pids: 20})
	start(t, o, fmt.Sprintf("setsid sh -c '"+script+"' & "+script, other, one))
	files := []string{one, other}
	if b.kind == V2 {
		pid1 := exec.Command("/bin/sh", "-c", fmt.Sprintf("read x; "+script, init))
		hold, err := pid1.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := pid1.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pid1.Process.Kill(); pid1.Wait() })
		if err := j.Adopt(pid1.Process.Pid); err != nil {
			t.Fatal(err)
		}
		hold.Close()
		files = append(files, init)
	}
	size := func(f string) int64 {
		st, err := os.Stat(f)
		if err != nil {
			return 0
		}
		return st.Size()
	}
	grows := func(f string) {
		t.Helper()
		was, end := size(f), time.Now().Add(need.Time(5*time.Second))
		for size(f) == was {
			if time.Now().After(end) {
				t.Fatalf("%s doesn't grow", filepath.Base(f))
			}
			time.Sleep(time.Millisecond)
		}
	}
	for _, f := range files {
		grows(f)
	}
	thaw, err := j.Freeze(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	was := []int64{size(one), size(other)}
	if b.kind == V2 {
		grows(init)
	} else {
		time.Sleep(30 * time.Millisecond)
	}
	if now := []int64{size(one), size(other)}; !slices.Equal(now, was) {
		t.Errorf("frozen, and yet %d became %d", was, now)
	}
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		grows(f)
	}
	if thaw, err = j.Freeze(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(o.Kill(), o.WaitEmpty(within(t, 5*time.Second)), o.Remove(), thaw()); err != nil {
		t.Error(err)
	}
}
