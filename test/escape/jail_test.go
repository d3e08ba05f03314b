package escape

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// build386 makes a static 32-bit program that prints RAN, and checks that this
// kernel runs it.
func build386(t *testing.T) string {
	t.Helper()
	goProgram, err := exec.LookPath("go")
	need.Feature(t, "go", err == nil, "go is not installed on this host")
	src, bin := t.TempDir()+"/main.go", dir+"/prog386"
	if err := os.WriteFile(src, []byte("package main\nfunc main() { println(`RAN`) }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(goProgram, "build", "-o", bin, src)
	cmd.Env = append(os.Environ(), "GOARCH=386", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	err = exec.Command(bin).Run()
	need.Feature(t, "ia32", err == nil, fmt.Sprintf("this kernel does not run 386 programs: %v", err))
	return bin
}

// Descriptors that the caller forgot to close stay out (CVE-2024-21626).
func TestDescriptors(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		root, err := os.Open("/")
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		pr, pw, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer pr.Close()
		defer pw.Close()
		leak := func(cmd *exec.Cmd) {
			cmd.ExtraFiles = make([]*os.File, 249)
			cmd.ExtraFiles[0], cmd.ExtraFiles[6], cmd.ExtraFiles[248] = root, pw, root // 3, 9, 251
		}
		list := `ls -l /proc/self/fd | sed -n 's/.* \([0-9]*\) -> /\1 /p'`

		cmd := exec.Command("/bin/sh", "-c", list)
		leak(cmd)
		if out, err := cmd.Output(); err != nil || !bytes.Contains(out, []byte("251 /")) {
			t.Fatalf("control: fd 251 does not show outside: %s, %v", out, err)
		}

		r := c.run(t, job{argv: []string{"/bin/sh", "-c", list}, setup: leak})
		var fds []string
		for line := range strings.Lines(r.Stdout) {
			fd, to, _ := strings.Cut(strings.TrimSpace(line), " ")
			fds = append(fds, fd)
			if fd == "3" && !strings.HasPrefix(to, "/proc/") { // ls's own
				t.Errorf("fd 3 is %s", to)
			}
		}
		if !slices.Equal(fds, []string{"0", "1", "2", "3"}) {
			t.Errorf("descriptors in the jail: %v", r)
		}

		// A working directory that is a descriptor of the launcher's.
		for _, fd := range []int{3, 9, 251} {
			cwd := fmt.Sprintf("/proc/self/fd/%d", fd)
			cmd := c.command(t.Context(), t, []string{"--cwd", cwd}, []string{"/bin/ls", "."})
			leak(cmd)
			if out, err := cmd.Output(); err == nil {
				t.Errorf("--cwd %s ran and shows %q", cwd, out)
			}
		}
	})
}

func TestIdentity(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		r := c.sh(t, `grep -E '^(Cap[A-Za-z]+|NoNewPrivs|Seccomp):' /proc/self/status; id -u; id -g; id -G`)
		zero := "0000000000000000"
		want := []string{
			"CapInh:", zero, "CapPrm:", zero, "CapEff:", zero, "CapBnd:", zero, "CapAmb:", zero,
			"NoNewPrivs:", "1", "Seccomp:", "2", "1000", "1000", "1000",
		}
		if got := strings.Fields(r.Stdout); !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

// The host's view of a running job: no process of it, PID 1 included, is root.
func TestHostUID(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		m := mark()
		ctx, cancel := context.WithTimeout(t.Context(), need.Time(time.Minute))
		defer cancel()
		cmd := c.command(ctx, t, nil, []string{"/bin/sh", "-c", "echo up; sleep 100; : " + m})
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Signal(syscall.SIGTERM)
		if b := make([]byte, 3); true {
			if _, err := out.Read(b); err != nil {
				t.Fatalf("the job did not start: %v", err)
			}
		}
		pids := marked(t, m)
		if len(pids) == 0 {
			t.Fatal("the job's process is not found on the host")
		}
		for _, p := range pids {
			for {
				b, err := os.ReadFile("/proc/" + p + "/status")
				if err != nil {
					t.Fatal(err)
				}
				status := map[string][]string{}
				for line := range strings.Lines(string(b)) {
					k, v, _ := strings.Cut(line, ":")
					status[k] = strings.Fields(v)
				}
				// Up to the jail's PID 1, whose parent is in another pid namespace.
				if len(status["NSpid"]) < 2 {
					break
				}
				for _, id := range append(status["Uid"], status["Gid"]...) {
					if id == "0" || c.uid != 0 && id != fmt.Sprint(c.uid) {
						t.Errorf("host pid %s runs with %v, %v", p, status["Uid"], status["Gid"])
						break
					}
				}
				if c.uid == 0 && len(status["Groups"]) > 0 && status["Groups"][0] == "0" {
					t.Errorf("host pid %s keeps groups %v", p, status["Groups"])
				}
				p = status["PPid"][0]
			}
		}
	})
}

