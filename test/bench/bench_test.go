// Package bench times one cold run of `true` beside crun, runc and bwrap, all in
// one interleaved run, with the same root and the same filter. Only the ratios
// mean anything: the machine is whatever it is.
package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer/seccomp/compiled"
	"github.com/jailer-project/jailer/test/need"
)

// uid runs everything unprivileged when the benchmark is started as root.
const uid = 54321

type tool struct {
	name string
	cmd  func() *exec.Cmd
	done func() // untimed
	took []time.Duration
}

// BenchmarkRun makes N interleaved rounds (100, or the environment's N), and
// prints medians and ratios to crun.
func BenchmarkRun(b *testing.B) {
	dir := setUp(b)
	tools := []*tool{
		{name: "fork+exec", cmd: func() *exec.Cmd { return exec.Command(filepath.Join(dir, "root/bin/true")) }},
		{name: "jailer, directory root", cmd: jailer(dir, "--rootfs", "busybox")},
		{name: "jailer, host view", cmd: jailer(dir)},
	}
	for _, rt := range []string{"crun", "runc"} {
		if t := oci(b, dir, rt); works(t) {
			tools = append(tools, t)
		}
	}
	if t := bwrap(b, dir); works(t) {
		tools = append(tools, t)
	}
	n := rounds()
	for range n {
		for _, t := range tools {
			measure(b, t)
		}
	}
	reportBeside(tools, n, "crun", "unprivileged")
}

func rounds() int {
	n, err := strconv.Atoi(os.Getenv("N"))
	if err != nil || n < 1 {
		return 100
	}
	return n
}

func measure(b *testing.B, t *tool) {
	c := t.cmd()
	asUser(c)
	var out strings.Builder
	c.Stderr = &out
	begin := time.Now()
	err := c.Run()
	t.took = append(t.took, time.Since(begin))
	if err != nil {
		b.Fatalf("%s: %v\n%s", t.name, err, out.String())
	}
	if t.done != nil {
		t.done()
	}
}

// works leaves out, loudly, a tool that refuses this host.
func works(t *tool) bool {
	c := t.cmd()
	asUser(c)
	if out, err := c.CombinedOutput(); err != nil {
		fmt.Printf("%s LEFT OUT: %v: %s\n", t.name, err, strings.TrimSpace(string(out)))
		return false
	}
	return true
}

func asUser(c *exec.Cmd) {
	if os.Geteuid() != 0 {
		return
	}
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
}

func setUp(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "jailer-bench")
	check(b, err)
	b.Cleanup(func() { os.RemoveAll(dir) })
	check(b, os.Chmod(dir, 0o755))
	busybox, err := os.ReadFile(need.Program(b, "busybox"))
	check(b, err)
	for _, d := range []string{"root", "root/bin", "root/proc", "root/dev", "root/tmp", "root/workspace", "state"} {
		check(b, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	check(b, os.WriteFile(filepath.Join(dir, "root/bin/busybox"), busybox, 0o755))
	check(b, os.Symlink("busybox", filepath.Join(dir, "root/bin/true")))
	program, err := os.ReadFile("../../bin/jailer")
	if err != nil {
		b.Fatal("no bin/jailer: run `make build`")
	}
	check(b, os.WriteFile(filepath.Join(dir, "jailer"), program, 0o755))
	policy := fmt.Sprintf("version = 1\nextends = \"builtin\"\n[limits]\nenforce = \"best-effort\"\n[rootfs.busybox]\npath = %q\n", dir+"/root")
	check(b, os.WriteFile(filepath.Join(dir, "policy.toml"), []byte(policy), 0o644))
	if os.Geteuid() == 0 {
		check(b, os.Chown(filepath.Join(dir, "state"), uid, uid))
		check(b, os.Chown(filepath.Join(dir, "root"), uid, uid))
	}
	check(b, os.Chmod(filepath.Join(dir, "state"), 0o700))
	return dir
}

func jailer(dir string, flags ...string) func() *exec.Cmd {
	return func() *exec.Cmd {
		args := append([]string{"--state-dir", dir + "/state", "run", "--policy", dir + "/policy.toml"}, flags...)
		c := exec.Command(dir+"/jailer", append(args, "--", "true")...)
		c.Env = []string{}
		return c
	}
}

// oci runs an OCI runtime with a bundle of the same shape: the namespaces, the
// mounts and the very filter of `jailer spec`.
func oci(b *testing.B, dir, name string) *tool {
	b.Helper()
	path := need.Program(b, name)
	bundle := filepath.Join(dir, name)
	check(b, os.Mkdir(bundle, 0o755))
	state := filepath.Join(dir, name+"-state")
	check(b, os.Mkdir(state, 0o755))
	if os.Geteuid() == 0 {
		check(b, os.Chown(state, uid, uid))
		check(b, os.Chown(bundle, uid, uid))
	}
	check(b, os.WriteFile(filepath.Join(bundle, "config.json"), config(b, dir), 0o644))
	i := 0
	return &tool{name: name, cmd: func() *exec.Cmd {
		i++
		args := []string{"--root", state, "run", "--bundle", bundle, fmt.Sprintf("b%d", i)}
		if name == "crun" {
			args = append([]string{"--cgroup-manager=disabled"}, args...)
		} else {
			args = append([]string{"--rootless=true"}, args...)
		}
		c := exec.Command(path, args...)
		c.Env = []string{"PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=" + state}
		return c
	}}
}

func config(b *testing.B, dir string) []byte {
	b.Helper()
	c := jailer(dir, "--rootfs", "busybox")()
	c.Args = slices.Insert(c.Args, slices.Index(c.Args, "run"), "spec")
	c.Args = slices.DeleteFunc(c.Args, func(s string) bool { return s == "run" })
	asUser(c)
	out, err := c.Output()
	check(b, err)
	var spec map[string]any
	check(b, json.Unmarshal(out, &spec))
	spec["root"] = map[string]any{"path": dir + "/root", "readonly": true}
	proc := spec["process"].(map[string]any)
	proc["args"] = []string{"/bin/true"}
	delete(proc, "rlimits")
	linux := spec["linux"].(map[string]any)
	delete(linux, "rootfsPropagation")
	// The directory is the root itself: no binds into a skeleton, a /dev of the
	// runtime's own.
	mounts := []any{map[string]any{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755"}}}
	for _, m := range spec["mounts"].([]any) {
		mm := m.(map[string]any)
		switch mm["destination"] {
		case "/proc":
			mounts = append([]any{m}, mounts...)
		case "/dev/shm", "/tmp", "/workspace":
			mounts = append(mounts, m)
		}
	}
	spec["mounts"] = mounts
	data, err := json.Marshal(spec)
	check(b, err)
	return data
}

func bwrap(b *testing.B, dir string) *tool {
	b.Helper()
	path := need.Program(b, "bwrap")
	filter, err := compiled.Filter("default")
	check(b, err)
	file := filepath.Join(dir, "filter.bpf")
	check(b, os.WriteFile(file, filter, 0o644))
	return &tool{name: "bwrap", cmd: func() *exec.Cmd {
		f, err := os.Open(file)
		check(b, err)
		c := exec.Command(path, "--unshare-all", "--die-with-parent", "--ro-bind", dir+"/root", "/", "--proc", "/proc", "--dev", "/dev",
			"--tmpfs", "/tmp", "--tmpfs", "/workspace", "--seccomp", "3", "/bin/true")
		c.ExtraFiles = []*os.File{f}
		return c
	}}
}

func check(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
