package run

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// landlock is what lists of executables rest on. Where the kernel has none they are
// refused, which is tested.
func landlock(t *testing.T, c *jail.Caller) {
	t.Helper()
	abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if int(abi) < 1 {
		listed(t, c, `allow = ["/usr/bin/id"]`).Run(t, jail.Job{Argv: []string{"id"}}).Refused(t, 125, jailer.CodeIsolationUnavailable, "no Landlock")
	}
	need.Feature(t, "landlock", int(abi) >= 1, "the kernel has no Landlock, or it is off")
}

func listed(t *testing.T, c *jail.Caller, exec string) *jail.Caller {
	t.Helper()
	return c.WithPolicy(t, "exec.toml", jail.BestEffort+"[profiles.default]\nexec = { "+exec+" }\n")
}

// With git alone in the list nothing else runs, whoever asks for it, by whatever way.
func TestExecutables(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		landlock(t, c)
		git := listed(t, c, `allow = ["/usr/bin/git"]`)
		o := git.Run(t, jail.Job{Argv: []string{"git", "init", "-q", "/workspace/x"}})
		if r := o.Exited(t, 0); r.Isolation.Exec != "descendants" || r.Isolation.LandlockABI < 1 {
			t.Errorf("%+v", r.Isolation)
		}
		id, err := os.ReadFile("/usr/bin/id")
		if err != nil {
			t.Fatal(err)
		}
		// Scripts and copies are put in, as nothing in the jail could make them.
		dir := filepath.Join(c.Home, "put")
		for name, content := range map[string][]byte{"id": id, "script": []byte("#!/usr/bin/id\n"), "sh": []byte("#!/bin/sh\nid\n")} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		flags := []string{"--dir", "/workspace=" + dir}
		loader := "/lib64/ld-linux-x86-64.so.2"
		if _, err := os.Stat(loader); err != nil {
			loader = "/lib/ld-linux-aarch64.so.1"
		}
		for name, argv := range map[string][]string{
			"itself": {"id"}, "by env": {"env", "id"}, "by find": {"find", ".", "-exec", "id", ";"}, "by a shell": {"sh", "-c", "id"},
			"a copy": {"/workspace/id"}, "a script": {"/workspace/script"}, "a shell script": {"/workspace/sh"},
		} {
			o := git.Run(t, jail.Job{Flags: flags, Argv: argv})
			if o.Err == nil || o.Err.Code != jailer.CodeCommandNotExecutable || strings.Contains(o.Stdout, "uid=") {
				t.Errorf("%s: %s", name, o)
			}
		}
		for name, job := range map[string]jail.Job{
			"an alias":             {Argv: []string{"git", "-c", "alias.x=!id", "x"}},
			"GIT_SSH_COMMAND":      {Flags: []string{"--env", "GIT_SSH_COMMAND=id"}, Argv: []string{"git", "ls-remote", "ssh://localhost/x"}},
			"a pager":              {Flags: []string{"--env", "GIT_PAGER=id"}, Argv: []string{"git", "-p", "--version"}},
			"an editor":            {Flags: []string{"--env", "GIT_EDITOR=id"}, Argv: []string{"git", "var", "GIT_EDITOR"}},
			"the loader":           {Argv: []string{loader, "/usr/bin/id"}},
			"the loader of a copy": {Argv: []string{loader, "/workspace/id"}},
		} {
			job.Flags = append(job.Flags, flags...)
			if o := git.Run(t, job); strings.Contains(o.Stdout, "uid=") || strings.Contains(o.Stdout, "groups=") {
				t.Errorf("%s runs it: %s", name, o)
			}
		}
	})
}

