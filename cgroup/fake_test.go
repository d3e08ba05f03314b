package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fake is a tree of plain files that looks like cgroup file systems. It shows
// decisions, and what is written in which order; it can't refuse like a kernel.
type fake struct {
	t                 *testing.T
	root              string // stands for /sys/fs/cgroup
	proc              string
	made              []string // directories, in order
	lines             []string // mountinfo
	uid               int
	owned             []string // prefixes the uid may write
	log               []string // writes to cgroup.procs and cgroup.subtree_control, in order
	blocks, effective string   // of options, and of each cpuset

	busy int // how often subtree_control answers EBUSY at first
}

func newFake(t *testing.T, uid int) *fake {
	f := &fake{t: t, root: t.TempDir(), proc: t.TempDir(), uid: uid}
	f.write(filepath.Join(f.proc, "cgroup"), "0::/\n")
	f.lines = []string{"22 1 8:1 / / rw,relatime - ext4 /dev/root rw"}
	f.flush()
	return f
}

func (f *fake) write(file, data string) {
	f.t.Helper()
	if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) flush() {
	f.write(filepath.Join(f.proc, "mountinfo"), strings.Join(f.lines, "\n")+"\n")
}

// own puts the caller into a v2 cgroup.
func (f *fake) own(path string) {
	f.write(filepath.Join(f.proc, "cgroup"), "4:memory:/elsewhere\n0::"+path+"\n")
}

// v2 mounts the unified hierarchy at name, with these controllers.
func (f *fake) v2(name, root, opts, ctls string) string {
	dir := filepath.Join(f.root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	f.populate(dir, ctls)
	os.Remove(filepath.Join(dir, "cgroup.type"))
	f.lines = append(f.lines, fmt.Sprintf("40 30 0:%d %s %s %s,relatime - cgroup2 cgroup2 %s", 40+len(f.lines), root, dir, opts, opts+",nsdelegate"))
	f.flush()
	return dir
}

func (f *fake) v1(name, opts, ctls string) string {
	dir := filepath.Join(f.root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	f.lines = append(f.lines, fmt.Sprintf("31 30 0:%d / %s %s,relatime shared:9 - cgroup cgroup rw,%s", 40+len(f.lines), dir, opts, ctls))
	f.flush()
	return dir
}

// populate makes the files the kernel makes in a new v2 cgroup.
func (f *fake) populate(dir, ctls string) {
	files := map[string]string{
		"cgroup.controllers": ctls + "\n", "cgroup.subtree_control": "", "cgroup.procs": "", "cgroup.type": "domain\n",
		"cgroup.events": "populated 0\nfrozen 0\n", "cgroup.kill": "", "cpu.stat": "usage_usec 30\nuser_usec 20\nsystem_usec 10\n",
	}
	for c := range strings.FieldsSeq(ctls) {
		switch c {
		case "memory":
			files["memory.max"], files["memory.swap.max"], files["memory.oom.group"] = "max\n", "max\n", "0\n"
			files["memory.events"], files["memory.peak"] = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n", "4096\n"
		case "pids":
			files["pids.max"], files["pids.events"] = "max\n", "max 0\n"
		case "cpu":
			files["cpu.max"] = "max 100000\n"
			files["cpu.stat"] += "throttled_usec 5\n"
		case "cpuset":
			files["cpuset.cpus"], files["cpuset.cpus.effective"] = "\n", f.effective+"\n"
		case "io":
			files["io.max"] = ""
		}
	}
	for name, data := range files {
		f.write(filepath.Join(dir, name), data)
	}
}

// mkdir is the kernel's part of making a v2 cgroup: it has the controllers that
// its parent hands on.
func (f *fake) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	f.made = append(f.made, strings.TrimPrefix(dir, f.root))
	s, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "cgroup.subtree_control"))
	if err != nil {
		return nil // v1
	}
	f.populate(dir, strings.TrimSpace(string(s)))
	return nil
}

// write is the kernel's part of moving processes and enabling controllers.
func (f *fake) writeFile(file, value string) error {
	name := filepath.Base(file)
	f.log = append(f.log, strings.TrimPrefix(file, f.root)+" "+value)
	dir := filepath.Dir(file)
	switch name {
	case "cgroup.procs":
		parent := filepath.Join(filepath.Dir(dir), name)
		old, _ := readFields(parent)
		i := slices.Index(old, value)
		if i < 0 {
			return fail("write", file, value, unix.ESRCH)
		}
		f.write(parent, strings.Join(slices.Delete(old, i, i+1), "\n"))
		f.write(file, value+"\n")
	case "cgroup.subtree_control":
		if !procsEmpty(dir) && exists(filepath.Join(dir, "cgroup.type")) {
			return fail("write", file, value, unix.EBUSY)
		}
		if f.busy--; f.busy >= 0 {
			return fail("write", file, value, unix.EBUSY)
		}
		have, _ := readString(filepath.Join(dir, "cgroup.controllers"))
		old, _ := readString(file)
		for c := range strings.FieldsSeq(value) {
			if !slices.Contains(strings.Fields(have), c[1:]) {
				return fail("write", file, value, unix.ENOENT)
			}
			old += " " + c[1:]
		}
		f.write(file, old+"\n")
	default:
		f.t.Errorf("write %q to %s", value, file)
	}
	return nil
}

// cgroup makes an existing cgroup below the v2 mount.
func (f *fake) cgroup(path, ctls string) string {
	dir := filepath.Join(f.root, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	f.populate(dir, ctls)
	return dir
}

func (f *fake) options() Options {
	return Options{
		Root: f.root, Proc: f.proc, Getuid: func() int { return f.uid },
		swaps: filepath.Join(f.proc, "swaps"), blocks: f.blocks,
		mkdir: f.mkdir,
		write: f.writeFile,
		access: func(file string) error {
			if !exists(file) {
				return unix.ENOENT
			}
			if f.uid == 0 || slices.ContainsFunc(f.owned, func(p string) bool { return strings.HasPrefix(file, filepath.Join(f.root, p)) }) {
				return nil
			}
			return unix.EACCES
		},
		check: func(Mount) error { return nil },
		owner: func(string) (int, error) { return f.uid, nil },
	}
}
