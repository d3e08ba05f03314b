package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// bases are what a session can stand on here: with limits, and cgroup v2 as far as
// this host has it.
func bases(t *testing.T, do func(t *testing.T, b *Base)) {
	t.Run("limits", func(t *testing.T) { do(t, realBase(t)) })
	t.Run("v2", func(t *testing.T) { do(t, unifiedBase(t)) })
}

func alive(cmd *exec.Cmd) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// Jobs of any number come and go singly; the others live on.
func TestRealJobsSingly(t *testing.T) {
	bases(t, func(t *testing.T, b *Base) {
		j := newJail(t, b, "singly")
		jobs := map[int]*Job{}
		cmds := map[int]*exec.Cmd{}
		for _, n := range []int{1, 7, 64, 1_000_000} {
			jobs[n] = newJob(t, j, n, Limits{})
			cmds[n] = start(t, jobs[n], "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 60 & sleep 60")
		}
		if _, err := j.NewJob(7, Limits{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a second job of one number: %v", err)
		}
		for _, dir := range jobs[7].Paths() {
			if !exists(dir) {
				t.Fatalf("and the first is gone: %s", dir)
			}
		}
		for _, n := range []int{0, -1} {
			if _, err := j.NewJob(n, Limits{}); err == nil {
				t.Errorf("job %d was made", n)
			}
		}
		for _, n := range []int{7, 1_000_000} {
			// v1 splits the time into user and system by ticks of the clock.
			for end := time.Now().Add(need.Time(10 * time.Second)); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				if u := usage(t, jobs[n]); u.CPUUser+u.CPUSystem > 0 {
					break
				}
			}
			if err := errors.Join(jobs[n].Kill(), jobs[n].WaitEmpty(within(t, 10*time.Second))); err != nil {
				t.Fatal(err)
			}
			if u := usage(t, jobs[n]); u.CPUUser+u.CPUSystem <= 0 {
				t.Errorf("job %d used %+v", n, u)
			}
			if err := jobs[n].Remove(); err != nil {
				t.Error(err)
			}
			for _, dir := range jobs[n].Paths() {
				if exists(dir) {
					t.Errorf("%s is left", dir)
				}
			}
		}
		if !alive(cmds[1]) || !alive(cmds[64]) || alive(cmds[7]) {
			t.Errorf("alive: 1 %v, 64 %v; 7 %v", alive(cmds[1]), alive(cmds[64]), alive(cmds[7]))
		}
		again := newJob(t, j, 7, Limits{})
		start(t, again, "sleep 60")
	})
}

// What was noted of a killed job is not told of the next of its number.
func TestRealJobCountsAnew(t *testing.T) {
	j := newJail(t, realBase(t), "anew")
	first := newJob(t, j, 1, Limits{Pids: 2})
	cmd := start(t, first, "while :; do (:) & (:) & (:) & wait; done 2>/dev/null")
	end := time.Now().Add(need.Time(10 * time.Second))
	for usage(t, first).PidsMaxHits == 0 && time.Now().Before(end) {
		time.Sleep(5 * time.Millisecond)
	}
	if err := errors.Join(first.Kill(), first.WaitEmpty(within(t, 10*time.Second))); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if usage(t, first).PidsMaxHits == 0 {
		t.Error("the limit was never hit")
	}
	if err := first.Remove(); err != nil {
		t.Fatal(err)
	}
	if u := usage(t, newJob(t, j, 1, Limits{Pids: 2})); u.PidsMaxHits != 0 {
		t.Errorf("the new job: %+v", u)
	}
}

