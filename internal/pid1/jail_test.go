//go:build seccomp

package pid1

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// hostUID is what the jail's root is on the host when the tests run as root.
const hostUID = 54321

// TestMain is also the jail's first process, between its clone and PID 1: what
// libcontainer's init does for a real one.
func TestMain(m *testing.M) {
	if os.Getenv("PID1_STAGE") != "" {
		err := stage()
		fmt.Fprintln(os.Stderr, "stage:", err)
		os.Exit(99)
	}
	os.Exit(m.Run())
}

func stage() error {
	runtime.LockOSThread()
	// What a launcher may leave behind, and the job must not inherit. An ignored
	// SIGCHLD would also rob PID 1 of the wait status.
	signal.Ignore(unix.SIGINT, unix.SIGPIPE, unix.SIGCHLD)
	usr1 := unix.Sigset_t{}
	usr1.Val[0] = 1 << (unix.SIGUSR1 - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &usr1, nil); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	if mode := os.Getenv("PID1_DEVPTS"); mode != "" {
		if err := unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_RDONLY, "mode=0620,max=1,ptmxmode="+mode); err != nil {
			return fmt.Errorf("devpts: %w", err)
		}
	}
	if size := os.Getenv("PID1_TMPFS"); size != "" {
		if err := unix.Mount("tmpfs", "/mnt", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size="+size); err != nil {
			return fmt.Errorf("tmpfs: %w", err)
		}
	}
	keep := []uint{unix.CAP_SETFCAP}
	if os.Getenv("PID1_RANGE") != "" {
		keep = append(keep, unix.CAP_SETUID, unix.CAP_SETGID)
	}
	var mask uint32
	for _, c := range keep {
		mask |= 1 << (c % 32) // all below 32
	}
	for c := uintptr(0); c <= 40; c++ {
		if c < 32 && mask&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("bounding %d: %w", c, err)
		}
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: mask, Permitted: mask}}
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	// No no_new_privs here: the job must have it by itself.
	if os.Getenv("PID1_STAGE") != "nodeathsig" {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return err
		}
	}
	if p := os.Getenv("PID1_PROFILE"); p != "" { // as libcontainer does it
		if err := os.WriteFile("/proc/thread-self/attr/apparmor/exec", []byte("exec "+p), 0); err != nil {
			return err
		}
	}
	return unix.Exec("/proc/self/fd/4", []string{"/proc/self/fd/4"}, nil)
}

// jail is one PID 1 under test.
type jail struct {
	*Conn
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File    // for jobs; output waits until all have closed it
	out    chan string // what was written, once nobody holds the other end

	mu      sync.Mutex
	written []byte // until now
}

// Write takes the job's output.
func (j *jail) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.written = append(j.written, b...)
	return len(b), nil
}

// ready waits until the job has written that word in n lines: its traps are set, its
// children are there.
func (j *jail) ready(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(need.Time(20 * time.Second)); ; time.Sleep(time.Millisecond) {
		j.mu.Lock()
		got := string(j.written)
		j.mu.Unlock()
		if strings.Count(got, "ready\n") >= n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("never ready: %q", got)
		}
	}
}

type options struct {
	stage  string     // PID1_STAGE
	ids    bool       // range mode: two ids are mapped
	armor  string     // AppArmor profile of PID 1
	devpts string     // mode of ptmx in an instance of its own on /dev/pts, for one terminal
	extra  []*os.File // descriptors 5… of PID 1, leaked by who started it
	cgroup *os.File   // directory that PID 1 starts in (v2)
	flags  Flags      // of Setup, beside RequirePDeathSig
	label  string     // of Setup
	files  []*os.File // Files.Cgroup of the job
	noStd  bool       // no Files.Stdin …
	size   string     // of a tmpfs on /mnt
}

// boot starts PID 1 and sends nothing.
func boot(t testing.TB, o options) *jail {
	t.Helper()
	conn, child, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	mem, err := Memfd()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"PID1_STAGE=1"}
	if o.stage != "" {
		cmd.Env[0] = "PID1_STAGE=" + o.stage
	}
	cmd.Stdout, cmd.Stderr = w, w
	cmd.ExtraFiles = append([]*os.File{child, mem}, o.extra...)
	size, host := 1, os.Getuid()
	if host == 0 {
		host = hostUID
	}
	if o.ids {
		size = 2001
		cmd.Env = append(cmd.Env, "PID1_RANGE=1")
	}
	if o.armor != "" {
		cmd.Env = append(cmd.Env, "PID1_PROFILE="+o.armor)
	}
	if o.devpts != "" {
		cmd.Env = append(cmd.Env, "PID1_DEVPTS="+o.devpts)
	}
	if o.size != "" {
		cmd.Env = append(cmd.Env, "PID1_TMPFS="+o.size)
	}
	root := os.Getuid() == 0
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:                 unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: size}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: hostGroup(host), Size: size}},
		GidMappingsEnableSetgroups: root,
		Credential:                 &syscall.Credential{NoSetGroups: !root},
	}
	if o.cgroup != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(o.cgroup.Fd())
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child.Close()
	mem.Close()
	j := &jail{Conn: conn, cmd: cmd, stdin: null, stdout: w, out: make(chan string, 1)}
	go func() {
		io.Copy(j, r)
		r.Close()
		j.out <- string(j.written)
	}()
	t.Cleanup(func() {
		conn.Close()
		j.closeOurs()
		cmd.Process.Kill()
		cmd.Wait()
	})
	conn.SetReadDeadline(time.Now().Add(need.Time(30 * time.Second)))
	return j
}

