package ways

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// own is this process's cgroup, as /proc shows it.
func own(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(b), "0::"))
}

// notOurs wants a caller whose cgroup somebody else has: whatever works then is
// the user manager's doing.
func notOurs(t *testing.T) *jail.Caller {
	t.Helper()
	c := user(t)
	dir := "/sys/fs/cgroup" + own(t)
	if f, err := os.OpenFile(dir+"/cgroup.procs", os.O_WRONLY, 0); err == nil {
		f.Close()
		t.Fatalf("%s is the caller's", dir)
	}
	return c
}

// throughManager is a caller without a cgroup whose user manager is there: it
// has everything, also when several ask at once.
func throughManager(t *testing.T, c *jail.Caller) {
	t.Helper()
	before := own(t)
	full(t, c, "ids.subuid")
	together(t, c)
	if now := own(t); now != before {
		t.Errorf("this process was moved from %s to %s", before, now)
	}
	nothingLeft(t, c.UID)
}

// together starts jails that are alive at the same time.
func together(t *testing.T, c *jail.Caller) {
	t.Helper()
	c = builtin(c)
	out := make(chan *jail.Outcome)
	const n = 3
	for range n {
		go func() { out <- c.Run(t, jail.Job{Sh: "sleep 3; echo RAN"}) }()
	}
	var began, ended []time.Time
	for range n {
		r := ran(t, <-out, "cgroup2")
		began = append(began, r.StartedAt)
		ended = append(ended, r.StartedAt.Add(time.Duration(r.DurationMs)*time.Millisecond))
	}
	overlap := false
	for i := range began {
		for k := range ended {
			overlap = overlap || i != k && began[i].Before(ended[k]) && began[k].Before(ended[i])
		}
	}
	if !overlap {
		t.Errorf("no two of them lived at once: %v, %v", began, ended)
	}
}

// nothingLeft: a scope goes with its last process, soon.
func nothingLeft(t *testing.T, uid int) {
	t.Helper()
	pattern := fmt.Sprintf("/sys/fs/cgroup/user.slice/user-%d.slice/user@%d.service/app.slice/jailer-*.scope", uid, uid)
	var left []string
	for end := time.Now().Add(need.Time(5 * time.Second)); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if left, _ = filepath.Glob(pattern); len(left) == 0 {
			return
		}
	}
	t.Errorf("left: %q", left)
}

// none: nothing is the caller's, and no variable says where his manager is.
func none(t *testing.T) {
	c := notOurs(t)
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		t.Errorf("XDG_RUNTIME_DIR=%s: this is not the way", dir)
	}
	throughManager(t, c)
}

func session(t *testing.T) {
	c := notOurs(t)
	if at := own(t); !regexp.MustCompile(`/session-[^/]*\.scope$`).MatchString(at) {
		t.Fatalf("in %s, which is no session's", at)
	}
	throughManager(t, c)
	// A shell that the user manager started, and did not hand over.
	t.Run("a service of the user manager", func(t *testing.T) {
		run := need.Program(t, "systemd-run")
		ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
		defer cancel()
		inner := builtin(c).Command(ctx, "run", "--json", "--", "sh", "-c", job.Sh)
		cmd := c.Exec(ctx, run, append([]string{"--user", "--quiet", "--pipe", "--wait", "--collect", "--"}, inner.Args...)...)
		cmd.Env = append(cmd.Env, fmt.Sprintf("XDG_RUNTIME_DIR=/run/user/%d", c.UID))
		ran(t, jail.Finish(t, job, cmd), "cgroup2")
	})
}

// pidNamespace: a number of this process's would be a stranger's to the manager.
func pidNamespace(t *testing.T) {
	c := notOurs(t)
	if os.Getppid() > 1 {
		t.Fatalf("pid %d, parent %d: not in a pid namespace of its own", os.Getpid(), os.Getppid())
	}
	throughManager(t, c)
}

func containerRoot(t *testing.T) {
	c := user(t)
	if at := own(t); at != "/" {
		t.Fatalf("in %s, not the root of a cgroup namespace", at)
	}
	together(t, c) // the first of all, when nobody has made the launcher's leaf
	full(t, c, "ids.subuid")
	together(t, c)
}

// noScope is a caller who is refused because of his user manager, for this
// reason, and whom best effort runs.
func noScope(t *testing.T, c *jail.Caller, reason string, words ...string) {
	t.Helper()
	strict := builtin(c)
	refused(t, strict.Run(t, job), reason, append(words, "memory, pids, cpu", "not delegated", "best-effort")...)
	fs := doctor(t, strict, "cgroup.memory", "cgroup.pids", "cgroup.cpu")
	for _, ctl := range controllers {
		f := found(t, fs, "cgroup."+ctl, "no")
		if f.Cause != reason {
			t.Errorf("doctor: %+v", f)
		}
		for _, w := range words {
			if !strings.Contains(f.Reason+"\n"+f.Hint, w) {
				t.Errorf("doctor: no %q in %+v", w, f)
			}
		}
	}
	bestEffort(t, c)
}

func unequipped(t *testing.T) {
	c := notOurs(t)
	noScope(t, c, "cgroup.manager.bus", "no message bus", fmt.Sprintf("/run/user/%d/bus", c.UID), "apt-get install dbus-user-session",
		fmt.Sprintf("systemctl restart user@%d.service", c.UID))
}

func noManager(t *testing.T) {
	c := notOurs(t)
	noScope(t, c, "cgroup.manager", "no systemd user manager runs", fmt.Sprintf("loginctl enable-linger %d", c.UID))
}

// hung: the bus that the caller names accepts and never says a word.
func hung(t *testing.T) {
	c := notOurs(t)
	dir := jail.TempDir(t, c.UID)
	l, err := net.Listen("unix", dir+"/bus")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			if _, err := l.Accept(); err != nil { // and keep it
				return
			}
		}
	}()
	j := job
	j.Env = []string{"XDG_RUNTIME_DIR=" + dir}
	o := builtin(c).Run(t, j)
	refused(t, o, "cgroup.manager.timeout", "did not answer within 10s", dir+"/bus", fmt.Sprintf("systemctl restart user@%d.service", c.UID))
	o.Within(t, 10*time.Second+need.Time(5*time.Second))
	best := builtin(c).WithPolicy(t, "best.toml", jail.BestEffort)
	ran(t, best.Run(t, j), "rlimit")
	t.Run("the usual place", func(t *testing.T) { ran(t, builtin(c).Run(t, job), "cgroup2") })
}