func TestMounts(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		r := c.sh(t, "cat /proc/self/mounts")
		writable := map[string]bool{"/workspace": false, "/tmp": false, "/home/jail": false, "/dev/shm": false}
		n := 0
		for line := range strings.Lines(r.Stdout) {
			f := strings.Fields(line)
			if len(f) < 4 {
				continue
			}
			n++
			target, opts := f[1], strings.Split(f[3], ",")
			has := func(o string) bool { return slices.Contains(opts, o) }
			// Set-id bits and device nodes mean nothing where files come from: the
			// host, an image, the job. Left are the root, which holds the launcher's
			// few files alone, the devices, which must be usable, and masks.
			made := target == "/" || strings.HasPrefix(target, "/proc/")
			if has("rw") || !made {
				if !has("nosuid") {
					t.Errorf("%s lacks nosuid: %s", target, f[3])
				}
				if !has("nodev") && !strings.HasPrefix(target, "/dev/") {
					t.Errorf("%s lacks nodev: %s", target, f[3])
				}
			}
			if !has("rw") || f[2] == "devtmpfs" && strings.HasPrefix(target, "/proc/") { // /dev/null over a file
				continue
			}
			if _, ok := writable[target]; ok {
				writable[target] = true
				if f[2] != "tmpfs" || !strings.Contains(f[3], "size=") || !strings.Contains(f[3], "nr_inodes=") {
					t.Errorf("%s is not bounded: %s", target, line)
				}
				continue
			}
			if target != "/proc" {
				t.Errorf("%s is writable: %s", target, f[3])
			}
		}
		for target, ok := range writable {
			if !ok {
				t.Errorf("%s is not a writable mount", target)
			}
		}
		if n < 8 {
			t.Errorf("%d mounts: %v", n, r)
		}
	})
}

func TestReadOnly(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		for _, d := range []string{"/", "/usr", "/etc", "/bin", "/lib", "/dev", "/usr/bin", "/home", "/run", "/var", "/proc/sys"} {
			t.Run(d, func(t *testing.T) {
				r := c.sh(t, "LC_ALL=C touch "+d+"/x && echo MADE")
				if strings.Contains(r.Stdout, "MADE") || !strings.Contains(r.Stderr, "Read-only file system") {
					if d == "/proc/sys" && strings.Contains(r.Stderr, "No such file") {
						return // procfs makes no files, read-only or not
					}
					t.Errorf("touch: %v, want EROFS", r)
				}
			})
		}
		// The control: the same in the four writable ones.
		r := c.sh(t, `for d in /workspace /tmp /dev/shm "$HOME"; do touch $d/x && echo $d; done`)
		if r.Stdout != "/workspace\n/tmp\n/dev/shm\n/home/jail\n" {
			t.Errorf("the writable places: %v", r)
		}
	})
}

