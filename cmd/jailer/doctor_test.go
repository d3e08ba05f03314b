package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jailer-project/jailer/internal/host"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/test/need"
)

const doctorUID = 54321

// doctorHome is a directory that a user can search, with the program in it.
func doctorHome(t *testing.T) (dir, bin string) {
	t.Helper()
	src := os.Getenv("JAILER_BIN")
	if src == "" {
		src = "../../bin/jailer"
	}
	data, err := os.ReadFile(src)
	if err != nil {
		t.Fatalf("%v: run `make build`", err)
	}
	dir = t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bin = filepath.Join(dir, "jailer")
	if err := os.WriteFile(bin, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, bin
}

type doctorDoc struct {
	V        int
	OK       bool
	Profile  string
	UID      int
	Failed   []string
	Findings []host.Finding
}

func (d doctorDoc) find(id string) host.Finding {
	for _, f := range d.Findings {
		if f.ID == id {
			return f
		}
	}
	return host.Finding{}
}

// jailerAs runs the program as a uid and returns its output and exit status.
func jailerAs(t *testing.T, bin string, uid int, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	c := exec.Command(bin, args...)
	c.Dir = "/"
	c.Env = []string{"PATH=/usr/bin:/bin"}
	if uid != os.Geteuid() {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

func doctorJSON(t *testing.T, bin string, uid int, args ...string) (doctorDoc, int) {
	t.Helper()
	out, errs, code := jailerAs(t, bin, uid, append([]string{"doctor", "--json"}, args...)...)
	var d doctorDoc
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	if d.V != 1 || d.UID != uid || d.OK != (code == 0) || d.OK != (len(d.Failed) == 0) {
		t.Errorf("exit %d: %+v", code, d)
	}
	return d, code
}

// TestDoctorForeseesRun is what doctor is for: where it says yes a run works,
// where it says no a run is refused, for a reason that it names.
func TestDoctorForeseesRun(t *testing.T) {
	dir, bin := doctorHome(t)
	closedRoot(t, dir)
	policies := map[string]string{"builtin": ""}
	for name, text := range map[string]string{
		"best-effort": "version = 1\nextends = \"builtin\"\n[limits]\nenforce = \"best-effort\"\n",
		"required":    "version = 1\nextends = \"builtin\"\n[limits]\nenforce = \"best-effort\"\n[profiles.default]\nextends = \"default\"\nrequire = [\"userns\", \"memory\"]\n",
		"apparmor":    "version = 1\nextends = \"builtin\"\n[profiles.default]\nextends = \"default\"\napparmor = \"required\"\n",
		"uid range":   "version = 1\nextends = \"builtin\"\n[root]\nuid_range = \"1-70000\"\n",
		"closed root": "version = 1\nextends = \"builtin\"\n[limits]\nenforce = \"best-effort\"\n[rootfs.r]\npath = \"" + dir + "/closed/r\"\n[profiles.default]\nextends = \"default\"\nrootfs = \"r\"\n",
		"no root":     "version = 1\nextends = \"builtin\"\n[limits]\nenforce = \"best-effort\"\n[rootfs.r]\npath = \"" + dir + "/nosuch\"\n[profiles.default]\nextends = \"default\"\nrootfs = \"r\"\n",
		"no such CPU": "version = 1\nextends = \"builtin\"\n[limits]\nenforce = \"best-effort\"\n[profiles.default]\nextends = \"default\"\n[profiles.default.limits.default]\ncpuset = \"8000\"\n",
		"swap":        "version = 1\nextends = \"builtin\"\n[profiles.default]\nextends = \"default\"\n[profiles.default.limits.default]\nswap = \"16M\"\n",
		"cpuset":      "version = 1\nextends = \"builtin\"\n[profiles.default]\nextends = \"default\"\n[profiles.default.limits.default]\ncpuset = \"0\"\n",
		"range":       "version = 1\nextends = \"builtin\"\n[limits]\nenforce = \"best-effort\"\n[profiles.default]\nextends = \"default\"\nids = \"range\"\n",
	} {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "")+".toml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		policies[name] = file
	}
	uids := []int{os.Geteuid()}
	if os.Geteuid() == 0 {
		uids = append(uids, doctorUID)
	}
	for _, uid := range uids {
		for name, file := range policies {
			who := "user"
			if uid == 0 {
				who = "root"
			}
			t.Run(who+" "+name, func(t *testing.T) {
				var args []string
				if file != "" {
					args = []string{"--policy", file}
				}
				d, code := doctorJSON(t, bin, uid, args...)
				out, errs, ran := jailerAs(t, bin, uid, append(append([]string{"run", "--json"}, args...), "--", "sh", "-c", "echo RAN")...)
				if (code == 0) != (ran == 0) {
					t.Fatalf("doctor exits %d (%q), run %d: %s%s", code, d.Failed, ran, out, errs)
				}
				if ran == 0 {
					return
				}
				if strings.Contains(out, "RAN") {
					t.Errorf("it ran: %s", out)
				}
				var e struct {
					Error struct {
						Details struct{ Reason string }
						Hint    string
					}
				}
				if err := json.Unmarshal([]byte(out), &e); err != nil {
					t.Fatalf("%v: %s%s", err, out, errs)
				}
				reason := e.Error.Details.Reason
				if !slices.ContainsFunc(d.Findings, func(f host.Finding) bool {
					return f.Failed() && (f.ID == reason || f.Cause == reason)
				}) {
					t.Errorf("run is refused for %q, doctor says %q: %s", reason, d.Failed, out)
				}
				if e.Error.Hint == "" {
					t.Errorf("no hint: %s", out)
				}
			})
		}
	}
}

// closedRoot makes dir/closed/r, a root with a shell, below a directory that
// nobody but its owner may search.
func closedRoot(t *testing.T, dir string) {
	t.Helper()
	sh, err := os.ReadFile(need.Program(t, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "closed/r")
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin/sh"), sh, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestDoctorForeseesState puts the state where root's jails can't go.
func TestDoctorForeseesState(t *testing.T) {
	need.Root(t)
	dir, bin := doctorHome(t)
	closedRoot(t, dir)
	state := filepath.Join(dir, "closed/state")
	d, code := doctorJSON(t, bin, 0, "--state-dir", state)
	out, _, ran := jailerAs(t, bin, 0, "--state-dir", state, "run", "--json", "--", "sh", "-c", "echo RAN")
	if code != 1 || !slices.Contains(d.Failed, "rootfs.search") || ran != 125 || !strings.Contains(out, `"reason":"rootfs.search"`) {
		t.Errorf("doctor: %d %q; run: %d %s", code, d.Failed, ran, out)
	}
}

// TestDoctorForeseesNesting covers a part of /proc, as container runtimes do,
// and takes user namespaces away from a namespace that the test makes itself.
func TestDoctorForeseesNesting(t *testing.T) {
	unshare := need.Program(t, "unshare")
	need.Root(t)
	dir, bin := doctorHome(t)
	max := func() string {
		b, err := os.ReadFile("/proc/sys/user/max_user_namespaces")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := max()
	for _, c := range []struct {
		name, want string
		uid        int
		args       []string
		script     string
	}{
		{"masked proc", "proc.fresh", 0, []string{"--mount", "--propagation", "private"}, "mount --bind /dev/null /proc/cpuinfo"},
		// The sysctl is one of each user namespace; a user can't reach another's.
		{"no user namespaces", "userns.max", doctorUID, []string{"--user", "--map-root-user"}, "echo 0 > /proc/sys/user/max_user_namespaces"},
		{"no capabilities", "root.capabilities", 0, []string{"--mount"}, "set -- setpriv --bounding-set -sys_ptrace,-sys_admin --inh-caps -sys_ptrace,-sys_admin \"$@\""},
		{"ids that aren't mapped", "root.uid_range", doctorUID, []string{"--user", "--map-root-user"}, "true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := filepath.Join(dir, c.want)
			if err := os.Mkdir(state, 0o711); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(state, c.uid, c.uid); err != nil {
				t.Fatal(err)
			}
			sh := func(args ...string) (string, string, int) {
				return jailerAs(t, unshare, c.uid, append(slices.Concat(c.args, []string{"sh", "-c", c.script + ` && exec "$@"`, "sh", bin, "--state-dir", state}), args...)...)
			}
			out, errs, code := sh("doctor", "--json")
			var d doctorDoc
			if err := json.Unmarshal([]byte(out), &d); err != nil {
				t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
			}
			if code != 1 || !slices.Contains(d.Failed, c.want) || d.find(c.want).Hint == "" {
				t.Errorf("exit %d, failed %q, %+v", code, d.Failed, d.find(c.want))
			}
			out, errs, code = sh("run", "--json", "--", "sh", "-c", "echo RAN")
			if code != 125 || !strings.Contains(out, `"reason":"`+c.want+`"`) || strings.Contains(out, `RAN\n`) {
				t.Errorf("run: exit %d: %s%s", code, out, errs)
			}
		})
	}
	if after := max(); after != before {
		t.Errorf("user.max_user_namespaces of the host was %s, is %s", before, after)
	}
}

// TestDoctorCapabilities: with these root starts a jail and ends it at its
// deadline, and without any one of them neither doctor nor run says that it could.
func TestDoctorCapabilities(t *testing.T) {
	setpriv := need.Program(t, "setpriv")
	need.Root(t)
	_, bin := doctorHome(t)
	all := []string{"chown", "dac_override", "setgid", "setuid", "sys_chroot", "sys_ptrace", "sys_admin"}
	with := func(t *testing.T, caps []string, args ...string) (string, string, int) {
		set := "-all"
		for _, c := range caps {
			set += ",+" + c
		}
		return jailerAs(t, setpriv, 0, append([]string{"--bounding-set", set, "--inh-caps", set, bin}, args...)...)
	}
	if out, errs, code := with(t, all, "doctor"); code != 0 {
		t.Errorf("with all: exit %d: %s%s", code, out, errs)
	}
	if out, errs, code := with(t, all, "run", "--timeout", "1s", "--", "sh", "-c", "echo RAN; sleep 300 & sleep 300"); code != 124 || out != "RAN\n" {
		t.Errorf("with all: exit %d: %s%s", code, out, errs)
	}
	for _, c := range all {
		t.Run(c, func(t *testing.T) {
			rest := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == c })
			out, errs, code := with(t, rest, "doctor", "--json")
			if code != 1 || !strings.Contains(out, "this root lacks CAP_"+strings.ToUpper(c)+`"`) {
				t.Errorf("doctor: exit %d: %s%s", code, out, errs)
			}
			out, errs, code = with(t, rest, "run", "--json", "--", "sh", "-c", "echo RAN")
			if code != 125 || !strings.Contains(out, `"reason":"root.capabilities"`) || strings.Contains(out, `RAN\n`) {
				t.Errorf("run: exit %d: %s%s", code, out, errs)
			}
		})
	}
}

// TestDoctorNoexec: a state directory serves on a mount like that of /run.
func TestDoctorNoexec(t *testing.T) {
	unshare := need.Program(t, "unshare")
	need.Root(t)
	dir, bin := doctorHome(t)
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o711); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"doctor"}, {"run", "--", "sh", "-c", "echo RAN"}} {
		out, errs, code := jailerAs(t, unshare, 0, append([]string{
			"--mount", "--propagation", "private", "sh", "-c",
			"mount -t tmpfs -o noexec,nosuid,nodev,mode=711 none " + state + ` && exec "$@"`, "sh", bin, "--state-dir", state,
		}, args...)...)
		if code != 0 || errs != "" || (args[0] == "run" && out != "RAN\n") {
			t.Errorf("%s: exit %d: %s%s", args[0], code, out, errs)
		}
	}
}

