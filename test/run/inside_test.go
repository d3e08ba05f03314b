package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/test/jail"
)

// inherited opens fd 251 of jailer, and a directory of the host as 252.
func inherited(t testing.TB) func(*exec.Cmd) {
	t.Helper()
	var files [2]*os.File
	for i, name := range []string{"/etc/hostname", "/"} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		files[i] = f
	}
	return func(cmd *exec.Cmd) {
		cmd.ExtraFiles = make([]*os.File, 250) // 3 to 252
		cmd.ExtraFiles[248], cmd.ExtraFiles[249] = files[0], files[1]
	}
}

// What a job has: no capability, no descriptor but its own three, no name of
// the host's, and the privilege of nobody.
func TestInside(t *testing.T) {
	// ls opens one more: the directory that it lists.
	fds := regexp.MustCompile(`(?m)^l\S+ .* (\d+) -> (.*)$`)
	each(t, []row{
		{"capabilities, descriptors, identity", jail.Job{
			Setup: inherited(t),
			Sh:    `grep -E "^(Cap[A-Za-z]+|NoNewPrivs|Seccomp|Groups):" /proc/self/status; ls -l /proc/self/fd; id; ls -A /root 2>&1; ls /home`,
		}, func(t *testing.T, c *jail.Caller, o *jail.Outcome) {
			o.Ran(t)
			out := o.Out()
			for _, want := range []string{
				"CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n",
				"CapBnd:\t0000000000000000\n", "CapAmb:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n",
				"uid=1000(jail) gid=1000(jail) groups=1000(jail)",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q:\n%s", want, o)
				}
			}
			open := map[string]string{}
			for _, m := range fds.FindAllStringSubmatch(out, -1) {
				open[m[1]] = m[2]
			}
			if open["0"] == "" || open["1"] == "" || open["2"] == "" || len(open) > 4 {
				t.Errorf("descriptors: %v", open)
			}
			for n, target := range open {
				if n > "2" && !regexp.MustCompile(`^/proc/\d+/fd$`).MatchString(target) {
					t.Errorf("descriptor %s leads to %s", n, target)
				}
			}
			host, _ := os.Hostname()
			users, _ := filepath.Glob("/home/*")
			users = append(users, c.Home)
			for _, name := range users {
				if strings.Contains(out, filepath.Base(name)) {
					t.Errorf("the job sees %s:\n%s", name, o)
				}
			}
			if host != "" && strings.Contains(out, host) && len(host) > 4 {
				t.Errorf("the job sees the host's name:\n%s", o)
			}
		}},
		{
			"descriptors of the shell itself",
			jail.Job{Setup: inherited(t), Sh: `cd /proc/$$/fd && echo *`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				o.Exited(t, 0)
				for _, n := range strings.Fields(o.Out()) {
					if len(n) != 1 || n > "3" && n != "10" {
						t.Errorf("descriptors: %s", o.Out())
					}
				}
			},
		},
		{
			"62 no socket of the host",
			jail.Job{Sh: `
for f in /run/user /run/dbus /var/run/docker.sock /run/docker.sock /run/systemd /run/containerd /tmp/.X11-unix; do
	[ -e $f ] && echo "there: $f"
done; find / -xdev -type s 2>/dev/null; find /run /var /tmp /dev -type s 2>/dev/null; cat /proc/net/unix | tail -n +2; echo done`},
			says("done\n"),
		},
		{
			"only a live lo",
			jail.Job{Sh: `ls /sys/class/net 2>/dev/null; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; tail -n +2 /proc/net/route | wc -l`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				o.Exited(t, 0)
				for _, w := range strings.Fields(o.Out()) {
					if w != "lo" && w != "0" {
						t.Errorf("network: %q", o.Out())
					}
				}
				if !strings.Contains(o.Out(), "lo") {
					t.Errorf("no lo: %q", o.Out())
				}
			},
		},
		{
			"only its own processes",
			jail.Job{Sh: `for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done 2>/dev/null | wc -l`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				o.Exited(t, 0)
				var n int
				if fmt.Sscan(o.Out(), &n); n < 1 || n > 8 {
					t.Errorf("%d processes seen", n)
				}
			},
		},
		{
			"its own cgroup is the root",
			jail.Job{Sh: `cut -d: -f3 /proc/self/cgroup | sort -u`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) { o.Said(t, "/\n") },
		},
		{"nothing of the host's root", jail.Job{Sh: `
for d in /root /boot /srv /mnt /media /opt /lost+found /sys/kernel /etc/shadow /etc/ssh /etc/ssl/private /var/log /var/lib /.dockerenv; do
	[ -e $d ] && [ -n "$(ls -A $d 2>/dev/null)" ] && echo "there: $d"
done; echo done`}, says("done\n")},
		{"not the job is PID 1", jail.Job{Sh: `[ $$ -ne 1 ] && echo ok; [ $PPID -eq 1 ] && echo child`}, says("ok\nchild\n")},
	})
}

// The host's side of the same: who the processes of a jail are.
func TestHostUID(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
		defer cancel()
		mark := marked(50 + c.UID%2)
		cmd := c.Command(ctx, "run", "--", "sleep", mark)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cancel()
		var job []jail.Process
		if !jail.Eventually(prompt, func() bool {
			job = jail.Living(t, func(p jail.Process) bool { return p.Cmdline == "sleep "+mark })
			return len(job) == 1 && job[0].NSpid > 1
		}) {
			t.Fatalf("no job: %v", job)
		}
		want := c.UID
		if c.UID == 0 {
			want = job[0].UID[0] // any of the range
			if want < 1900000000 || want > 1900065535 {
				t.Errorf("the job's uid on the host is %d, outside root.uid_range", want)
			}
		}
		for _, uid := range job[0].UID {
			if uid != want || uid == 0 {
				t.Errorf("the job's uids on the host are %v, want %d", job[0].UID, want)
			}
		}
		// PID 1 too: nothing that the job could get at is root.
		for _, p := range jail.Living(t, func(p jail.Process) bool { return p.UID[0] == want && p.NSpid > 1 }) {
			if slices.Contains(p.UID[:], 0) {
				t.Errorf("%v is root on the host", p)
			}
		}
	})
}