// scripts are attacks of a few lines; each has its own wanted output.
func TestScripts(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		for _, tc := range []struct {
			name, script string
			stdout       string // wanted whole
			stderr       string // wanted in it
			outside      string // control: what the user's stdout holds outside a jail
		}{
			{"devices", `ls /dev | tr '\n' ' '`, "fd full null random shm stderr stdin stdout tty urandom zero ", "", "kmsg"},
			{"device nodes", `LC_ALL=C mknod /tmp/m c 1 3; ls /tmp`, "", "Operation not permitted", ""},
			{"disk nodes", `LC_ALL=C mknod /tmp/m b 8 0; ls /tmp`, "", "Operation not permitted", ""},
			{"pipes are no devices", `mkfifo /tmp/p && ls /tmp`, "p\n", "", ""},
			{"set-id bit", `cp /usr/bin/id /tmp/id; chmod 6755 /tmp/id; /tmp/id -u`, "1000\n", "", ""},
			{"user namespace", `LC_ALL=C unshare -Ur echo IN`, "", "Operation not permitted", "IN"},
			{"mount", `LC_ALL=C mount -t tmpfs x /tmp && echo DONE; :`, "", "must be superuser", ""},
			{"chroot", `LC_ALL=C chroot / echo DONE; :`, "", "Operation not permitted", ""},
			{"working directory", `readlink /proc/self/cwd; pwd; ls ..|head -c0`, "/workspace\n/workspace\n", "", ""},
			{"own cgroup alone", `cut -d: -f3 /proc/self/cgroup | sort -u`, "/\n", "", ""},
			{"cgroup of pid 1", `cat /proc/1/cgroup /proc/1/cpuset /proc/1/task/*/cgroup /proc/1/task/*/cpuset`, "", "", ""},
			{"cgroup files", `find /sys/fs/cgroup -writable 2>/dev/null`, "", "", ""},
			{"other processes", `ls -d /proc/[0-9]* | wc -l | { read n; [ $n -le 5 ] && echo few; }`, "few\n", "", ""},
			{"host homes", `ls -A /home /root 2>/dev/null | grep -v -e : -e '^$'`, "jail\n", "", ""},
			{"running programs", `for p in /proc/1 /proc/self/..; do : >>$p/exe && echo W $p; done 2>/dev/null; :`, "", "", ""},
			{"hard link out of /etc", `LC_ALL=C ln /etc/passwd /workspace/p && echo LINKED; :`, "", "cross-device", ""},
			{"descriptors up", `ulimit -Hn 1000000 2>/dev/null && echo UP; :`, "", "", ""},
			{"core size", `awk '/^Max core/{print ($6 <= 1) ? "none" : $6}' /proc/self/limits`, "none\n", "", ""},
			{"core file", `cd /workspace; sh -c 'ulimit -c unlimited 2>/dev/null; kill -SEGV $$' 2>/dev/null; ls`, "", "", ""},
			{"niceness", `nice -n -20 nice 2>/dev/null`, niceness(t) + "\n", "", ""},
			{"real time", `chrt -f 99 echo RT 2>/dev/null; ionice -c1 echo RT 2>/dev/null; :`, "", "", ""},
			{"other address-space layout", `setarch -R echo FLAT 2>/dev/null; :`, "", "", "FLAT"},
			{"unix sockets by path", `find / -xdev -type s 2>/dev/null`, "", "", ""},
			{"powercap", `ls /sys/devices/virtual/powercap /sys/firmware 2>/dev/null`, "", "", ""},
			{"loopback alone", `awk -F: 'NR>2{print $1}' /proc/net/dev | tr -d ' ' | grep -v -e tunl -e sit -e ip6tnl -e gre -e erspan -e vti`, "lo\n", "", ""},
		} {
			t.Run(tc.name, func(t *testing.T) {
				if tc.outside != "" {
					cmd := exec.Command("/bin/sh", "-c", tc.script)
					caller{uid: userID}.become(cmd)
					if out, _ := cmd.Output(); !bytes.Contains(out, []byte(tc.outside)) {
						t.Logf("not shown: outside a jail it prints %q", out)
					}
				}
				r := c.sh(t, tc.script)
				if r.Stdout != tc.stdout || !strings.Contains(r.Stderr, tc.stderr) {
					t.Errorf("%v\nwant stdout %q, stderr with %q", r, tc.stdout, tc.stderr)
				}
			})
		}
	})
}

// What one run leaves in memory or on disk the next does not find.
func TestNothingShared(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		c.sh(t, `for d in /workspace /tmp /dev/shm $HOME; do echo a >$d/k; done; ipcmk -M 4096 -Q -S 1`)
		r := c.sh(t, `ls -A /workspace /tmp /dev/shm $HOME | grep -v -e : -e '^$'; ipcs -m -q -s | grep -c '^0x'`)
		if r.Stdout != "0\n" {
			t.Errorf("found: %v", r)
		}
	})
}

