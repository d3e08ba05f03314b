//go:build seccomp

package pid1

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// job starts a job in a PID 1 that lives on; its output is the jail's.
func (j *jail) job(t testing.TB, n uint32, p Payload) {
	t.Helper()
	j.SetReadDeadline(time.Now().Add(need.Time(30 * time.Second)))
	if err := j.Exec(n, &p, j.files(options{})); err != nil {
		t.Fatal(err)
	}
}

// want waits for one report of one job.
func (j *jail) want(t testing.TB, n uint32, typ Type) Report {
	t.Helper()
	r, err := j.Next()
	if err != nil || r.Job != n || r.Type != typ {
		t.Fatalf("%+v, %v (%v), want type %d of job %d", r, err, r.Err(), typ, n)
	}
	return r
}

// ends collects the last reports of n jobs, in any order, and wants each to have been
// started before it exited.
func (j *jail) ends(t testing.TB, n int) map[uint32]Report {
	t.Helper()
	ends, started := map[uint32]Report{}, map[uint32]bool{}
	for len(ends) < n {
		r, err := j.Next()
		if err != nil {
			t.Fatalf("%v after %d of %d ends", err, len(ends), n)
		}
		if _, ok := ends[r.Job]; ok || r.Job == 0 {
			t.Fatalf("%+v: not a job that lives (%v)", r, r.Err())
		}
		switch r.Type {
		case Started:
			started[r.Job] = true
		case Exited:
			if !started[r.Job] {
				t.Errorf("job %d exited and never started", r.Job)
			}
			ends[r.Job] = r
		case Failed:
			ends[r.Job] = r
		default:
			t.Fatalf("%+v", r)
		}
	}
	return ends
}

// alive wants a PID 1 that still does its work.
func (j *jail) alive(t testing.TB, n uint32) {
	t.Helper()
	j.job(t, n, sh("exit 5"))
	j.want(t, n, Started)
	if r := j.want(t, n, Exited); r.WaitStatus != 0x500 {
		t.Errorf("%+v", r)
	}
}

// stream runs one job on a pipe of its own, and gives its other end.
func (j *jail) stream(t testing.TB, n uint32, p Payload, cgroup ...*os.File) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	err = j.Exec(n, &p, Files{Stdin: j.stdin, Stdout: w, Stderr: w, Cgroup: cgroup})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestJobsOneAfterAnother(t *testing.T) {
	j := ready(t, options{})
	for n := uint32(1); n <= 50; n++ {
		j.job(t, n, sh(fmt.Sprintf("exit %d", n)))
		j.want(t, n, Started)
		if r := j.want(t, n, Exited); r.WaitStatus != syscall.WaitStatus(n<<8) || r.Leftover != 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestJobsSideBySide(t *testing.T) {
	for _, n := range []int{2, 60} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			j := ready(t, options{})
			for i := range n { // the later ones end first
				j.job(t, uint32(i+1), sh(fmt.Sprintf("sleep 0.%02d; exit %d", n-i, i+1)))
			}
			pids := map[uint32]bool{}
			for job, r := range j.ends(t, n) {
				if r.Type != Exited || r.WaitStatus != syscall.WaitStatus(job<<8) || pids[r.PID] {
					t.Errorf("job %d: %+v (%v)", job, r, r.Err())
				}
				pids[r.PID] = true
			}
			j.alive(t, 1) // a number that is free again
		})
	}
}

