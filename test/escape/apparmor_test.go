package escape

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/test/need"
)

// TestAppArmorAlone: the profiles of a command hold by themselves. Root runs the
// attacks on the host with all of its capabilities, without any filter and in no
// other namespace than one for mounts; without the profiles each of them works.
func TestAppArmorAlone(t *testing.T) {
	why := apparmor.Here()
	need.Feature(t, "apparmor-loaded", why == nil, fmt.Sprint(why))
	need.Root(t)
	need.Program(t, "cc")
	execer, unshare := need.Program(t, "aa-exec"), need.Program(t, "unshare")
	bin := dir + "/armor"
	if out, err := exec.Command("cc", "-static", "-O1", "-Wall", "-Werror", "-o", bin, "testdata/armor.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	stack, _, _ := strings.Cut(apparmor.JobLabel, " ")
	victim := sleeper(t, "unconfined", execer, "-p", "unconfined")
	init := sleeper(t, apparmor.PID1Label, execer, "-p", apparmor.Default)
	// A command of another jail has the same label as this one's.
	fellow := sleeper(t, apparmor.JobLabel, execer, "-p", stack)
	host, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	tell := func(profile string) map[string]string {
		const script = `mount -t tmpfs armor "$1" && exec "$2" -p "$3" -- "$4" "$5" "$1" "$6" "$7" "$8"`
		cmd := exec.Command(unshare, "-m", "--propagation", "private", "sh", "-euc", script, "sh",
			t.TempDir(), execer, profile, bin, victim, host, init, fellow)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("under %s: %v\n%s%s", profile, err, out, &stderr)
		}
		m := map[string]string{}
		for line := range strings.Lines(string(out)) {
			name, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
			m[name] = answer
		}
		return m
	}
	inside, outside := tell(stack), tell("unconfined")
	if len(inside) != 45 || len(outside) != len(inside) {
		t.Fatalf("%d answers inside, %d outside", len(inside), len(outside))
	}
	for name, got := range inside {
		t.Run(name, func(t *testing.T) {
			if name[0] == '+' {
				if got != "allowed" {
					t.Errorf("%s: a command needs it, or it is said to be permitted", got)
				}
				return
			}
			if got != "EACCES" && got != "EPERM" {
				t.Errorf("%s, want it refused", got)
			}
			if out := outside[name]; out != "allowed" {
				t.Errorf("without the profile it is %s: nothing is shown", out)
			}
		})
	}
}

// sleeper is the pid of a process that does nothing, under a label.
func sleeper(t *testing.T, label string, under ...string) string {
	t.Helper()
	c := exec.Command(under[0], append(under[1:], "--", "/bin/sleep", "600")...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	for end := time.Now().Add(need.Time(10 * time.Second)); ; time.Sleep(10 * time.Millisecond) {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.Process.Pid))
		got, err := apparmor.Label(c.Process.Pid)
		if got == label && strings.HasSuffix(exe, "/sleep") {
			return fmt.Sprint(c.Process.Pid)
		}
		if time.Now().After(end) {
			t.Fatalf("%s has the label %q, %v; want %q", exe, got, err, label)
		}
	}
}