func TestNetwork(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		name := mark()
		us, err := net.Listen("unix", "@"+name)
		if err != nil {
			t.Fatal(err)
		}
		defer us.Close()
		tcp, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		_, port, _ := net.SplitHostPort(tcp.Addr().String())

		t.Run("abstract socket of the host", func(t *testing.T) {
			if out := control(t, "--connect-abstract", name); out != "OK\n" {
				t.Fatalf("control: %s", out)
			}
			if r := c.probe(t, nil, "--connect-abstract", name); r.Stdout != "ECONNREFUSED\n" {
				t.Errorf("%v", r)
			}
			if r := c.sh(t, "cat /proc/net/unix"); strings.Contains(r.Stdout, name) {
				t.Errorf("/proc/net/unix shows the host's: %v", r)
			}
		})
		targets := map[string]string{
			"127.0.0.1": "ECONNREFUSED", "::1": "ECONNREFUSED",
			"1.1.1.1": "ENETUNREACH", "169.254.169.254": "ENETUNREACH", "10.0.0.1": "ENETUNREACH",
			"2606:4700:4700::1111": "ENETUNREACH",
		}
		if addrs, err := net.InterfaceAddrs(); err == nil { // the host's own
			for _, a := range addrs {
				if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
					targets[n.IP.String()] = "ENETUNREACH"
				}
			}
		}
		if out := control(t, "--connect-tcp", "127.0.0.1", port); out != "OK\n" {
			t.Fatalf("control: %s", out)
		}
		for _, addr := range slices.Sorted(maps.Keys(targets)) {
			t.Run(addr, func(t *testing.T) {
				r := c.probe(t, nil, "--connect-tcp", addr, port)
				got := strings.TrimSpace(r.Stdout)
				if got == "EADDRNOTAVAIL" || got == "EAFNOSUPPORT" {
					need.Feature(t, "ipv6", !strings.Contains(addr, ":"), "no IPv6 in a new network namespace")
				}
				if got != targets[addr] {
					t.Errorf("%v, want %s", r, targets[addr])
				}
			})
		}
		t.Run("names fail at once", func(t *testing.T) {
			start := time.Now()
			r := c.sh(t, "getent hosts example.com; echo $?")
			if r.Stdout != "2\n" || time.Since(start) > need.Time(10*time.Second) {
				t.Errorf("%v after %v", r, time.Since(start))
			}
		})
	})
}

// Nothing of the caller's environment reaches the job.
func TestEnvironment(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		r := c.run(t, job{argv: []string{"/usr/bin/env"}, setup: func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, "SECRET=hunter2", "LD_PRELOAD=/nonexistent.so", "LD_AUDIT=/nonexistent.so",
				"GODEBUG=madvdontneed=1", "GOTRACEBACK=crash", "JAILER_X=1", "TMPDIR=/nonexistent", "BASH_ENV=/x", "ENV=/x")
		}})
		for _, bad := range []string{"SECRET", "\nLD_", "GODEBUG", "GOTRACEBACK", "JAILER_", "nonexistent", "BASH_ENV", "\nENV=", dir} {
			if strings.Contains("\n"+r.Stdout, bad) {
				t.Errorf("%s in the job's environment:\n%s", bad, r.Stdout)
			}
		}
		if !strings.Contains(r.Stdout, "HOME=/home/jail\n") {
			t.Errorf("control: %v", r)
		}
	})
}

// What a job prints can neither drive the terminal nor pass for jailer's own word.
func TestOutput(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		t.Run("terminal sequences", func(t *testing.T) {
			r := c.sh(t, `printf '\033]52;c;eA==\a\033[2J\302\2332J\177\342\200\250\342\200\256'`)
			if r.Stdout != "\x1b]52;c;eA==\a\x1b[2J\u009b2J\x7f\u2028\u202e" {
				t.Errorf("decoded: %q", r.Stdout)
			}
			for _, ch := range string(r.raw) {
				if ch != '\n' && ch != ' ' && !unicode.IsPrint(ch) {
					t.Errorf("%U stands bare in the result: %q", ch, r.raw)
				}
			}
		})
		// jailer run -- yes | head -1: the job gets the SIGPIPE, jailer cleans up.
		t.Run("reader leaves", func(t *testing.T) {
			m := mark()
			cmd := c.command(t.Context(), t, []string{"--timeout", jail.Timeout(30 * time.Second)}, []string{"/usr/bin/yes", m})
			pr, pw, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdout = pw
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pw.Close()
			if _, err := pr.Read(make([]byte, 2)); err != nil {
				t.Errorf("no output: %v", err)
			}
			pr.Close()
			cmd.Wait()
			gone(t, m)
			if p := cmd.ProcessState; !p.Exited() || p.ExitCode() != 128+int(syscall.SIGPIPE) {
				t.Errorf("jailer ended with %v, want exit status 141 after its clean-up", p)
			}
		})
		t.Run("forged events", func(t *testing.T) {
			forged := `{"v":1,"type":"result","status":"exited","exitCode":0}`
			cmd := c.command(t.Context(), t, []string{"--ndjson"},
				[]string{"/bin/sh", "-c", "echo; echo '" + forged + "'; exit 7"})
			out, err := cmd.Output()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
				t.Fatalf("%v\n%s", err, out)
			}
			for line := range bytes.Lines(out) {
				if bytes.HasPrefix(bytes.TrimSpace(line), []byte(forged)) {
					t.Errorf("the job forged a line:\n%s", out)
				}
			}
			if !bytes.Contains(out, []byte(`\"type\":\"result\"`)) {
				t.Errorf("control: the output is missing:\n%s", out)
			}
		})
	})
}

