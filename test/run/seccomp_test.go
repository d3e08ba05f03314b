package run

import (
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/profiles"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

const strictPolicy = jail.BestEffort + "[profiles.default]\nseccomp = \"strict\"\n"

// underStrict runs every row for every caller, with the filter strict.
func underStrict(t *testing.T, rows []row) {
	t.Helper()
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		c = c.WithPolicy(t, "strict.toml", strictPolicy)
		for _, r := range rows {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				r.check(t, c, c.Run(t, r.job))
			})
		}
	})
}

// TestStrictPrograms is what docs/policy.md says of programs under strict: what
// works, and what doesn't.
func TestStrictPrograms(t *testing.T) {
	for _, p := range []string{"sh", "python3", "node", "gcc", "git"} {
		t.Run(p, func(t *testing.T) {
			need.Program(t, p)
			underStrict(t, map[string][]row{
				"sh": {
					{"tools", jail.Job{Sh: `set -e; seq 1 100 | sort -n | tail -1; mkdir -p a/b; echo x >a/b/f; cp -r a c; cat c/b/f
ln -s f a/l; mkfifo p; (cat p & echo y >p; wait); chmod 600 a/b/f; mktemp -d >/dev/null; tar cf - a | tar tf - | wc -l; install -m 644 a/b/f i; sed -i s/x/z/ i; cat i; flock i true`}, says("100\nx\ny\n4\nz\n")},
					{"executables are not copied", jail.Job{Sh: `LC_ALL=C cp /bin/true t 2>&1 | sed 's/.*: //'; ls`}, says("Operation not permitted\n")},
				},
				"python3": {
					{"ordinary", jail.Job{Argv: []string{"python3", "-c", `
import threading, subprocess, socket, tempfile, os, asyncio, sqlite3, shutil, ctypes, ssl
t = threading.Thread(target=print, args=("thread",)); t.start(); t.join()
print(subprocess.check_output(["echo", "child"], text=True), end="")
a, b = socket.socketpair(); a.send(b"x"); b.recv(1)
asyncio.run(asyncio.sleep(0.01)); sqlite3.connect("x.db").execute("create table t(a)")
with tempfile.TemporaryDirectory() as d: open(d + "/f", "w").write("x")
shutil.copy("/etc/passwd", "p"); os.makedirs("a/b"); shutil.make_archive("z", "gztar", "a"); shutil.unpack_archive("z.tar.gz", "u")
print(ctypes.CDLL(None).getpid() > 1, 6 * 7)`}}, says("thread\nchild\nTrue 42\n")},
				},
				"node": {
					{"without a JIT", jail.Job{Flags: []string{"--env", "NODE_OPTIONS=--jitless"}, Argv: []string{"node", "-e", `
require("fs").writeFileSync("f", "x"); require("child_process").execFileSync("true");
new (require("worker_threads").Worker)("require('worker_threads').parentPort.postMessage(6)", {eval: true}).on("message", n => console.log(n * 7))`}}, out("42\n")},
					{"with its JIT", jail.Job{Argv: []string{"node", "-e", "console.log(6*7)"}}, signaled},
				},
				"gcc": {
					// The linker makes the program and can't make it executable. That
					// the loader runs it all the same is the limit that docs/policy.md
					// tells: a filter can't tell a library from what the job wrote.
					{"compile", jail.Job{Flags: []string{"--timeout", "120s"}, Sh: `
printf '#include <stdio.h>\nint main(void){printf("%%d\\n",6*7);return 0;}\n' >a.c && gcc a.c -o a && { LC_ALL=C ./a 2>&1 | sed 's/.*: //'; }
for ld in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do [ ! -e $ld ] || $ld ./a; done`}, says("Permission denied\n42\n")},
				},
				"git": {
					{"without templates", jail.Job{Sh: `export GIT_TEMPLATE_DIR=
git init -q r && cd r && git config user.email a@b && git config user.name a && echo x >f && git add f && git commit -qm m &&
git gc -q && git clone -q . ../r2 && git -C ../r2 status --porcelain && git -C ../r2 log --format=%s`}, says("m\n")},
				},
			}[p])
		})
	}
}

// out is the check for a command that prints this on stdout and ends with 0,
// whatever it says on stderr.
func out(want string) func(*testing.T, *jail.Caller, *jail.Outcome) {
	return func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
		t.Helper()
		o.Exited(t, 0)
		if o.Out() != want {
			t.Errorf("want %q:\n%s", want, o)
		}
	}
}