func TestDoctorTable(t *testing.T) {
	_, bin := doctorHome(t)
	out, errs, code := jailerAs(t, bin, os.Geteuid(), "doctor")
	if code > 1 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	lines := strings.Split(out, "\n")
	col := -1
	for _, l := range lines {
		if i := strings.Index(l, "FOUND"); i > 0 && strings.HasPrefix(l, "ID ") {
			col = i
		}
	}
	if col < 0 {
		t.Fatalf("no heading:\n%s", out)
	}
	seen := 0
	for _, e := range host.Catalog() {
		for _, l := range lines {
			if strings.HasPrefix(l, e.ID+" ") {
				seen++
				if r := []rune(l); len(r) <= col || r[col] == ' ' || r[col-1] != ' ' {
					t.Errorf("not aligned: %q", l)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d lines:\n%s", seen, out)
	}
}

func TestDoctorUsage(t *testing.T) {
	_, bin := doctorHome(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"doctor", "--frob"}, 2, "frob"},
		{[]string{"doctor", "x"}, 2, "doctor"},
		{[]string{"doctor", "--profile"}, 2, "profile"},
		{[]string{"doctor", "--profile", "nosuch"}, 1, "nosuch"},
		{[]string{"doctor", "--policy", "/nonexistent"}, 1, "/nonexistent"},
		{[]string{"doctor", "trial"}, 2, ""}, // outside of new namespaces: mounts nothing
	} {
		out, errs, code := jailerAs(t, bin, os.Geteuid(), c.args...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit %d, want %d: %s%s", c.args, code, c.code, out, errs)
		}
	}
}

// TestDoctorStateDir compares doctor's idea of the state directory, which it
// doesn't make, with the one that a run makes.
func TestDoctorStateDir(t *testing.T) {
	for _, c := range []struct {
		name, dir, xdg string
	}{
		{"default", "", ""},
		{"named", filepath.Join(t.TempDir(), "s"), ""},
		{"runtime directory", "", t.TempDir()},
		{"runtime directory of another", "", "/proc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := state.Open(c.dir, c.xdg)
			if err != nil {
				t.Fatal(err)
			}
			h := host.Here()
			h.Try = func(int, int) host.Trial { return host.Trial{} } // it would start this test program
			for _, f := range h.Check(host.Want{
				StateDir: c.dir, RuntimeDir: c.xdg, Seccomp: "default",
				CheckUIDRange: func(_, _ []byte) (string, string) { return "", "" },
			}) {
				if f.ID == "state.dir" && (f.Where != want.Path || f.State != host.Yes) {
					t.Errorf("%+v, want %s", f, want.Path)
				}
			}
		})
	}
}