// Their ends come as they do; that of one is never another's.
func TestJobsAnyOrder(t *testing.T) {
	j := ready(t, options{})
	const n = 300
	want := map[uint32]syscall.WaitStatus{}
	got := map[uint32]Report{}
	for i := uint32(1); i <= n; i++ {
		switch i % 5 {
		case 0:
			j.job(t, i, job("/no/such"))
		case 1:
			p := job("/bin/true")
			p.Filters = [][]byte{answer(unix.SYS_EXECVE, retKill)}
			j.job(t, i, p)
		default:
			j.job(t, i, sh(fmt.Sprintf("exit %d", i%256)))
			want[i] = syscall.WaitStatus(i % 256 << 8)
		}
		if i%20 == 0 {
			for job, r := range j.ends(t, 20) {
				got[job] = r
			}
		}
	}
	for i := uint32(1); i <= n; i++ {
		r := got[i]
		status, runs := want[i]
		switch {
		case runs && (r.Type != Exited || r.WaitStatus != status):
			t.Errorf("job %d: %+v (%v), want %#x", i, r, r.Err(), status)
		case i%5 == 0 && r.Stage != StageExec:
			t.Errorf("job %d: %+v", i, r)
		case i%5 == 1 && (r.Stage != StageDied || r.WaitStatus.Signal() != syscall.SIGSYS):
			t.Errorf("job %d: %+v", i, r)
		}
	}
}

func TestJobsTooMany(t *testing.T) {
	j := ready(t, options{})
	for i := range uint32(MaxJobs) {
		j.job(t, i+1, job("sleep", "1000"))
		j.want(t, i+1, Started)
	}
	for range 3 {
		j.job(t, 1000, job("/bin/true"))
		if r := j.want(t, 1000, Failed); r.Stage != StageJobs || r.Errno != syscall.EAGAIN {
			t.Errorf("%v", r.Err())
		}
	}
	j.Signal(7, syscall.SIGTERM)
	if r := j.want(t, 7, Exited); r.WaitStatus != 15 || r.Leftover != LeftoverUnknown {
		t.Errorf("%+v", r)
	}
	j.alive(t, 1000)
	j.Kill()
	for job, r := range endsOf(t, j, MaxJobs-1) {
		if r.Type != Exited || r.WaitStatus != 9 {
			t.Errorf("job %d: %+v", job, r)
		}
	}
	j.alive(t, 1)
}

// endsOf is ends for jobs whose Started has been read.
func endsOf(t *testing.T, j *jail, n int) map[uint32]Report {
	t.Helper()
	ends := map[uint32]Report{}
	for len(ends) < n {
		r, err := j.Next()
		if err != nil || r.Type != Exited {
			t.Fatalf("%+v, %v", r, err)
		}
		ends[r.Job] = r
	}
	return ends
}

// A job is told that it is killed before its exec, and the others aren't touched.
func TestJobsOneDies(t *testing.T) {
	j := ready(t, options{})
	j.job(t, 1, sh("sleep 1000 & echo ready; wait"))
	j.want(t, 1, Started)
	j.ready(t, 1)
	for n := uint32(2); n < 30; n++ {
		p := job("/bin/true")
		p.Filters = [][]byte{answer(unix.SYS_EXECVE, retKill)}
		j.job(t, n, p)
		if r := j.want(t, n, Failed); r.Stage != StageDied || r.WaitStatus.Signal() != syscall.SIGSYS || r.PID == 0 {
			t.Errorf("%+v", r)
		}
	}
	j.Signal(1, syscall.SIGTERM)
	if r := j.want(t, 1, Exited); r.WaitStatus != 15 || r.Leftover != 1 {
		t.Errorf("%+v", r)
	}
}

func TestJobsSignals(t *testing.T) {
	j := ready(t, options{})
	const n = 10
	for i := uint32(1); i <= n; i++ {
		j.job(t, i, sh(fmt.Sprintf("trap 'exit %d' USR1; sleep 1000 & echo ready; wait", 100+i)))
		j.want(t, i, Started)
	}
	j.ready(t, n)
	j.Signal(99, syscall.SIGKILL) // nobody's
	for i := uint32(n); i > 0; i-- {
		j.Signal(i, syscall.SIGUSR1)
		if r := j.want(t, i, Exited); r.WaitStatus != syscall.WaitStatus((100+i)<<8) {
			t.Errorf("%+v", r)
		}
		j.Signal(i, syscall.SIGKILL) // gone
		j.SignalGroup(i, syscall.SIGKILL)
	}
	j.alive(t, 1)
}