func signaled(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
	t.Helper()
	if r := o.Ran(t); r.Status != jailer.StatusSignaled {
		t.Errorf("want a signal:\n%s", o)
	}
}

// attempts tries what strict refuses and default doesn't, a name and an errno in
// each line (0: it worked), and then what of the writable places can be executed.
const attempts = `
import ctypes, os, socket, sys, mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
nr = {"x86_64": {"chmod": 268, "mknodat": 259, "openat2": 437, "memfd": 319, "ptrace": 101, "fchmodat2": 452, "mprotect": 10, "splice": 275, "sendfile": 40},
      "aarch64": {"chmod": 53, "mknodat": 33, "openat2": 437, "memfd": 279, "ptrace": 117, "fchmodat2": 452, "mprotect": 226, "splice": 76, "sendfile": 71}}[os.uname().machine]
def call(name, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(nr[name]), *[a if isinstance(a, bytes) or a is None else ctypes.c_long(a) for a in args])
    return ctypes.get_errno() if r == -1 else 0
def of(f):
    try: f(); return 0
    except OSError as e: return e.errno
def say(name, errno): print(name, errno)
say("inet", of(lambda: socket.socket(socket.AF_INET)))
say("inet6", of(lambda: socket.socket(socket.AF_INET6)))
say("netlink", of(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)))
say("unix", of(lambda: socket.socket(socket.AF_UNIX)))
open("f", "w").write("#!/bin/sh\necho RAN\n")
say("chmod", of(lambda: os.chmod("f", 0o755)))
say("fchmod", of(lambda: os.fchmod(os.open("f", os.O_RDONLY), 0o700)))
say("fchmodat", call("chmod", -100, b"f", 0o755))
os.chmod("f", 0o644)
say("open", of(lambda: os.open("g", os.O_CREAT | os.O_WRONLY, 0o755)))
say("tmpfile", of(lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o755)))
say("mknod", call("mknodat", -100, b"h", 0o100755, 0))
say("openat2", call("openat2", -100, b"i", (ctypes.c_uint64 * 3)(0o102, 0o755, 0) and ctypes.addressof(how := (ctypes.c_uint64 * 3)(0o102, 0o755, 0)), 24))
say("fchmodat2", call("fchmodat2", -100, b"f", 0o755, 0))
os.chmod("f", 0o644)
acl = (2).to_bytes(4, "little") + b"".join(t.to_bytes(2, "little") + p.to_bytes(2, "little") + b"\xff" * 4 for t, p in ((1, 7), (4, 7), (32, 7)))
say("acl", of(lambda: os.setxattr("f", "system.posix_acl_access", acl)))
say("acl-mode", 0 if os.stat("f").st_mode & 0o111 else 1)
say("memfd", call("memfd", b"m", 1))
say("anonymous-code", of(lambda: mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_EXEC)))
say("writable-code", of(lambda: mmap.mmap(os.open("f", os.O_RDWR), 4, mmap.MAP_PRIVATE, 7)))
m = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
say("mprotect", call("mprotect", ctypes.addressof(ctypes.c_char.from_buffer(m)), 4096, 5))
r, w = os.pipe()
say("splice", call("splice", os.open("/etc/passwd", os.O_RDONLY), 0, w, 0, 1, 0))
say("sendfile", of(lambda: os.sendfile(w, os.open("/etc/passwd", os.O_RDONLY), 0, 1)))
with open("k", "w") as k: k.write("#!/bin/sh\n")
of(lambda: os.chmod("k", 0o755))
say("run", 0 if os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", "./k 2>/dev/null"]) == 0 else 13)
`

