//go:build seccomp

package pid1

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// TestUnprivileged runs the tests of this file again as a user with nothing.
func TestUnprivileged(t *testing.T) {
	need.Root(t)
	dir := publicDir(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	test := filepath.Join(dir, "pid1.test")
	if err := os.WriteFile(test, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(test, "-test.run=^TestJob", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54322, Gid: 54322}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "--- PASS: TestJob"); n < 10 {
		t.Errorf("only %d tests passed:\n%s", n, out)
	}
}

// publicDir is a directory that every uid can reach; the parents of t.TempDir are
// for their owner.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pid1-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestJobStatus(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         syscall.WaitStatus
	}{
		{"zero", "exit 0", 0},
		{"seven", "exit 7", 0x700},
		{"term", "kill -TERM $$; sleep 5", 0xf},
		{"kill", "kill -KILL $$; sleep 5", 0x9},
		{"137 is no SIGKILL", "exit 137", 0x8900},
		{"a child's kill", "sh -c 'kill -KILL $$'; exit 3", 0x300},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := run(t, sh(c.script), options{})
			if r.WaitStatus != c.want || r.Leftover != 0 || r.PID < 2 || r.PID > 100 {
				t.Errorf("report %+v, want status %#x", r, c.want)
			}
		})
	}
	t.Run("abort", func(t *testing.T) {
		r, _ := run(t, sh("ulimit -c 0; kill -ABRT $$; sleep 5"), options{})
		if r.WaitStatus&^0x80 != 0x6 {
			t.Errorf("status %#x", r.WaitStatus)
		}
	})
}

func TestJobUsage(t *testing.T) {
	r, _ := run(t, sh("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"), options{})
	if r.Main.User+r.Main.System < 5*time.Millisecond || r.Main.MaxRSS < 100 || r.Main.MaxRSS > 1<<20 {
		t.Errorf("main usage %+v", r.Main)
	}
	if r.All.User < r.Main.User || r.All.MaxRSS < r.Main.MaxRSS {
		t.Errorf("all %+v is less than main %+v", r.All, r.Main)
	}
}

func TestJobExecFailures(t *testing.T) {
	dir := publicDir(t)
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	noInterp := write("no-interp", "#!/no/such/interpreter\n", 0o755)
	text := write("text", "echo not a script\n", 0o755)
	write("denied", "#!/bin/sh\n", 0o644)
	for _, c := range []struct {
		name, argv0   string
		errno         syscall.Errno
		missing, exec bool // NotFound, NotExecutable
		interpreter   bool
	}{
		{"absolute", "/no/such", syscall.ENOENT, true, false, false},
		{"in PATH", "nosuch", syscall.ENOENT, true, false, false},
		{"empty", "", syscall.ENOENT, true, false, false},
		{"relative", "./nosuch", syscall.ENOENT, true, false, false},
		{"below a file", "/etc/passwd/x", syscall.ENOTDIR, true, false, false},
		{"no x bit", "/etc/passwd", syscall.EACCES, false, true, false},
		{"no x bit in PATH", "denied", syscall.EACCES, false, true, false},
		{"directory", "/usr", syscall.EACCES, false, true, false},
		{"no interpreter", noInterp, syscall.ENOENT, false, true, true},
		{"no interpreter in PATH", "no-interp", syscall.ENOENT, false, true, true},
		{"unknown format", text, syscall.ENOEXEC, false, true, false},
		{"unknown format in PATH", "text", syscall.ENOEXEC, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := job(c.argv0)
			p.Env = []string{"PATH=/no/such/dir:" + dir + ":/usr/bin:/bin"}
			r := runFails(t, p, options{})
			e := r.Err().(*StartError)
			if e.Stage != StageExec || e.Errno != c.errno || e.NotFound() != c.missing ||
				e.NotExecutable() != c.exec || e.InterpreterMissing() != c.interpreter {
				t.Errorf("%+v: %v, not found %v, not executable %v", e, e, e.NotFound(), e.NotExecutable())
			}
		})
	}
}