// What fails is one job's failure; PID 1 goes on, and keeps nothing of it.
func TestJobsFailuresGoOn(t *testing.T) {
	j := ready(t, options{})
	fill, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	some := func(n int) (f []*os.File) {
		for range n {
			f = append(f, fill)
		}
		return f
	}
	valid := plain(t, sh("echo ran"))
	in := func(change func(*Payload)) []byte {
		p := sh("echo ran")
		change(&p)
		return plain(t, p)
	}
	cases := []struct {
		name  string
		body  []byte
		files int
		stage Stage
		errno syscall.Errno
	}{
		{"bad cwd", in(func(p *Payload) { p.Cwd = "/no/such" }), 3, StageCwd, syscall.ENOENT},
		{"no such program", in(func(p *Payload) { p.Args[0] = "/no/such" }), 3, StageExec, syscall.ENOENT},
		{"bad map", in(func(p *Payload) { p.UIDMap = "1000 0 2" }), 3, StageUIDMap, syscall.EPERM},
		{"bad limit", in(func(p *Payload) { p.Rlimits = []Rlimit{{unix.RLIMIT_NOFILE, 1 << 40, 1 << 40}} }), 3, StageRlimit, syscall.EPERM},
		{"filter", in(func(p *Payload) { p.Filters = [][]byte{answer(unix.SYS_EXECVE, retKill)} }), 3, StageDied, syscall.ECHILD},
		{"filter of all", in(func(p *Payload) { p.Filters = [][]byte{insns(unix.SockFilter{Code: unix.BPF_RET, K: retErrno | 1})} }), 3, StageDied, syscall.ECHILD},
		{"no descriptors", valid, 0, StageFiles, syscall.EBADMSG},
		{"one too few", valid, 2, StageFiles, syscall.EBADMSG},
		{"one too many", valid, 4, StageFiles, syscall.EBADMSG},
		{"many too many", valid, 20, StageFiles, syscall.EBADMSG},
		{"more than there is room for", valid, 21, StageFiles, syscall.EBADMSG},
		{"as many as can be sent", valid, 253, StageFiles, syscall.EBADMSG},
		{"payload", valid[:len(valid)-4], 3, StagePayload, syscall.EBADMSG},
		{"clone", body(t, full()), 6, StageClone, syscall.EBADF},
		{"terminal", in(func(p *Payload) { p.Cols, p.Rows = 80, 24 }), 3, StageTerminal, 0},
	}
	before := -1
	for n := uint32(1); n <= 1000; n++ {
		c := cases[int(n)%len(cases)]
		j.SetReadDeadline(time.Now().Add(need.Time(10 * time.Second)))
		if err := j.exec(n, c.body, some(c.files)); err != nil {
			t.Fatal(err)
		}
		if r := j.want(t, n, Failed); r.Stage != c.stage || c.errno != 0 && r.Errno != c.errno {
			t.Fatalf("%s: %v, want %v: %v", c.name, r.Err(), c.stage, c.errno)
		}
		if n == 20 {
			before = openIn(j)
		}
	}
	j.alive(t, 2000)
	if after := openIn(j); after != before {
		t.Errorf("%d descriptors in PID 1 after a thousand failures, %d before", after, before)
	}
	if got := j.output(t); got != "" {
		t.Errorf("a job that failed wrote %q", got)
	}
}

// openIn counts PID 1's descriptors; only root may, of a process that is not dumpable.
func openIn(j *jail) int {
	e, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", j.cmd.Process.Pid))
	if err != nil {
		return -1
	}
	return len(e)
}

// What was left open for PID 1 is closed.
func TestDescriptorsCounted(t *testing.T) {
	need.Root(t)
	f := open(t, "/", os.O_RDONLY)
	j := ready(t, options{extra: []*os.File{f, f}})
	if n := openIn(j); n != 5 { // 0-2, control, signals
		t.Errorf("%d descriptors in PID 1, want 5", n)
	}
}

