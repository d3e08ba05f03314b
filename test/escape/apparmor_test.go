package escape

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/test/need"
)

// TestAppArmorAlone: the profiles of a command hold by themselves. Root runs the
// attacks on the host with all of its capabilities, without any filter and in no
// other namespace than one for mounts; without the profiles each of them works.
func TestAppArmorAlone(t *testing.T) {
	why := apparmor.Ready(os.DirFS("/"))
	need.Feature(t, "apparmor-loaded", why == nil, fmt.Sprint(why))
	need.Root(t)
	need.Program(t, "cc")
	execer, unshare := need.Program(t, "aa-exec"), need.Program(t, "unshare")
	bin := dir + "/armor"
	if out, err := exec.Command("cc", "-static", "-O1", "-Wall", "-Werror", "-o", bin, "testdata/armor.c").CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	victim := exec.Command("/bin/sleep", "600")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { victim.Process.Kill(); victim.Wait() }()
	host, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	tell := func(profile string) map[string]string {
		const script = `mount -t tmpfs armor "$1" && exec "$2" -p "$3" -- "$4" "$5" "$1" "$6"`
		cmd := exec.Command(unshare, "-m", "--propagation", "private", "sh", "-euc", script, "sh",
			t.TempDir(), execer, profile, bin, fmt.Sprint(victim.Process.Pid), host)
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
	stack, _, _ := strings.Cut(apparmor.JobLabel, " ")
	inside, outside := tell(stack), tell("unconfined")
	if len(inside) != 37 || len(outside) != len(inside) {
		t.Fatalf("%d answers inside, %d outside", len(inside), len(outside))
	}
	for name, got := range inside {
		t.Run(name, func(t *testing.T) {
			if name[0] == '+' {
				if got != "allowed" {
					t.Errorf("%s: a command needs it", got)
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