// TestStrictRefuses runs the attempts under both filters: under default each of
// them works, which shows that the attempt is one, or is refused there too.
func TestStrictRefuses(t *testing.T) {
	need.Program(t, "python3")
	t.Parallel()
	const (
		works, eperm, eacces, einval, enosys, notsup = "0", "1", "13", "22", "38", "95"
	)
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		got := map[string]map[string]string{}
		for name, policy := range map[string]string{"default": jail.BestEffort, "strict": strictPolicy} {
			o := c.WithPolicy(t, name+".toml", policy).Run(t, jail.Job{Argv: []string{"python3", "-c", attempts}})
			if r := o.Exited(t, 0); r.Isolation.Seccomp != name {
				t.Errorf("isolation.seccomp is %q, want %q", r.Isolation.Seccomp, name)
			}
			got[name] = map[string]string{}
			for line := range strings.Lines(o.Out()) {
				attempt, errno, _ := strings.Cut(strings.TrimSpace(line), " ")
				got[name][attempt] = errno
			}
		}
		for attempt, want := range map[string][2]string{ // default, strict
			"inet": {works, eperm}, "inet6": {works, eperm}, "netlink": {works, eperm}, "unix": {works, works},
			"chmod": {works, eperm}, "fchmod": {works, eperm}, "fchmodat": {works, eperm}, "fchmodat2": {enosys, enosys},
			"open": {works, eperm}, "tmpfile": {works, eperm}, "mknod": {works, eperm}, "openat2": {works, enosys},
			"acl": {works, notsup}, "acl-mode": {works, eperm}, "memfd": {works, enosys},
			"anonymous-code": {works, eperm}, "writable-code": {works, eperm}, "mprotect": {works, eperm},
			"splice": {works, einval}, "sendfile": {works, einval},
			"run": {works, eacces},
		} {
			if d := got["default"][attempt]; d != want[0] && !(strings.HasPrefix(attempt, "acl") && d == notsup) {
				t.Errorf("%s: under default %q, want %s", attempt, d, want[0])
			}
			if s := got["strict"][attempt]; s != want[1] {
				t.Errorf("%s: under strict %q, want %s", attempt, s, want[1])
			}
		}
		// Nothing that a job can make, by any tool, is executable afterwards.
		o := c.WithPolicy(t, "find.toml", strictPolicy).Run(t, jail.Job{Sh: `
touch f; chmod +x f; cp /bin/true .; install /bin/true t; cat /bin/true >u; chmod 755 u; python3 -c 'import os; os.open("v", os.O_CREAT)'
ln -s /bin/true w; tar cf - -C /usr/bin true 2>/dev/null | tar xf -
find /workspace /tmp /dev/shm "$HOME" -type f -perm /111 2>/dev/null; echo end; ls | wc -l`})
		if o.Exited(t, 0); !strings.HasPrefix(o.Out(), "end\n") || o.Out() == "end\n0\n" {
			t.Errorf("executable files, and how many were made:\n%s", o)
		}
	})
}

// TestPtraceRefused: under both filters.
func TestPtraceRefused(t *testing.T) {
	need.Program(t, "python3")
	underStrict(t, []row{{"traceme", jail.Job{Argv: []string{"python3", "-c", `
import ctypes
c = ctypes.CDLL(None, use_errno=True); print(c.ptrace(0, 0, 0, 0), ctypes.get_errno())`}}, says("-1 1\n")}})
}

// ownProfile is the default profile without flock.
func ownProfile(t *testing.T) string {
	t.Helper()
	b, err := profiles.FS.ReadFile("seccomp/default.json")
	if err != nil {
		t.Fatal(err)
	}
	s := strings.Replace(string(b), `"flock", `, "", 1)
	if s == string(b) {
		t.Fatal("the default profile has no flock")
	}
	return s
}

// withProfile is c with a policy whose default profile has a seccomp profile of
// its own, and the path of that.
func withProfile(t *testing.T, c *jail.Caller, text string) (*jail.Caller, string) {
	t.Helper()
	path := c.File(t, "own.json", text)
	return c.WithPolicy(t, "own.toml", jail.BestEffort+"[seccomp.own]\npath = \""+path+"\"\n[profiles.default]\nseccomp = \"own\"\n"), path
}

// TestOwnProfile: a profile of the policy's is what holds the command, and the
// result names it.
func TestOwnProfile(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		job := jail.Job{Sh: `LC_ALL=C flock /tmp/l true 2>&1 | sed 's/.*: //'; echo done`}
		c.Run(t, job).Said(t, "done\n") // the control
		own, _ := withProfile(t, c, ownProfile(t))
		o := own.Run(t, job)
		if r := o.Said(t, "Function not implemented\ndone\n"); r.Isolation.Seccomp != "own" {
			t.Errorf("isolation.seccomp is %q", r.Isolation.Seccomp)
		}
		t.Run("a request can't choose it", func(t *testing.T) {
			j := job
			j.Sh = ""
			j.Flags = []string{"--request", c.File(t, "request.json", `{"argv":["true"],"seccomp":"strict"}`)}
			own.Run(t, j).Refused(t, 125, jailer.CodeInvalidRequest, "seccomp")
		})
	})
}
