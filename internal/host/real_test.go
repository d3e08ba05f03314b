package host

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/cgroup"
	"github.com/jailer-project/jailer/test/need"
)

// TestHere runs the probes on this host, as the caller and, started as root,
// as a user. What they must say of a host that varies is little: every probe
// answers, and the trial agrees with what a program of the host can do.
func TestHere(t *testing.T) {
	t.Run("caller", func(t *testing.T) { judge(t, os.Geteuid(), Here().Check(good())) })
	t.Run("user", func(t *testing.T) {
		need.Root(t)
		const uid = 54321
		dir := t.TempDir()
		for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		bin := filepath.Join(dir, "host.test")
		if err := os.WriteFile(bin, self, 0o755); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(bin, "-test.run=^TestChild$")
		c.Dir = "/"
		c.Env = []string{"HOST_TEST_CHILD=1"}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		line, _, _ := strings.Cut(string(out), "\n")
		var found []Finding
		if err := json.Unmarshal([]byte(line), &found); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		judge(t, uid, found)
	})
}

// TestChild is what TestHere starts as a user.
func TestChild(t *testing.T) {
	if os.Getenv("HOST_TEST_CHILD") == "" {
		return
	}
	if err := json.NewEncoder(os.Stdout).Encode(Here().Check(good())); err != nil {
		t.Fatal(err)
	}
}

func judge(t *testing.T, uid int, found []Finding) {
	for _, f := range found {
		if !Known(f.ID) {
			t.Errorf("%s: not in the catalogue", f.ID)
		}
		if f.Needed && f.State == Unknown {
			t.Errorf("%s: could not tell: %s", f.ID, f.Reason)
		}
	}
	for _, id := range []string{"kernel.floor", "kernel.arch", "build.seccomp", "seccomp.kernel", "state.dir"} {
		if f := find(t, found, id); f.State != Yes {
			t.Errorf("%+v: the tests themselves need it", f)
		}
	}
	create, proc := find(t, found, "userns.create"), find(t, found, "proc.fresh")
	need.Feature(t, "userns", create.State == Yes, create.Reason)
	control(t, uid, proc.State == Yes)
	l, err := cgroup.Detect("")
	if err != nil {
		t.Fatal(err)
	}
	h := find(t, found, "cgroup.hierarchy")
	memory := find(t, found, "cgroup.memory")
	if _, v1 := l.V1["memory"]; v1 {
		if l.Mode == cgroup.ModeHybrid && len(l.V2Controllers) == 0 && !strings.Contains(h.Reason, "cgroup v2 has no memory, pids, cpu here") {
			t.Errorf("%+v", h)
		}
		if uid != 0 && (memory.State != No || memory.Cause != "cgroup.v1.memory" || !slices.Contains(Failed(found), "cgroup.memory")) {
			t.Errorf("a user on cgroup v1: %+v", memory)
		}
	}
}

// control asks unshare(1) the same question.
func control(t *testing.T, uid int, ours bool) {
	unshare := need.Program(t, "unshare")
	c := exec.Command(unshare, "--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--ipc", "--uts", "--mount-proc", "true")
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{}
	if uid != os.Geteuid() {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	out, err := c.CombinedOutput()
	if (err == nil) != ours {
		t.Errorf("proc.fresh is %v, unshare says %v: %s", ours, err, out)
	}
}

// TestReports holds what the kernel says against what its files say.
func TestReports(t *testing.T) {
	if d, err := slept(); err != nil || d < 0 {
		t.Errorf("suspended for %v, %v", d, err)
	}
	b, err := os.ReadFile(mountinfo)
	if err != nil {
		t.Fatal(err)
	}
	options := map[string]string{} // of the topmost mount at each point
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		options[f[4]] = f[5]
	}
	for _, dir := range []string{"/", "/proc", "/dev/shm"} {
		o, mounted := options[dir]
		no, err := noExec(dir)
		if want := slices.Contains(strings.Split(o, ","), "noexec"); mounted && (err != nil || no != want) {
			t.Errorf("%s is mounted %s: noexec %v, %v", dir, o, no, err)
		}
	}
	if _, err := noExec("/nosuch"); err == nil {
		t.Error("a directory that isn't there has a mount")
	}
	h := Here()
	if v, ok := h.upstream(); !ok || v.before(version{2, 6}) {
		t.Errorf("%q, %q is %v", h.Release, h.Version, v)
	}
}

// TestMasked makes a /proc like a container's and wants the kernel's refusal,
// not a guess from the mounts.
func TestMasked(t *testing.T) {
	unshare := need.Program(t, "unshare")
	need.Root(t)
	if tr := try(os.Geteuid(), os.Getegid()); !tr.OK() {
		need.Feature(t, "userns", false, tr.Error())
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(unshare, "--mount", "--propagation", "private", "sh", "-c",
		"mount --bind /dev/null /proc/keys || mount --bind /dev/null /proc/cpuinfo; exec \"$0\" -test.run='^TestChild$'", self)
	c.Env = []string{"HOST_TEST_CHILD=1", "PATH=/usr/bin:/bin:/usr/sbin:/sbin"}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	var found []Finding
	if err := json.Unmarshal([]byte(line), &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if f := find(t, found, "userns.create"); f.State != Yes {
		t.Errorf("%+v", f)
	}
	f := find(t, found, "proc.fresh")
	if f.State != No || !strings.Contains(f.Reason, "/proc/") || f.Hint == "" || !f.Failed() {
		t.Errorf("%+v", f)
	}
}

// TestTrialSteps wants the real errors of the steps.
func TestTrialSteps(t *testing.T) {
	need.Root(t)
	if tr := try(os.Geteuid(), os.Getegid()); !tr.OK() {
		need.Feature(t, "userns", false, tr.Error())
	}
	// An id of another user: only root may map it, and root may.
	if tr := try(1900000000, 1900000000); !tr.OK() {
		t.Errorf("as root with an id of a range: %v", tr)
	}
	// Inside refuses to mount anything outside of a trial.
	if got := Inside(); got != 2 {
		t.Errorf("outside: %d", got)
	}
	for _, c := range []struct {
		in   Trial
		want string
	}{
		{Trial{}, ""},
		{Trial{stepProc, unix.EPERM}, "could not mount a fresh /proc in them: operation not permitted"},
		{Trial{stepClone, &os.PathError{Op: "fork/exec", Path: "/x", Err: unix.ENOSPC}}, "could not make namespaces: no space left on device"},
		{Trial{stepRun, errors.New("killed")}, "could not start a trial process: killed"},
	} {
		if got := c.in.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