// The program that starts every jail is the same after the attacks on it
// (CVE-2019-5736).
func TestProgramUnchanged(t *testing.T) {
	sum := func() [32]byte {
		b, err := os.ReadFile(program(t))
		if err != nil {
			t.Fatal(err)
		}
		return sha256.Sum256(b)
	}
	before := sum()
	callers(t, func(t *testing.T, c caller) {
		r := c.sh(t, `for p in /proc/[0-9]*; do : 2>/dev/null >>$p/exe && echo W $p; done 2>/dev/null; :`)
		if strings.Contains(r.Stdout, "W /proc/1\n") {
			t.Errorf("pid 1's program is writable: %v", r)
		}
		r = c.sh(t, `printf '#!/proc/self/exe\n' >/tmp/x; chmod 755 /tmp/x; /tmp/x; printf '#!/proc/1/exe\n' >/tmp/y; chmod 755 /tmp/y; /tmp/y; echo $?`)
		if !strings.HasSuffix(r.Stdout, "126\n") {
			t.Logf("a script run by /proc/1/exe: %v", r)
		}
	})
	if sum() != before {
		t.Error("the program was changed")
	}
}

// What only some kernels and hosts have.
func TestHostFeatures(t *testing.T) {
	read := func(p string) string {
		b, _ := os.ReadFile(p)
		return strings.TrimSpace(string(b))
	}
	callers(t, func(t *testing.T, c caller) {
		t.Run("core pipe handler", func(t *testing.T) {
			p := read("/proc/sys/kernel/core_pattern")
			need.Feature(t, "core-pipe", strings.HasPrefix(p, "|"), "core_pattern is "+p)
			// 0 does not stop a pipe handler, the kernel's special case 1 does (core(5)).
			if r := c.sh(t, `awk '/^Max core/{print $5, $6}' /proc/self/limits`); r.Stdout != "1 1\n" {
				t.Errorf("%v, want a limit of 1 byte", r)
			}
		})
		t.Run("apparmor label", func(t *testing.T) {
			need.Feature(t, "apparmor", read("/sys/module/apparmor/parameters/enabled") == "Y", "AppArmor is off")
			r := c.sh(t, "cat /proc/self/attr/current")
			ready := apparmor.Here() == nil
			if ready && (r.Isolation.AppArmor != apparmor.Default || r.Stdout != apparmor.JobLabel+"\n") ||
				!ready && (r.Isolation.AppArmor != "" || r.Stdout == "" || strings.Contains(r.Stdout, apparmor.Default)) {
				t.Errorf("profiles loaded: %t; the result says %q, the kernel: %v", ready, r.Isolation.AppArmor, r)
			}
		})
		t.Run("cgroup2 mount", func(t *testing.T) {
			_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
			need.Feature(t, "cgroup2", err == nil, "no unified hierarchy")
			r := c.sh(t, `cat /proc/self/cgroup; mkdir /sys/fs/cgroup/x 2>&1 && echo MADE; :`)
			if !strings.HasPrefix(r.Stdout, "0::/\n") || strings.Contains(r.Stdout, "MADE") {
				t.Errorf("%v", r)
			}
		})
	})
}

// niceness is this process's, which a jail inherits: the suite may run under nice(1).
// The system call gives 20 less it (getpriority(2)).
func niceness(t *testing.T) string {
	t.Helper()
	n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(20 - n)
}
