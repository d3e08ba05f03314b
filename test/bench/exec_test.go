package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/need"
)

// BenchmarkExec times `true` in a jail that lives: `jailer exec`, a client of the Go
// library that stays, and `crun exec`, all interleaved, as root. The session is that of
// JAILER_BENCH_SESSION (its bundle), or else made here.
func BenchmarkExec(b *testing.B) {
	if os.Geteuid() != 0 {
		fmt.Println("exec LEFT OUT: sessions need cgroups; run it as root")
		return
	}
	program := need.Program(b, "crun") // named before a session is made
	dir := setUp(b)
	s := session(b, dir)
	tools := []*tool{
		{name: "fork+exec", cmd: func() *exec.Cmd { return exec.Command(filepath.Join(dir, "root/bin/true")) }},
		{name: "jailer exec", cmd: func() *exec.Cmd {
			c := exec.Command(dir+"/jailer", "--state-dir", s.StateDir(), "exec", s.ID, "--", "/usr/bin/true")
			c.Env = []string{}
			return c
		}},
	}
	if t := crunExec(b, dir, program); worksAsRoot(t) {
		tools = append(tools, t)
	}
	warm := &tool{name: "jailer, Go client"}
	n := rounds()
	for range n {
		for _, t := range tools {
			c := t.cmd()
			begin := time.Now()
			if out, err := c.CombinedOutput(); err != nil {
				b.Fatalf("%s: %v\n%s", t.name, err, out)
			}
			t.took = append(t.took, time.Since(begin))
		}
		begin := time.Now()
		res, err := s.Exec(context.Background(), api.Request{Argv: []string{"/usr/bin/true"}}, api.IO{})
		if err != nil || res.Status != api.StatusExited {
			b.Fatal(res, err)
		}
		warm.took = append(warm.took, time.Since(begin))
	}
	reportBeside(append(tools, warm), n, "crun exec", "in a live jail, root")
}

func session(b *testing.B, dir string) *api.Session {
	b.Helper()
	c := &api.Client{Path: filepath.Join(dir, "jailer"), StateDir: filepath.Join(dir, "sessions")}
	if bundle := os.Getenv("JAILER_BENCH_SESSION"); bundle != "" {
		c.StateDir = filepath.Dir(bundle)
		s, err := c.Open(context.Background(), filepath.Base(bundle))
		check(b, err)
		return s
	}
	check(b, os.Chmod(dir, 0o711))
	check(b, os.Mkdir(c.StateDir, 0o711))
	s, err := c.Create(context.Background(), api.Request{}, api.SessionOptions{})
	check(b, err)
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// crunExec is in a container of the bundle that BenchmarkRun has, which lives.
func crunExec(b *testing.B, dir, program string) *tool {
	b.Helper()
	bundle, state := filepath.Join(dir, "exec-bundle"), filepath.Join(dir, "exec-state")
	check(b, os.Mkdir(bundle, 0o755))
	check(b, os.Mkdir(state, 0o755))
	var spec map[string]any
	check(b, json.Unmarshal(config(b, dir), &spec))
	proc := spec["process"].(map[string]any)
	proc["args"] = []string{"/bin/busybox", "sleep", "1000"}
	data, err := json.Marshal(spec)
	check(b, err)
	check(b, os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o644))
	run := func(args ...string) *exec.Cmd {
		c := exec.Command(program, append([]string{"--root", state, "--cgroup-manager=disabled"}, args...)...)
		c.Env = []string{"PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=" + state}
		return c
	}
	said, err := os.CreateTemp(dir, "crun")
	check(b, err)
	defer said.Close()
	up := run("run", "--detach", "--bundle", bundle, "live")
	up.Stdout, up.Stderr = said, said // files: the container keeps them open
	if err := up.Run(); err != nil {
		text, _ := os.ReadFile(said.Name())
		fmt.Printf("crun: %v: %s\n", err, strings.TrimSpace(string(text)))
	}
	b.Cleanup(func() { _ = run("delete", "--force", "live").Run() })
	return &tool{name: "crun exec", cmd: func() *exec.Cmd { return run("exec", "live", "/bin/true") }}
}

func worksAsRoot(t *tool) bool {
	if out, err := t.cmd().CombinedOutput(); err != nil {
		fmt.Printf("%s LEFT OUT: %v: %s\n", t.name, err, strings.TrimSpace(string(out)))
		return false
	}
	return true
}

// reportBeside prints medians, and their ratios to that of one of the tools.
func reportBeside(tools []*tool, n int, beside, title string) {
	var base time.Duration
	for _, t := range tools {
		slices.Sort(t.took)
		if t.name == beside {
			base = t.took[len(t.took)/2]
		}
	}
	fmt.Printf("%-26s %8s %8s %8s   × %s\n", fmt.Sprintf("n=%d, %s", n, title), "q1 ms", "median", "q3", beside)
	for _, t := range tools {
		q := func(i int) float64 { return float64(t.took[len(t.took)*i/4].Microseconds()) / 1000 }
		ratio := "-"
		if base > 0 {
			ratio = fmt.Sprintf("%.2f", float64(t.took[len(t.took)/2])/float64(base))
		}
		fmt.Printf("%-26s %8.1f %8.1f %8.1f   %s\n", t.name, q(1), q(2), q(3), ratio)
	}
}