// A record names the jail alone; its commands, and whatever is below those, go
// with it, while the neighbour lives.
func TestRealReapSession(t *testing.T) {
	bases(t, func(t *testing.T, b *Base) {
		neighbour := newJail(t, b, "neighbour")
		bystander := start(t, newJob(t, neighbour, 1, Limits{}), "sleep 60")
		j := newJail(t, b, "session")
		var cmds []*exec.Cmd
		for n := 1; n <= 3; n++ {
			o := newJob(t, j, n, Limits{})
			cmds = append(cmds, start(t, o, "sleep 60 & sleep 60"))
			for _, dir := range o.Paths() {
				for _, sub := range []string{"a", "a/b", "a/b/job-1", "c"} {
					if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				cmds = append(cmds, sleeper(t, filepath.Join(dir, "a/b/job-1")))
			}
		}
		for _, dir := range j.Paths() {
			if err := os.Mkdir(filepath.Join(dir, "init"), 0o755); err != nil {
				t.Fatal(err)
			}
			cmds = append(cmds, sleeper(t, filepath.Join(dir, "init")))
		}
		if err := Reap(within(t, 20*time.Second), j.Paths()); err != nil {
			t.Fatal(err)
		}
		for _, dir := range j.Paths() {
			if exists(dir) {
				t.Errorf("%s is left", dir)
			}
		}
		for _, cmd := range cmds {
			cmd.Wait()
			if ws, ok := cmd.ProcessState.Sys().(interface{ Signaled() bool }); !ok || !ws.Signaled() {
				t.Errorf("%v was not killed: %v", cmd.Args, cmd.ProcessState)
			}
		}
		if !alive(bystander) {
			t.Error("the neighbour is dead")
		}
		for _, dir := range neighbour.Paths() {
			if !exists(filepath.Join(dir, "job-1")) {
				t.Errorf("%s/job-1 is gone", dir)
			}
		}
	})
}

// apart calls f in a mount namespace of its own: what it mounts is nobody else's to
// stumble upon.
func apart(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// What is mounted over a cgroup of the jail is another's: nothing in it is killed
// or removed, and the jail is not said to be gone.
func TestRealReapEntersNoMount(t *testing.T) {
	bases(t, func(t *testing.T, b *Base) {
		aim := newJail(t, b, "aim")
		o := newJob(t, aim, 1, Limits{})
		bystander := start(t, o, "sleep 60")
		j := newJail(t, b, "trap")
		newJob(t, j, 1, Limits{})
		ctx := within(t, time.Second)
		err := apart(t, func() error {
			for i, dir := range j.Paths() {
				if err := unix.Mount(aim.Paths()[i], filepath.Join(dir, "job-1"), "", unix.MS_BIND, ""); err != nil {
					return err
				}
			}
			return Reap(ctx, j.Paths())
		})
		if !errors.Is(err, unix.EXDEV) {
			t.Errorf("%v", err)
		}
		for _, dir := range o.Paths() {
			if !exists(dir) {
				t.Errorf("%s is gone", dir)
			}
		}
		if !alive(bystander) {
			t.Error("the process in the mount is dead")
		}
	})
}

// A part of a hierarchy that is bound to a place within it is not where the hierarchy
// is.
func TestDetectNested(t *testing.T) {
	f := newFake(t, 0)
	dirs := []string{f.v1("memory", "rw", "memory"), f.v2("unified", "/", "rw", "hugetlb")}
	for _, dir := range dirs {
		line := f.lines[len(f.lines)-len(dirs)] // each adds one
		f.lines = append(f.lines, strings.Replace(line, " "+dir+" ", " "+dir+"/jail-a/job-1 ", 1))
	}
	f.flush()
	l, err := detect(f.options())
	if err != nil || l.V1["memory"].Point != dirs[0] || l.Unified == nil || l.Unified.Point != dirs[1] {
		t.Errorf("%+v, %v", l, err)
	}
}

// A tree without end is an error, not a collector without end.
func TestSubtreeIsBounded(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 { // deeper than a path is long
		if err := unix.Mkdirat(fd, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	unix.Close(fd)
	if all, err := subtree(dir); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("%d directories, %v", len(all), err)
	}
	link := t.TempDir()
	if err := os.Symlink("/", filepath.Join(link, "job-1")); err != nil {
		t.Fatal(err)
	}
	if all, err := subtree(link); err != nil || len(all) != 1 {
		t.Errorf("through a link: %v %v", all, err)
	}
}

// What jobs leave behind is bounded together, though each of them is gone.
func TestRealJailMemory(t *testing.T) {
	j := newJail(t, realBase(t), "whole")
	if err := j.LimitMemory(64<<20, 0); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join("/dev/shm", filepath.Base(t.TempDir())+fmt.Sprint(os.Getpid()))
	for n := 1; n <= 2; n++ {
		file := fmt.Sprint(left, n)
		t.Cleanup(func() { os.Remove(file) })
		o := newJob(t, j, n, Limits{Memory: 48 << 20})
		err := start(t, o, "exec head -c 40000000 /dev/zero > "+file).Wait()
		if n == 1 && err != nil {
			t.Fatalf("the first: %v", err)
		}
		if n == 2 && err == nil {
			t.Error("80 MB are left in a jail of 64 MiB")
		}
		if err := o.Remove(); err != nil {
			t.Fatal(err)
		}
	}
}
