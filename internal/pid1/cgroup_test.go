//go:build seccomp

package pid1

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// testCgroup makes a directory in a hierarchy and removes it, children first, once
// its processes are gone.
func testCgroup(t *testing.T, hierarchy string, magic int64, children ...string) string {
	t.Helper()
	need.Root(t)
	var st unix.Statfs_t
	err := unix.Statfs(hierarchy, &st)
	name := map[int64]string{unix.CGROUP_SUPER_MAGIC: "cgroup1", unix.CGROUP2_SUPER_MAGIC: "cgroup2"}[magic]
	need.Feature(t, name, err == nil && st.Type == magic, "no such cgroup hierarchy at "+hierarchy)
	dir := filepath.Join(hierarchy, fmt.Sprintf("jailer-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
	all := []string{dir}
	for _, c := range children {
		all = append(all, filepath.Join(dir, c))
	}
	for _, d := range all {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		deadline := time.Now().Add(need.Time(10 * time.Second))
		for i := len(all) - 1; i >= 0; i-- {
			for {
				err := os.Remove(all[i])
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Errorf("cgroup left behind: %v", err)
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
	})
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// On v1 PID 1 moves the held process through descriptors that root opened.
func TestCgroupV1(t *testing.T) {
	dir := testCgroup(t, "/sys/fs/cgroup/pids", unix.CGROUP_SUPER_MAGIC)
	write(t, filepath.Join(dir, "pids.max"), "5")
	procs := open(t, filepath.Join(dir, "cgroup.procs"), os.O_WRONLY)

	p := sh("cat /proc/self/cgroup; n=0; while [ $n -lt 9 ]; do sleep 100 & n=$((n+1)); echo n$n; done")
	p.Flags |= UnshareCgroupNS
	r, out := run(t, p, options{files: []*os.File{procs}})
	if !strings.Contains(out, "n4") || strings.Contains(out, "n5") || r.Leftover != 4 {
		t.Errorf("pids.max 5 held %d: %q", r.Leftover, out)
	}
	for _, l := range lines(out) {
		if strings.Contains(l, ":pids:") && !strings.HasSuffix(l, ":/") {
			t.Errorf("the job sees its path: %s", l)
		}
	}
	// A directory opened instead: the write fails, nothing runs.
	d := open(t, dir, os.O_RDONLY)
	if r := runFails(t, p, options{files: []*os.File{d}}); r.Stage != StageCgroup || r.Detail != 0 {
		t.Errorf("%v", r.Err())
	}
	// The second of two: which one is in the report.
	if r := runFails(t, p, options{files: []*os.File{procs, d}}); r.Stage != StageCgroup || r.Detail != 1 {
		t.Errorf("%v, detail %d", r.Err(), r.Detail)
	}
}

// Two jobs of one PID 1, each in cgroups of its own.
func TestCgroupV1SideBySide(t *testing.T) {
	dir := testCgroup(t, "/sys/fs/cgroup/pids", unix.CGROUP_SUPER_MAGIC, "1", "2")
	j := ready(t, options{})
	outs := map[uint32]*os.File{}
	for n := uint32(1); n <= 2; n++ {
		write(t, filepath.Join(dir, fmt.Sprint(n), "pids.max"), fmt.Sprint(3*n))
		procs := open(t, filepath.Join(dir, fmt.Sprint(n), "cgroup.procs"), os.O_WRONLY)
		p := sh("n=0; while [ $n -lt 9 ]; do sleep 100 & n=$((n+1)); echo n$n; done")
		p.Flags |= UnshareCgroupNS
		outs[n] = j.stream(t, n, p, procs)
	}
	for n := range j.ends(t, 2) {
		out := make([]byte, 100) // what it forked holds the pipe for long
		got, err := outs[n].Read(out)
		text := string(out[:got])
		if err != nil || !strings.Contains(text, fmt.Sprintf("n%d\n", 3*n-1)) || strings.Contains(text, fmt.Sprintf("n%d\n", 3*n)) {
			t.Errorf("pids.max %d: %q, %v", 3*n, text, err)
		}
	}
}

func v2() string {
	var st unix.Statfs_t
	if unix.Statfs("/sys/fs/cgroup", &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
		return "/sys/fs/cgroup"
	}
	return "/sys/fs/cgroup/unified"
}

// On v2 the clone itself puts the job into its cgroup, which is also the root of
// its cgroup namespace.
func TestCgroupV2(t *testing.T) {
	dir := testCgroup(t, v2(), unix.CGROUP2_SUPER_MAGIC, "init", "job", "next")
	for _, d := range []string{"", "job", "next"} {
		if err := os.Chown(filepath.Join(dir, d, "cgroup.procs"), hostUID, hostUID); err != nil {
			t.Fatal(err)
		}
	}
	init := open(t, filepath.Join(dir, "init"), unix.O_PATH|unix.O_DIRECTORY)
	jobDir := open(t, filepath.Join(dir, "job"), unix.O_PATH|unix.O_DIRECTORY)

	p := sh("grep ^0: /proc/self/cgroup /proc/1/cgroup; ls /proc/self/fd; echo ready; exec sleep 100")
	p.Flags |= NewCgroup | IntoCgroup
	o := options{files: []*os.File{jobDir}, cgroup: init}
	j := start(t, p, o)
	j.next(t, Started)
	b, err := os.ReadFile(filepath.Join(dir, "job/cgroup.procs"))
	if err != nil || len(lines(string(b))) < 1 || strings.TrimSpace(string(b)) == "" {
		t.Errorf("job/cgroup.procs %q, %v", b, err)
	}
	j.ready(t, 1)
	write(t, filepath.Join(dir, "job/cgroup.kill"), "1") // PID 1 isn't in it
	if r := j.next(t, Exited); r.WaitStatus != 9 || r.Leftover != 0 {
		t.Errorf("%+v", r)
	}
	out := j.output(t)
	if !strings.Contains(out, "/proc/self/cgroup:0::/\n") || !strings.Contains(out, "/proc/1/cgroup:0::/../init\n") {
		t.Errorf("output %q", out)
	}
	if strings.Contains(out, "\n4\n") {
		t.Errorf("the job holds a descriptor: %q", out)
	}

	// Two of one PID 1 in the same cgroup, and between them some that fail. It is not
	// the one above: what is cloned into a cgroup that cgroup.kill was ever written to
	// dies at once (seen on Linux 6.18; cgroup_post_fork compares the target's kill_seq
	// with that of the parent's cgroup).
	next := open(t, filepath.Join(dir, "next"), unix.O_PATH|unix.O_DIRECTORY)
	j = ready(t, o)
	quick := sh("grep ^0: /proc/self/cgroup")
	quick.Flags |= NewCgroup | IntoCgroup
	for n := uint32(1); n <= 2; n++ {
		r := j.stream(t, n, quick, next)
		j.want(t, n, Started)
		j.want(t, n, Exited)
		if got, err := io.ReadAll(r); err != nil || string(got) != "0::/\n" {
			t.Errorf("%q, %v", got, err)
		}
		j.stream(t, n, quick, j.stdin)
		if r := j.want(t, n, Failed); r.Stage != StageClone || r.Errno != syscall.EBADF {
			t.Errorf("%v", r.Err())
		}
		j.alive(t, n)
	}

	// Not permitted: the errno of the kernel, and nothing runs.
	if err := os.Chown(filepath.Join(dir, "job/cgroup.procs"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if r := runFails(t, p, o); r.Stage != StageClone || !errors.Is(r.Err(), syscall.EACCES) {
		t.Errorf("%v", r.Err())
	}
}

// With a range of ids the job has one of its own and no groups.
func TestRange(t *testing.T) {
	need.Root(t)
	p := sh("id; grep -E '^(Uid|Gid|Groups|CapEff|CapBnd)' /proc/self/status; cat /proc/self/uid_map; kill -0 1 || echo no kill; (: >/proc/1/oom_score_adj) || echo no oom; echo ready; exec sleep 100")
	p.Flags = SetIDs
	p.UIDMap, p.GIDMap = "1000 1000 1", "1000 1000 1"
	j := start(t, p, options{ids: true})
	j.next(t, Started)
	j.ready(t, 1)
	j.Kill() // another uid's processes: PID 1 owns their user namespace
	if r := j.next(t, Exited); r.WaitStatus != 9 {
		t.Errorf("%+v", r)
	}
	out := strings.Join(strings.Fields(j.output(t)), " ")
	for _, want := range []string{"uid=1000", "Uid: 1000 1000 1000 1000", "Groups: CapEff: 0000000000000000 CapBnd: 0000000000000000", "1000 1000 1", "no kill", "no oom"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}

	p = sh("echo ran")
	p.Flags = SetIDs
	p.UIDMap, p.GIDMap, p.UID = "1000 1000 1", "1000 1000 1", 1001
	if r := runFails(t, p, options{ids: true}); r.Stage != StageSetIDs || r.Errno != syscall.EINVAL {
		t.Errorf("%v", r.Err())
	}
}