// PID 1 without room for descriptors: a job fails, and what came of its files is closed.
func TestDescriptorsNoRoom(t *testing.T) {
	need.Root(t)
	j := ready(t, options{})
	limit := func(n uint64) {
		t.Helper()
		if err := unix.Prlimit(j.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: 1024}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[uint64]Stage{5: StageFiles, 6: StageFiles, 7: StageFiles, 8: StagePair, 9: StagePair} {
		limit(n)
		j.job(t, 1, sh("echo ran"))
		if r := j.want(t, 1, Failed); r.Stage != want {
			t.Errorf("with room for %d: %v", n, r.Err())
		}
	}
	limit(1024)
	j.alive(t, 1)
	if n := openIn(j); n != 5 {
		t.Errorf("%d descriptors in PID 1, want 5", n)
	}
	if got := j.output(t); got != "" {
		t.Errorf("%q", got)
	}
}

// Descriptors belong to an EXEC alone.
func TestJobsStrayDescriptors(t *testing.T) {
	j := ready(t, options{})
	if err := j.write(order(controlSignal, 1, 15), []*os.File{j.stdin}); err != nil {
		t.Fatal(err)
	}
	if r := j.next(t, Failed); r.Stage != StageFiles || r.Job != 0 {
		t.Errorf("%v", r.Err())
	}
}

// An order that breaks the protocol ends PID 1: a failure of "job 1" would pass for
// the one that lives.
func TestJobsNumbers(t *testing.T) {
	for name, n := range map[string]uint32{"twice": 1, "zero": 0} {
		t.Run(name, func(t *testing.T) {
			j := ready(t, options{})
			j.job(t, 1, sh("sleep 1000"))
			j.want(t, 1, Started)
			j.job(t, n, sh("echo ran"))
			if r := j.want(t, 0, Failed); r.Stage != StageControl {
				t.Errorf("%v", r.Err())
			}
			if got := j.output(t); got != "" {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("kill of one", func(t *testing.T) {
		j := ready(t, options{})
		j.f.Write(order(controlKill, 1, 0))
		if r := j.want(t, 0, Failed); r.Stage != StageControl {
			t.Errorf("%v", r.Err())
		}
	})
}

// An order's bytes come one by one, its descriptors with the first.
func TestJobsInPieces(t *testing.T) {
	j := ready(t, options{})
	b := plain(t, sh("echo ran; exit 3"))
	b = append(order(controlExec, 1, uint32(len(b))), b...)
	if err := j.write(b[:1], []*os.File{j.stdin, j.stdout, j.stdout}); err != nil {
		t.Fatal(err)
	}
	for _, c := range b[1:] {
		if err := j.write([]byte{c}, nil); err != nil {
			t.Fatal(err)
		}
	}
	j.want(t, 1, Started)
	if r := j.want(t, 1, Exited); r.WaitStatus != 0x300 {
		t.Errorf("%+v", r)
	}
	if got := j.output(t); got != "ran\n" {
		t.Errorf("%q", got)
	}
}

// A storm in one job, and the other's end is told in time.
func TestJobsStorm(t *testing.T) {
	j := ready(t, options{})
	storm := sh(`f() { n=0; while :; do (: &); n=$((n+1)); [ $n -ne 30 ] || echo ready; done; }; f & f & sleep 1000`)
	storm.Rlimits = []Rlimit{{unix.RLIMIT_NPROC, 64, 64}}
	j.job(t, 1, storm)
	j.want(t, 1, Started)
	j.ready(t, 1)
	for n := uint32(2); n < 12; n++ {
		begin := time.Now()
		j.job(t, n, sh("exit 9"))
		j.want(t, n, Started)
		if r := j.want(t, n, Exited); r.WaitStatus != 0x900 || r.Leftover != LeftoverUnknown {
			t.Errorf("%+v", r)
		}
		if d := time.Since(begin); d > need.Time(3*time.Second) {
			t.Errorf("took %v", d)
		}
	}
	j.Kill()
	if r := j.want(t, 1, Exited); r.WaitStatus != 9 {
		t.Errorf("%+v", r)
	}
	j.alive(t, 1)
}

// A job that kills whatever it can, at any moment between a clone and an exec: what it
// hits is told truly, and PID 1 goes on.
func TestJobsKilledByAnother(t *testing.T) {
	j := ready(t, options{size: "1m"})
	j.job(t, 1, sh("while :; do kill -s KILL -- -1; done 2>/dev/null"))
	j.want(t, 1, Started)
	kinds := map[string]int{}
	for n := uint32(2); n < 200; n++ {
		if n%10 == 0 {
			p := seedPayload()
			if err := j.Exec(n, &p, j.files(options{})); err != nil { // its stdin ends at once
				t.Fatal(err)
			}
		} else {
			j.job(t, n, sh("sleep 0.01; exit 3"))
		}
		for n, r := range j.ends(t, 1) {
			switch {
			case r.Type == Exited && r.WaitStatus == 9:
				kinds["killed"]++
			case r.Type == Exited && r.WaitStatus == 0x300:
				kinds["ran"]++
			case r.Type == Failed && r.Stage == StageDied && r.WaitStatus == 9:
				kinds["died"]++
			case n%10 == 0 && r.Stage == StageSeed && r.Errno == syscall.EPROTO:
			default:
				t.Errorf("%+v (%v)", r, r.Err())
			}
		}
	}
	t.Log(kinds)
	if kinds["killed"]+kinds["died"] == 0 {
		t.Error("it killed nothing")
	}
	j.Signal(1, syscall.SIGKILL)
	j.want(t, 1, Exited)
	j.alive(t, 1)
}

// Stopped before its exec, a job stays so; it is killed all the same, and holds up
// nobody.
func TestJobsStoppedByAnother(t *testing.T) {
	j := ready(t, options{size: "1m"})
	j.job(t, 1, sh("while :; do kill -s STOP -- -1; done 2>/dev/null"))
	j.want(t, 1, Started)
	const n = 20
	for i := range uint32(n) {
		j.job(t, i+2, sh("exit 3"))
	}
	time.Sleep(need.Time(200 * time.Millisecond))
	j.Signal(1, syscall.SIGKILL)
	for i := range uint32(n) {
		j.Signal(i+2, syscall.SIGKILL)
	}
	first := false
	for ends, started := 0, map[uint32]bool{}; ends < n+1; {
		r, err := j.Next()
		if err != nil {
			t.Fatalf("%v after %d", err, ends)
		}
		switch {
		case r.Type == Started && !started[r.Job]:
			started[r.Job] = true
			continue
		case r.Job == 1 && r.Type == Exited && r.WaitStatus == 9:
			first = true
		case r.Type == Exited && started[r.Job] && (r.WaitStatus == 9 || r.WaitStatus == 0x300):
		case r.Type == Failed && r.Stage == StageDied && r.WaitStatus == 9:
		default:
			t.Errorf("%+v (%v)", r, r.Err())
		}
		ends++
	}
	if !first {
		t.Error("no end of job 1")
	}
	j.alive(t, 1)
}

func TestJobsKill(t *testing.T) {
	j := ready(t, options{})
	const n = 30
	for i := range uint32(n) {
		j.job(t, i+1, sh("trap '' TERM HUP; (setsid sleep 1000 &); sleep 1000"))
	}
	for range n {
		if r, err := j.Next(); err != nil || r.Type != Started {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	j.Kill()
	for job, r := range endsOf(t, j, n) {
		if r.WaitStatus != 9 {
			t.Errorf("job %d: %+v", job, r)
		}
	}
	j.alive(t, 1)
	if got := j.output(t); got != "" { // nobody is left who holds it
		t.Errorf("%q", got)
	}
}

func TestJobsLauncherGone(t *testing.T) {
	j := ready(t, options{})
	for i := range uint32(30) {
		j.job(t, i+1, sh("trap '' TERM HUP; (setsid sleep 1000 &); sleep 1000; echo ran"))
	}
	if r, err := j.Next(); err != nil || r.Type != Started { // others may be on their way
		t.Fatalf("%+v, %v", r, err)
	}
	j.Close()
	if got := j.output(t); got != "" {
		t.Errorf("%q", got)
	}
	if err := j.cmd.Wait(); err == nil {
		t.Error("pid 1 ended with 0")
	}
}

// A launcher that reads nothing for long misses nothing; one that ends so takes all
// with it.
func TestJobsLauncherDeaf(t *testing.T) {
	const n = 3000 // more reports than the socket holds
	deaf := func(t *testing.T) (*jail, chan error) {
		j, sent := ready(t, options{}), make(chan error, 1)
		p, f := job("/bin/true"), j.files(options{})
		go func() {
			for i := range uint32(n) {
				if err := j.Exec(i+1, &p, f); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		select {
		case err := <-sent:
			t.Fatalf("nothing waited: %v", err)
		case <-time.After(need.Time(2 * time.Second)):
		}
		return j, sent
	}
	t.Run("reads", func(t *testing.T) {
		j, sent := deaf(t)
		j.SetReadDeadline(time.Now().Add(need.Time(60 * time.Second)))
		for job, r := range j.ends(t, n) {
			if r.WaitStatus != 0 || r.Type == Failed && r.Stage != StageJobs {
				t.Errorf("job %d: %+v (%v)", job, r, r.Err())
			}
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
	t.Run("ends", func(t *testing.T) {
		j, sent := deaf(t)
		j.Close()
		if err := <-sent; err == nil {
			t.Error("all was sent")
		}
		if err := j.cmd.Wait(); err == nil {
			t.Error("pid 1 ended with 0")
		}
	})
}

// Leftovers are counted when nobody else lives.
func TestJobsLeftover(t *testing.T) {
	j := ready(t, options{})
	j.job(t, 1, sh("sleep 1000 & sleep 1000 & exit 0"))
	j.want(t, 1, Started)
	if r := j.want(t, 1, Exited); r.Leftover != 2 {
		t.Errorf("%+v", r)
	}
	j.job(t, 2, sh("sleep 1000"))
	j.want(t, 2, Started)
	j.job(t, 3, sh("exit 0"))
	j.want(t, 3, Started)
	if r := j.want(t, 3, Exited); r.Leftover != LeftoverUnknown {
		t.Errorf("%+v", r)
	}
	j.Kill()
	if r := j.want(t, 2, Exited); r.WaitStatus != 9 {
		t.Errorf("%+v", r)
	}
}

// What the first job used is not on the second one's bill.
func TestJobsUsage(t *testing.T) {
	j := ready(t, options{})
	j.job(t, 1, sh("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"))
	j.want(t, 1, Started)
	first := j.want(t, 1, Exited)
	j.job(t, 2, job("/bin/true"))
	j.want(t, 2, Started)
	second := j.want(t, 2, Exited)
	if first.All.User < 20*time.Millisecond || second.All.User > first.All.User/2 || second.All.User < second.Main.User {
		t.Errorf("%v, then %v (main %v)", first.All, second.All, second.Main)
	}
}

func TestJobsOnce(t *testing.T) {
	t.Run("another job", func(t *testing.T) {
		j := ready(t, options{flags: Once})
		j.job(t, 1, sh("sleep 1000; echo ran"))
		j.want(t, 1, Started)
		j.job(t, 2, sh("exit 3"))
		j.want(t, 2, Started)
		if r := j.want(t, 2, Exited); r.WaitStatus != 0x300 || r.Leftover != LeftoverUnknown {
			t.Errorf("%+v", r)
		}
		if _, err := j.Next(); err != io.EOF {
			t.Error(err)
		}
		if got := j.output(t); got != "" {
			t.Errorf("%q", got)
		}
		if err := j.cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		j := ready(t, options{flags: Once})
		if err := j.exec(1, []byte{1}, nil); err != nil {
			t.Fatal(err)
		}
		j.want(t, 1, Failed)
		if err := j.cmd.Wait(); err == nil {
			t.Error("pid 1 ended with 0")
		}
	})
}

// A terminal belongs to one job: the other neither has it nor hangs it up.
func TestJobsTerminal(t *testing.T) {
	j := ready(t, options{devpts: "0666"})
	p := sh("tty; read x; echo $x")
	p.Cols, p.Rows = 80, 24
	for round := range uint32(3) { // there is one only: each time it is given back
		a, b := 10*round+1, 10*round+2
		if err := j.Exec(a, &p, Files{}); err != nil {
			t.Fatal(err)
		}
		m := j.want(t, a, Terminal).Master
		defer m.Close()
		m.SetReadDeadline(time.Now().Add(need.Time(20 * time.Second)))
		j.want(t, a, Started)
		r := j.stream(t, b, sh("echo /proc/self/fd/*; test -t 0 || echo none; (: </dev/tty) 2>/dev/null || echo no tty; sleep 0.1"))
		j.want(t, b, Started)
		j.want(t, b, Exited)
		got, err := io.ReadAll(r)
		if want := "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\nnone\nno tty\n"; err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
		// Another one with a terminal: refused, and the first keeps its own.
		if err := j.Exec(a+5, &p, Files{}); err != nil {
			t.Fatal(err)
		}
		if r := j.want(t, a+5, Failed); r.Stage != StageTerminal || r.Errno != syscall.ENOSPC {
			t.Errorf("%v", r.Err())
		}
		if _, err := m.Write([]byte("typed\n")); err != nil {
			t.Error(err)
		}
		if got := readAll(t, m); !strings.HasSuffix(got, "typed\r\ntyped\r\n") {
			t.Errorf("%q", got)
		}
		if r := j.want(t, a, Exited); r.WaitStatus != 0 {
			t.Errorf("%+v", r)
		}
		m.Close()
	}
	// One that fails after it has its terminal gives it back too.
	p.Args[0] = "/no/such"
	for n := uint32(100); n < 103; n++ {
		if err := j.Exec(n, &p, Files{}); err != nil {
			t.Fatal(err)
		}
		m := j.want(t, n, Terminal).Master
		if r := j.want(t, n, Failed); r.Stage != StageExec {
			t.Errorf("%v", r.Err())
		}
		m.Close()
	}
}

// With both, the terminal controls the job and its stdio is what it was given.
func TestJobsTerminalAndStdio(t *testing.T) {
	j := ready(t, options{devpts: "0666"})
	p := sh("test -t 1 || echo piped; echo typed >/dev/tty")
	p.Cols, p.Rows = 80, 24
	r := j.stream(t, 1, p)
	m := j.want(t, 1, Terminal).Master
	defer m.Close()
	m.SetReadDeadline(time.Now().Add(need.Time(20 * time.Second)))
	j.want(t, 1, Started)
	j.want(t, 1, Exited)
	if got, _ := io.ReadAll(r); string(got) != "piped\n" {
		t.Errorf("%q", got)
	}
	if got := readAll(t, m); got != "typed\r\n" {
		t.Errorf("%q", got)
	}
}

// Its stdio is a job's own, in order, and blocking; the one beside it has another.
func TestJobsStdio(t *testing.T) {
	j := ready(t, options{})
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	outR, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer outR.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer errR.Close()
	p := sh("cat; echo err >&2; grep flags /proc/self/fdinfo/0")
	if err := j.Exec(1, &p, Files{Stdin: in, Stdout: out, Stderr: errW}); err != nil {
		t.Fatal(err)
	}
	out.Close()
	errW.Close()
	j.want(t, 1, Started)
	j.alive(t, 2)
	fmt.Fprint(inW, "in\n")
	inW.Close()
	j.want(t, 1, Exited)
	got, _ := io.ReadAll(outR)
	bad, _ := io.ReadAll(errR)
	if !strings.HasPrefix(string(got), "in\nflags:\t0") || strings.Contains(string(got), "4000") || string(bad) != "err\n" {
		t.Errorf("%q, %q", got, bad)
	}
}
