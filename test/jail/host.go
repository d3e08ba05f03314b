package jail

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer/internal/state"
)

// Process is one process as the host sees it.
type Process struct {
	PID     int
	Parent  int
	UID     [4]int // real, effective, saved, file system
	Name    string
	Cmdline string
	NSpid   int  // levels of pid namespaces it is in
	Zombie  bool // dead, and not reaped yet
}

func (p Process) String() string {
	return fmt.Sprintf("pid %d, %s, uid %v, %q", p.PID, p.Name, p.UID, p.Cmdline)
}

// Processes lists the host's.
func Processes(t testing.TB) []Process {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []Process
	for _, d := range dirs {
		status, err := os.ReadFile(d + "/status")
		if err != nil {
			continue // gone meanwhile
		}
		var p Process
		p.PID, _ = strconv.Atoi(filepath.Base(d))
		for line := range strings.Lines(string(status)) {
			key, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":\t")
			switch key {
			case "Name":
				p.Name = v
			case "State":
				p.Zombie = strings.HasPrefix(v, "Z") || strings.HasPrefix(v, "X")
			case "Uid":
				for i, f := range strings.Fields(v) {
					p.UID[i], _ = strconv.Atoi(f)
				}
			case "PPid":
				p.Parent, _ = strconv.Atoi(v)
			case "NSpid":
				p.NSpid = len(strings.Fields(v))
			}
		}
		cmdline, _ := os.ReadFile(d + "/cmdline")
		p.Cmdline = string(bytes.ReplaceAll(bytes.TrimRight(cmdline, "\x00"), []byte{0}, []byte{' '}))
		out = append(out, p)
	}
	return out
}

// Living lists the processes that match and are not dead.
func Living(t testing.TB, match func(Process) bool) []Process {
	t.Helper()
	var out []Process
	for _, p := range Processes(t) {
		if !p.Zombie && match(p) {
			out = append(out, p)
		}
	}
	return out
}

// Marked matches the processes of a jail that have mark in an argument: jailer's
// own command line has it too, but jailer is in no pid namespace of its own.
func Marked(mark string) func(Process) bool {
	return func(p Process) bool {
		return strings.Contains(p.Cmdline, mark) && !strings.Contains(p.Cmdline, "--state-dir")
	}
}

// Gone waits until no process matches, and fails the test if some stay.
func Gone(t testing.TB, d time.Duration, match func(Process) bool) {
	t.Helper()
	var left []Process
	if !Eventually(d, func() bool { left = Living(t, match); return len(left) == 0 }) {
		t.Errorf("%d processes are left: %v", len(left), left)
	}
}

// Eventually asks until f says yes; false if it never does.
func Eventually(d time.Duration, f func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(20 * time.Millisecond) {
		if f() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// Cgroups lists the cgroup directories of the jails whose id matches pattern
// (filepath.Match), in all hierarchies, wherever their base is. A pattern with a mark
// (state.Dir.CgroupName) is of those of one state directory, else of all of them.
func Cgroups(t testing.TB, pattern string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENODEV) {
			return nil // removed meanwhile, or not ours to see
		}
		if err != nil {
			return err
		}
		// With a state directory of its own, jailer adds "+" and its mark.
		name, _, _ := strings.Cut(d.Name(), "+")
		for _, name := range []string{name, d.Name()} {
			if ok, err := filepath.Match("jail-"+pattern, name); ok || err != nil {
				out = append(out, p)
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Cgroups are those of the caller's jails alone: another suite on this host, or another
// test beside this one, may use the same ids.
func (c *Caller) Cgroups(t testing.TB, pattern string) []string {
	t.Helper()
	return Cgroups(t, (&state.Dir{Path: c.StateDir()}).CgroupName(pattern))
}

// Mounts lists the mount points of this process's namespace that hold text.
func Mounts(t testing.TB, text string) []string {
	t.Helper()
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.Contains(s.Text(), text) {
			out = append(out, s.Text())
		}
	}
	return out
}

// States lists what the caller's state directory holds about jails. The event log,
// in .priv, outlives them.
func (c *Caller) States(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(c.StateDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != ".priv" {
			out = append(out, e.Name())
		}
	}
	return out
}

// NothingLeft fails the test if anything of the caller's jails, whose ids match
// pattern, is on the host.
func (c *Caller) NothingLeft(t testing.TB, pattern string) {
	t.Helper()
	if d := c.States(t); len(d) > 0 {
		t.Errorf("left in the state directory: %v", d)
	}
	if d := c.Cgroups(t, pattern); len(d) > 0 {
		t.Errorf("left cgroups: %v", d)
	}
	if d := Mounts(t, c.Home); len(d) > 0 {
		t.Errorf("left mounts: %v", d)
	}
}