// An interpreter in the list executes no other file: the kernel refuses.
func TestExecutablesOfInterpreter(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		landlock(t, c)
		py := listed(t, c, `allow = ["/usr/bin/python3"], allow_interpreters = true`)
		o := py.Run(t, jail.Job{Argv: []string{"python3", "-c", `
import ctypes, os, shutil, subprocess
def tried(name, f):
    try:
        r = f()
        print(name, "ran" if getattr(r, "returncode", 0) == 0 else "failed")
    except OSError as e:
        print(name, e.strerror)
loader = next(p for p in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1") if os.path.exists(p))
quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
shutil.copy("/usr/bin/id", "/workspace/id")
os.chmod("/workspace/id", 0o755)
shutil.copy(loader, "/workspace/loader")
os.chmod("/workspace/loader", 0o755)
open("/workspace/script", "w").write("#!/usr/bin/id\n")
os.chmod("/workspace/script", 0o755)
tried("execv", lambda: os.execv("/usr/bin/id", ["id"]))
tried("subprocess", lambda: subprocess.run(["id"], **quiet))
tried("shell", lambda: subprocess.run("id", shell=True, **quiet))
tried("copy", lambda: subprocess.run(["/workspace/id"], **quiet))
tried("script", lambda: subprocess.run(["/workspace/script"], **quiet))
tried("loader", lambda: subprocess.run([loader, "/usr/bin/id"], **quiet))
tried("loader of a copy", lambda: subprocess.run([loader, "/workspace/id"], **quiet))
tried("copy of the loader", lambda: subprocess.run(["/workspace/loader", "/usr/bin/id"], **quiet))
tried("memfd", lambda: os.memfd_create("x"))
tried("descriptor", lambda: os.execve(os.open("/usr/bin/id", os.O_RDONLY), ["id"], {}))
def tmpfile():
    fd = os.open("/workspace", os.O_TMPFILE | os.O_RDWR, 0o755)
    os.write(fd, open("/usr/bin/id", "rb").read())
    os.execve("/proc/self/fd/%d" % fd, ["id"], {})
tried("no name", tmpfile)
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("/workspace/id", os.O_RDONLY)
libc.mmap.restype = ctypes.c_void_p
print("mmap", "mapped" if libc.mmap(None, 4096, 5, 2, fd, 0) != ctypes.c_void_p(-1).value else os.strerror(ctypes.get_errno()))
print(subprocess.run(["/usr/bin/python3", "-c", "print(6*7)"], capture_output=True, text=True).stdout)`}})
		o.Said(t, `execv Permission denied
subprocess Permission denied
shell Permission denied
copy Permission denied
script Permission denied
loader failed
loader of a copy failed
copy of the loader Permission denied
memfd Operation not permitted
descriptor Permission denied
no name Permission denied
mmap Operation not permitted
42

`)
	})
}

// What is listed is what is there: by its content, and not in a link's place.
func TestExecutablesChecked(t *testing.T) {
	t.Parallel()
	c := jail.User(t)
	landlock(t, c)
	id, err := os.ReadFile("/usr/bin/id")
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(id))
	listed(t, c, fmt.Sprintf(`allow = [{ path = "/usr/bin/id", sha256 = %q }]`, sum)).Run(t, jail.Job{Argv: []string{"id", "-u"}}).Said(t, "1000\n")
	for exec, want := range map[string]string{
		fmt.Sprintf(`allow = [{ path = "/usr/bin/id", sha256 = %q }]`, strings.Repeat("0", 64)): "it has the SHA-256 " + sum,
		`allow = ["/usr/bin/nosuch"]`: "no such file", `allow = ["/usr/bin"]`: "no file that can be executed", `allow = ["/etc/passwd"]`: "no file that can be executed",
	} {
		listed(t, c, exec).Run(t, jail.Job{Argv: []string{"id"}}).Refused(t, 126, jailer.CodePolicyDenied, "profiles.default.exec.allow[0]", want)
	}
	// The command alone: by its absolute path, which no PATH and no directory changes.
	first := listed(t, c, `allow = ["/usr/bin/env"], enforce = "first"`)
	o := first.Run(t, jail.Job{Argv: []string{"/usr/bin/env", "id", "-u"}})
	o.Said(t, "1000\n")
	if i := o.Result.Isolation; i.Exec != "first" || i.LandlockABI != 0 {
		t.Errorf("%+v", i)
	}
	for _, argv := range [][]string{{"env", "id"}, {"../usr/bin/env", "id"}, {"/usr/bin/id"}, {"/bin/env", "id"}} {
		first.Run(t, jail.Job{Argv: argv}).Refused(t, 126, jailer.CodePolicyDenied, "by its absolute path")
	}
}