func TestJobPath(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		cwd  string
		arg  string
	}{
		{"second element", []string{"PATH=/etc:/usr/bin:/bin"}, "/", "true"},
		{"default", nil, "/", "true"},
		{"empty element is the cwd", []string{"PATH=/etc::/etc"}, "/usr/bin", "true"},
		{"relative", []string{"PATH=/etc"}, "/usr", "bin/true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := job(c.arg)
			p.Env, p.Cwd = c.env, c.cwd
			if r, _ := run(t, p, options{}); r.WaitStatus != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestJobStartFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Payload)
		stage  Stage
		errno  syscall.Errno
	}{
		{"no cwd", func(p *Payload) { p.Cwd = "/no/such" }, StageCwd, syscall.ENOENT},
		{"cwd is a file", func(p *Payload) { p.Cwd = "/etc/passwd" }, StageCwd, syscall.ENOTDIR},
		{"cwd is PID 1's", func(p *Payload) { p.Cwd = "/proc/1/root" }, StageCwd, syscall.EACCES},
		{"cwd is a descriptor", func(p *Payload) { p.Cwd = "/proc/self/fd/5" }, StageCwd, syscall.ENOENT},
		{"uid map", func(p *Payload) { p.UIDMap = "1000 0 2" }, StageUIDMap, syscall.EPERM},
		{"gid map", func(p *Payload) { p.GIDMap = "1000 0 2" }, StageGIDMap, syscall.EPERM},
		{"other uid", func(p *Payload) { p.UIDMap = "1001 0 1" }, StageIDs, syscall.EPERM},
		{"other gid", func(p *Payload) { p.GIDMap = "0 0 1" }, StageIDs, syscall.EPERM},
		{"rlimit up", func(p *Payload) { p.Rlimits = []Rlimit{{unix.RLIMIT_NOFILE, 1 << 40, 1 << 40}} }, StageRlimit, syscall.EPERM},
		{"affinity", func(p *Payload) { p.Affinity = make([]byte, 8) }, StageAffinity, syscall.EINVAL},
		{"bad filter", func(p *Payload) { p.Filters = [][]byte{insns(unix.SockFilter{})} }, StageFilter, syscall.EINVAL},
		{"second filter", func(p *Payload) { p.Filters = [][]byte{allowAll, insns(unix.SockFilter{})} }, StageFilter, syscall.EINVAL},
		{"filter denies exec", func(p *Payload) { p.Filters = [][]byte{answer(unix.SYS_EXECVE, retErrno|uint32(syscall.EXDEV))} }, StageExec, syscall.EXDEV},
		{"filter kills exec", func(p *Payload) { p.Filters = [][]byte{answer(unix.SYS_EXECVE, retKill)} }, StageDied, syscall.ECHILD},
		{"no filter", func(p *Payload) { p.Filters = nil }, StagePayload, syscall.EBADMSG},
		{"filter and NoFilter", func(p *Payload) { p.Flags |= NoFilter }, StagePayload, syscall.EBADMSG},
		{"no cgroup directory", func(p *Payload) { p.Flags |= IntoCgroup }, StageClone, syscall.EBADF},
		{"procs file for reading", func(p *Payload) { p.Flags |= UnshareCgroupNS }, StageCgroup, syscall.EBADF},
		{"cgroup directory without the flag", func(p *Payload) { p.Flags |= IntoCgroup }, StagePayload, syscall.EBADMSG},
		{"flags of PID 1", func(p *Payload) { p.Flags |= RequirePDeathSig }, StagePayload, syscall.EBADMSG},
		{"too many arguments", func(p *Payload) { p.Args = append(p.Args, strings.Repeat("x", 1<<20)) }, StageExec, syscall.E2BIG},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sh("echo ran")
			c.change(&p)
			o := options{}
			if c.name == "cwd is a descriptor" { // leaked by the caller
				f, err := os.Open("/")
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				o.extra = []*os.File{f}
			}
			switch c.name {
			case "no cgroup directory", "procs file for reading":
				f, err := os.Open(os.DevNull)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				o.files = []*os.File{f}
			}
			r := runFails(t, p, o)
			if r.Stage != c.stage || r.Errno != c.errno {
				t.Errorf("%v (%+v), want %v: %v", r.Err(), r, c.stage, c.errno)
			}
			if c.stage == StageDied && r.WaitStatus.Signal() != syscall.SIGSYS {
				t.Errorf("wait status %#x", r.WaitStatus)
			}
		})
	}
}

func TestJobPDeathSig(t *testing.T) {
	j := boot(t, options{stage: "nodeathsig"})
	if err := j.Setup(&Setup{Flags: RequirePDeathSig}); err != nil {
		t.Fatal(err)
	}
	if r := j.next(t, Failed); r.Stage != StagePDeathSig || r.Job != 0 {
		t.Errorf("%v", r.Err())
	}
	if err := j.cmd.Wait(); err == nil {
		t.Error("pid 1 ended with 0 after a failure")
	}
}

