package state

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/test/need"
)

// plant makes a jail's directory that nobody holds, with a record unless it is "".
func plant(t *testing.T, d *Dir, id, record string) string {
	t.Helper()
	path := filepath.Join(d.Path, id)
	for _, dir := range []string{path, filepath.Join(path, "priv")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if record != "" {
		if err := os.WriteFile(filepath.Join(path, "priv", recordFile), []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// Whatever its making came to, what nobody holds goes.
func TestReapWhateverItBecame(t *testing.T) {
	for name, record := range map[string]string{
		"no record":           "",
		"no cgroups":          `{"v":1,"id":"half","pid":1}`,
		"empty cgroups":       `{"v":1,"id":"half","cgroups":[]}`,
		"of another boot":     `{"v":1,"id":"half","pid":1,"startTime":1,"bootId":"11111111-1111-4111-8111-111111111111"}`,
		"of a live pid":       fmt.Sprintf(`{"v":1,"id":"half","pid":%d,"startTime":%d,"bootId":%q}`, os.Getpid(), startTime(), bootID()),
		"cut":                 `{"v":1,"id":"ha`,
		"cgroups gone":        `{"v":1,"id":"half","cgroups":["/sys/fs/cgroup/none/jail-half"]}`,
		"what is known later": `{"v":1,"id":"half","session":{"ttlMs":1,"later":[1]},"later":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			plant(t, d, "half", record)
			for _, dryRun := range []bool{true, false} {
				leaks, err := d.Reap(t.Context(), dryRun)
				if err != nil || len(leaks) != 1 || leaks[0].Removed == dryRun || leaks[0].Err != "" {
					t.Fatalf("%+v %v", leaks, err)
				}
			}
			if got := entries(t, d); len(got) != 0 {
				t.Errorf("left %v", got)
			}
		})
	}
}

// The record of a later program may name what this one doesn't know of.
func TestReapKeepsLaterRecords(t *testing.T) {
	d := open(t)
	plant(t, d, "later", `{"v":2,"id":"later","control":["/sys/fs/cgroup/jail-later"]}`)
	for _, dryRun := range []bool{true, false} {
		leaks, err := d.Reap(t.Context(), dryRun)
		if err != nil || len(leaks) != 1 || leaks[0].Removed || !strings.Contains(leaks[0].Err, "version 2") {
			t.Errorf("%+v %v", leaks, err)
		}
	}
	if e, err := d.Find("later"); err != nil || e.Record != nil {
		t.Errorf("%+v %v", e, err)
	}
}

// A record that can't be read this moment is not taken for none: its cgroups would
// be forgotten.
func TestReapKeepsUnreadRecords(t *testing.T) {
	d := open(t)
	plant(t, d, "unread", `{"v":1,"id":"unread"}`)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	few := old
	few.Cur = 128
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var all []int
	for {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		all = append(all, fd)
	}
	unix.Close(all[0]) // for the list and then the lock, and none for the record
	leaks, err := d.Reap(t.Context(), false)
	for _, fd := range all[1:] {
		unix.Close(fd)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err != nil || len(leaks) != 1 || leaks[0].Removed || !strings.Contains(leaks[0].Err, unix.EMFILE.Error()) {
		t.Errorf("%+v %v", leaks, err)
	}
	if leaks, err := d.Reap(t.Context(), false); err != nil || len(leaks) != 1 || !leaks[0].Removed {
		t.Errorf("%+v %v", leaks, err)
	}
}

// A socket in the place of the record is none; one in the place of a jail is no jail.
func TestReapSockets(t *testing.T) {
	d := open(t)
	path := plant(t, d, "odd", "")
	for _, at := range []string{filepath.Join(path, "priv"), d.Path} {
		dir, err := os.Open(at)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), recordFile))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		defer dir.Close()
	}
	if err := unix.Mkfifo(filepath.Join(d.Path, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	leaks, err := d.Reap(t.Context(), false)
	if err != nil || len(leaks) != 1 || !leaks[0].Removed || leaks[0].Record != nil {
		t.Errorf("%+v %v", leaks, err)
	}
	if got := fmt.Sprint(entries(t, d)); got != "[fifo record.json]" {
		t.Errorf("left %v", got)
	}
}

// Many collectors at once: each jail is removed by one, and each event written once.
func TestReapTogether(t *testing.T) {
	d := open(t)
	const jails, collectors = 8, 4
	var path string
	for i := range jails {
		path = deadAs(t, d, fmt.Sprint("dead", i), nil, false)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	removed := map[string]int{}
	for i := range collectors {
		all.Go(func() {
			leaks, err := d.Reap(t.Context(), false)
			if i == 0 {
				leaks = append(leaks, d.ReapSome(t.Context(), jails)...)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, l := range leaks {
				if l.Err != "" {
					t.Errorf("%+v", l)
				}
				if l.Removed {
					removed[l.ID]++
				}
			}
		})
	}
	all.Wait()
	for i := range jails {
		if n := removed[fmt.Sprint("dead", i)]; n != 1 {
			t.Errorf("dead%d was removed %d times", i, n)
		}
	}
	if got := entries(t, d); len(got) != 1 { // .priv
		t.Errorf("left %v", got)
	}
	got := strings.Join(lines(t, path), "\n")
	for _, typ := range []audit.Type{audit.ExecFinished, audit.GCReaped, audit.SessionDestroyed} {
		if n := strings.Count(got, `"type":"`+string(typ)+`"`); n != jails {
			t.Errorf("%d of %s", n, typ)
		}
	}
}

// One id is made and removed, or left, while others collect: what is held is never
// touched, and what is left always goes.
func TestReapSameID(t *testing.T) {
	d := open(t)
	var collectors sync.WaitGroup
	stop := make(chan struct{})
	for i := range 3 {
		collectors.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch i {
				case 0:
					if _, err := d.Reap(t.Context(), false); err != nil {
						t.Error(err)
					}
				case 1:
					d.ReapOne(t.Context(), "same")
				default:
					if _, err := d.List(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range need.Times(200) {
		var s *Session
		for end := time.Now().Add(need.Time(10 * time.Second)); s == nil; {
			var err error
			// The one before may still be there: left, and not reaped yet.
			if s, err = d.Create(Record{ID: "same", HostUID: i}); err != nil && time.Now().After(end) {
				t.Fatalf("%d: %v", i, err)
			}
		}
		time.Sleep(time.Duration(i%5) * 100 * time.Microsecond)
		b, err := os.ReadFile(filepath.Join(s.Priv, recordFile))
		var r Record
		if err != nil || json.Unmarshal(b, &r) != nil || r.HostUID != i {
			t.Fatalf("%d: a live one was reaped: %v %+v", i, err, r)
		}
		if e, err := d.Find("same"); err != nil || !e.Alive {
			t.Fatalf("%d: a live one is found as %+v %v", i, e, err)
		}
		if i%3 == 0 {
			s.Abandon()
		} else if err := s.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	collectors.Wait()
	if _, err := d.Reap(t.Context(), false); err != nil {
		t.Error(err)
	}
	if got := entries(t, d); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

// A holder and a collector of two pid namespaces: the lock knows neither.
func TestReapAcrossPIDNamespaces(t *testing.T) {
	need.Root(t)
	d := open(t)
	child := func(env ...string) (*exec.Cmd, string) {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(env, "STATE_TEST_DIR="+d.Path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return cmd, strings.TrimSpace(line)
	}
	here := make1(t, d, Record{ID: "here"})
	there, line := child("STATE_TEST_HOLD="+d.Path, "STATE_TEST_ID=there")
	if line != "made <nil>" {
		t.Fatal(line)
	}
	if e, err := d.Find("there"); err != nil || !e.Alive || e.Record.PID != 1 {
		t.Errorf("%+v %v", e, err)
	}
	if leaks, err := d.Reap(t.Context(), false); err != nil || len(leaks) != 0 {
		t.Errorf("reaped while held in another namespace: %+v %v", leaks, err)
	}
	collect := func(want string) {
		t.Helper()
		gc, line := child("STATE_TEST_REAP=1")
		gc.Wait()
		if line != want {
			t.Errorf("a collector in a namespace of its own: %s, want %s", line, want)
		}
	}
	collect("[] <nil>")
	there.Process.Kill()
	there.Wait()
	here.Abandon()
	collect("[here there] <nil>")
	if got := entries(t, d); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}