// ready starts PID 1 and sets it up.
func ready(t testing.TB, o options) *jail {
	t.Helper()
	j := boot(t, o)
	if err := j.Setup(&Setup{RequirePDeathSig | o.flags, o.label}); err != nil {
		t.Fatal(err)
	}
	if r := j.next(t, Ready); r != (Report{Type: Ready}) {
		t.Errorf("%+v", r)
	}
	return j
}

// closeOurs closes our copies of what jobs get.
func (j *jail) closeOurs() {
	j.stdin.Close()
	j.stdout.Close()
}

func (j *jail) files(o options) Files {
	if o.noStd {
		return Files{Cgroup: o.files}
	}
	return Files{Stdin: j.stdin, Stdout: j.stdout, Stderr: j.stdout, Cgroup: o.files}
}

// start is a whole run's beginning: job 1 of a PID 1 that ends with it.
func start(t *testing.T, p Payload, o options) *jail {
	t.Helper()
	o.flags |= Once
	j := ready(t, o)
	if err := j.Exec(1, &p, j.files(o)); err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Fatal(err)
	}
	j.closeOurs()
	return j
}

// next wants a report of this type, of job 1 or, being ready, of PID 1.
func (j *jail) next(t testing.TB, want Type) Report {
	t.Helper()
	r, err := j.Next()
	if err != nil {
		j.cmd.Process.Kill()
		j.closeOurs()
		t.Fatalf("report: %v; output %q", err, <-j.out)
	}
	if r.Type != want || want != Ready && r.Job != 1 && (want != Failed || r.Job != 0) {
		t.Fatalf("report %+v (%v), want type %d", r, r.Err(), want)
	}
	return r
}

// output waits until nobody holds the job's stdout.
func (j *jail) output(t *testing.T) string {
	t.Helper()
	j.closeOurs()
	select {
	case s := <-j.out:
		return s
	case <-time.After(need.Time(20 * time.Second)):
		t.Fatal("the job's output stays open")
	}
	return ""
}

// run runs to the end.
func run(t *testing.T, p Payload, o options) (Report, string) {
	t.Helper()
	j := start(t, p, o)
	j.next(t, Started)
	r := j.next(t, Exited)
	if _, err := j.Next(); err != io.EOF {
		t.Errorf("after the last report: %v", err)
	}
	out := j.output(t)
	if err := j.cmd.Wait(); err != nil {
		t.Errorf("pid 1: %v", err)
	}
	return r, out
}

// runFails wants the job never to be executed.
func runFails(t *testing.T, p Payload, o options) Report {
	t.Helper()
	j := start(t, p, o)
	r := j.next(t, Failed)
	if out := j.output(t); out != "" {
		t.Errorf("output of a job that failed to start: %q", out)
	}
	if err := j.cmd.Wait(); err == nil {
		t.Error("pid 1 ended with 0 after a failure")
	}
	return r
}

func insns(f ...unix.SockFilter) []byte {
	var b []byte
	for _, i := range f {
		b = binary.LittleEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.LittleEndian.AppendUint32(b, i.K)
	}
	return b
}

const (
	retAllow = 0x7fff0000
	retErrno = 0x00050000
	retKill  = 0x80000000
)

var allowAll = insns(unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: retAllow})

// answer gives ret to one system call.
func answer(nr uintptr, ret uint32) []byte {
	return insns(
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: uint32(nr)},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: ret},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: retAllow},
	)
}

// job is a payload with the defaults of the tests.
func job(args ...string) Payload {
	return Payload{
		Flags:  SetgroupsDeny,
		UIDMap: "1000 0 1", GIDMap: "1000 0 1", UID: 1000, GID: 1000,
		Umask: 0o022, Cwd: "/", Filters: [][]byte{allowAll},
		Args: args, Env: []string{"PATH=/usr/bin:/bin"},
	}
}

func sh(script string) Payload { return job("/bin/sh", "-c", script) }

func lines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }

// hostGroup is the only group that an unprivileged process may map: its own.
func hostGroup(host int) int {
	if os.Getuid() == 0 {
		return host
	}
	return os.Getgid()
}