func TestJobIdentity(t *testing.T) {
	p := sh(`id -u; id -g; cat /proc/self/uid_map /proc/self/setgroups
grep -E '^(Cap|NoNewPrivs|Seccomp:|Sig(Blk|Ign))' /proc/self/status
umask; pwd; [ $(cut -d' ' -f6 /proc/$$/stat) = $$ ] && echo leader; env`)
	p.Umask, p.Cwd, p.Env = 0o027, "/usr", []string{"PATH=/usr/bin:/bin", "A=b c"}
	_, out := run(t, p, options{})
	got := strings.Join(strings.Fields(out), " ")
	zero := "0000000000000000"
	for _, want := range []string{
		"1000 1000 1000 0 1 deny",
		"SigBlk: " + zero, "SigIgn: " + zero,
		"CapInh: " + zero + " CapPrm: " + zero + " CapEff: " + zero + " CapBnd: " + zero + " CapAmb: " + zero,
		"NoNewPrivs: 1 Seccomp: 2",
		"0027 /usr leader", "A=b c",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

func TestJobLimits(t *testing.T) {
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		t.Fatal(err)
	}
	first := 0
	for !cpus.IsSet(first) {
		first++
	}
	p := sh("ulimit -Sn; ulimit -Hn; grep Cpus_allowed_list /proc/self/status")
	p.Rlimits = []Rlimit{{unix.RLIMIT_NOFILE, 17, 23}}
	p.Affinity = make([]byte, 128)
	p.Affinity[first/8] = 1 << (first % 8)
	_, out := run(t, p, options{})
	if want := fmt.Sprintf("17 23 Cpus_allowed_list: %d", first); strings.Join(strings.Fields(out), " ") != want {
		t.Errorf("%q, want %q", out, want)
	}
}

func TestJobDescriptors(t *testing.T) {
	f, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// dash keeps none of its own; ls has its directory open as 3.
	_, out := run(t, job("ls", "/proc/self/fd"), options{extra: []*os.File{f, f, f}})
	if got := strings.Join(strings.Fields(out), " "); got != "0 1 2 3" {
		t.Errorf("descriptors of ls: %s", got)
	}
	_, out = run(t, sh("for i in 3 4 5 6 7 8; do [ -e /proc/$$/fd/$i ] && echo $i; done; true"), options{extra: []*os.File{f, f, f}})
	if strings.TrimSpace(out) != "" && strings.TrimSpace(out) != "10" {
		t.Errorf("descriptors of sh: %s", out)
	}
}

func TestJobFilter(t *testing.T) {
	p := sh(`umask 077; kill -0 $$ || echo denied`)
	p.Filters = [][]byte{allowAll, answer(unix.SYS_KILL, retErrno|uint32(syscall.EPERM))}
	if _, out := run(t, p, options{}); !strings.Contains(out, "denied") {
		t.Errorf("output %q", out)
	}
	p = sh(`grep Seccomp: /proc/self/status`)
	p.Filters, p.Flags = nil, p.Flags|NoFilter
	if _, out := run(t, p, options{}); !strings.Contains(out, "0") {
		t.Errorf("output %q", out)
	}
}

func TestJobAgainstPID1(t *testing.T) {
	_, out := run(t, sh(`
for s in KILL STOP TERM CHLD SEGV HUP; do kill -$s 1; done 2>/dev/null
for f in environ maps mem; do cat /proc/1/$f >/dev/null 2>&1 && echo read $f; done
for l in exe root cwd; do readlink /proc/1/$l && echo link $l; done 2>/dev/null
# the numbers can be listed (same host uid), what they lead to can't be had
for i in 0 1 2 3 4 5 6 7 8 9 10; do readlink /proc/1/fd/$i && echo link fd $i; done 2>/dev/null
(: >>/proc/1/mem) 2>/dev/null && echo wrote mem
(: <>/proc/self/fd/3) 2>/dev/null && echo reached 3
grep State: /proc/1/status | cut -c1-8
echo end`), options{})
	if got := lines(out); len(got) != 2 || !strings.HasPrefix(got[0], "State:\tS") && !strings.HasPrefix(got[0], "State:\tR") || got[1] != "end" {
		t.Errorf("output %q", out)
	}
}

func TestJobLeftover(t *testing.T) {
	begin := time.Now()
	r, _ := run(t, sh("sleep 100 & sleep 100 & setsid sleep 100 & exit 4"), options{})
	if r.Leftover != 3 || r.WaitStatus != 0x400 {
		t.Errorf("%+v", r)
	}
	if d := time.Since(begin); d > need.Time(10*time.Second) {
		t.Errorf("took %v", d)
	}
}

// zombie waits until the jail has one.
const zombie = "until cat /proc/[0-9]*/stat 2>/dev/null | grep -q ') Z'; do sleep 0.01; done"

// emptied waits until nobody is left in the jail but PID 1 and the shell.
const emptied = "until set -- /proc/[0-9]*; [ $# -eq 2 ]; do sleep 0.01; done"

// A zombie whose parent lives is nobody to be killed.
func TestJobLeftoverZombie(t *testing.T) {
	r, _ := run(t, sh("(: & exec sleep 100) & "+zombie+"; exit 0"), options{})
	if r.Leftover != 1 {
		t.Errorf("%+v", r)
	}
}

// One whose first thread has ended looks like a zombie, and runs on.
func TestJobLeftoverThread(t *testing.T) {
	need.Program(t, "python3")
	r, _ := run(t, sh(`python3 -c '
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(100,)).start()
ctypes.CDLL(None).pthread_exit(None)' & `+zombie+`; exit 0`), options{})
	if r.Leftover != 1 {
		t.Errorf("%+v", r)
	}
}

// The main process never waits for its child; what the child used counts anyway.
func TestJobUsageOfOrphans(t *testing.T) {
	r, _ := run(t, sh(`sh -c '(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done) &'; `+emptied), options{})
	if d := r.All.User + r.All.System - r.Main.User - r.Main.System; d < 5*time.Millisecond {
		t.Errorf("all %+v, main %+v", r.All, r.Main)
	}
}

// PID 1 holds none of the job's stdio: the output ends when the job closes it.
func TestJobClosesOutput(t *testing.T) {
	j := start(t, sh("exec >/dev/null 2>&1; exec sleep 100"), options{})
	j.next(t, Started)
	j.output(t)
	j.Kill()
	if r := j.next(t, Exited); r.WaitStatus != 9 {
		t.Errorf("%+v", r)
	}
}

func TestJobZombies(t *testing.T) {
	// 200 orphans: each is reparented to PID 1 and must not stay as a zombie.
	r, out := run(t, sh(`i=0; while [ $i -lt 200 ]; do (sleep 0.01 &); i=$((i+1)); done
`+emptied+`; echo $i`), options{})
	if out != "200\n" || r.Leftover != 0 {
		t.Errorf("%q, %+v", out, r)
	}
}

func TestJobSignals(t *testing.T) {
	ready := func(t *testing.T, j *jail, n int) {
		t.Helper()
		j.next(t, Started)
		j.ready(t, n)
	}
	t.Run("main", func(t *testing.T) {
		j := start(t, sh("trap 'exit 42' TERM; sleep 100 & echo ready; wait"), options{})
		ready(t, j, 1)
		j.Signal(1, syscall.SIGTERM)
		if r := j.next(t, Exited); r.WaitStatus != 42<<8 || r.Leftover != 1 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("group", func(t *testing.T) {
		j := start(t, sh("(trap 'echo child; exit' TERM; sleep 100 & echo ready; wait) & trap 'exit 42' TERM; echo ready; wait; wait"), options{})
		ready(t, j, 2)
		j.SignalGroup(1, syscall.SIGTERM)
		if r := j.next(t, Exited); r.WaitStatus != 42<<8 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("kill", func(t *testing.T) {
		j := start(t, sh("trap '' TERM INT HUP; (setsid sleep 100 &); echo ready; sleep 100"), options{})
		ready(t, j, 1)
		j.Kill()
		if r := j.next(t, Exited); r.WaitStatus != 9 {
			t.Errorf("%+v", r)
		}
		j.output(t)
	})
	t.Run("kill a stopped job", func(t *testing.T) {
		j := start(t, sh("(until grep -q '^State:.T' /proc/$$/status; do :; done; echo ready) & kill -STOP $$"), options{})
		ready(t, j, 1)
		j.Kill()
		if r := j.next(t, Exited); r.WaitStatus != 9 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("kill at once", func(t *testing.T) {
		for range 10 { // before or after the exec; never a job that lives on
			p := sh("trap '' TERM; sleep 100")
			j := start(t, p, options{})
			j.Kill()
			r, err := j.Next()
			if err == nil && r.Type == Started {
				r, err = j.Next()
			}
			if err != nil || r.Type == Failed && r.Stage != StageDied || r.WaitStatus != 9 {
				t.Errorf("%+v, %v", r, err)
			}
			j.output(t)
		}
	})
	t.Run("in pieces", func(t *testing.T) {
		j := start(t, sh("sleep 100"), options{})
		j.next(t, Started)
		for _, b := range order(controlKill, 0, 0) {
			j.f.Write([]byte{b})
			time.Sleep(5 * time.Millisecond)
		}
		if r := j.next(t, Exited); r.WaitStatus != 9 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("no message", func(t *testing.T) {
		j := start(t, sh("sleep 100"), options{})
		j.next(t, Started)
		j.f.Write(order(9, 1, 0))
		if r := j.next(t, Failed); r.Stage != StageControl || r.Job != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// The launcher's end closes: everything dies, with nobody left to ask for it.
func TestJobLauncherGone(t *testing.T) {
	for _, when := range []string{"running", "before the setup", "in the setup", "before the payload", "in the payload"} {
		t.Run(when, func(t *testing.T) {
			var j *jail
			p := sh("trap '' TERM HUP; (setsid sleep 100 &); echo ready; sleep 100; echo ran")
			want := ""
			switch when {
			case "running":
				j = start(t, p, options{})
				j.next(t, Started)
				j.ready(t, 1)
				want = "ready\n"
			case "before the setup":
				j = boot(t, options{})
			case "in the setup":
				j = boot(t, options{})
				b, _ := (&Setup{}).encode()
				j.f.Write(b[:len(b)-4])
			case "before the payload":
				j = ready(t, options{})
			case "in the payload":
				j = ready(t, options{})
				b, _ := p.encode(0)
				j.f.Write(append(order(controlExec, 1, uint32(len(b))), b[:len(b)-4]...))
			}
			j.Close()
			if out := j.output(t); out != want {
				t.Errorf("output %q, want %q", out, want)
			}
			if err := j.cmd.Wait(); err == nil {
				t.Error("pid 1 ended with 0")
			}
		})
	}
}

func TestJobNproc(t *testing.T) {
	p := sh(`n=0; while [ $n -lt 30 ]; do sleep 100 & n=$((n+1)); echo $n; done`)
	p.Rlimits = []Rlimit{{unix.RLIMIT_NPROC, 8, 8}, {unix.RLIMIT_CORE, 0, 0}}
	r, out := run(t, p, options{})
	if !strings.Contains(out, "7\n") || strings.Contains(out, "8\n") || r.Leftover != 7 {
		t.Errorf("leftover %d, output %q", r.Leftover, out)
	}
}

// Whatever the job does to wake or drown PID 1, the report is true and in time.
// The storms are the main shell's children: it would end itself at a failed fork.
func TestJobStorms(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"SIGCHLD", `(while :; do kill -CHLD 1; done) & sleep 0.5; exit 9`},
		{"stop and continue", `sleep 100 & p=$!; (while :; do kill -STOP $p; kill -CONT $p; done) & sleep 0.5; exit 9`},
		{"orphans", `sleep 0.5 & p=$!; (while :; do (: &) ; done) & (while :; do (: &) ; done) & wait $p; exit 9`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sh(c.script)
			p.Rlimits = []Rlimit{{unix.RLIMIT_NPROC, 64, 64}}
			j := start(t, p, options{})
			j.next(t, Started)
			j.SetReadDeadline(time.Now().Add(need.Time(10 * time.Second)))
			if r := j.next(t, Exited); r.WaitStatus != 0x900 || r.Leftover == 0 {
				t.Errorf("%+v", r)
			}
			if _, err := j.Next(); err != io.EOF {
				t.Errorf("%v", err)
			}
			j.output(t)
		})
	}
	t.Run("kill in a storm", func(t *testing.T) {
		p := sh(`sleep 100 & p=$!; f() { n=0; while :; do (: &); n=$((n+1)); [ $n -ne 30 ] || echo ready; done; }; f & f & wait $p`)
		p.Rlimits = []Rlimit{{unix.RLIMIT_NPROC, 64, 64}}
		j := start(t, p, options{})
		j.next(t, Started)
		j.ready(t, 1)
		j.Kill()
		j.SetReadDeadline(time.Now().Add(need.Time(10 * time.Second)))
		if r := j.next(t, Exited); r.WaitStatus != 9 {
			t.Errorf("%+v", r)
		}
	})
}
