package run

import (
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// What an ordinary program expects of a machine.
func TestPrograms(t *testing.T) {
	for _, p := range []string{"python3", "node", "git", "gcc"} {
		t.Run(p, func(t *testing.T) { programs(t, p) })
	}
}

func programs(t *testing.T, p string) {
	need.Program(t, p)
	py := func(code string) jail.Job { return jail.Job{Argv: []string{"python3", "-c", code}} }
	each(t, map[string][]row{
		"python3": {
			{"print", py("print(6*7)"), says("42\n")},
			{"46 locale", py(`print("é")`), says("é\n")},
			{"48 socketpair", py(`import socket;a,b=socket.socketpair();a.send(b"x");print(b.recv(1).decode())`), says("x\n")},
			{"48 unix socket", py(`
import socket, threading
s = socket.socket(socket.AF_UNIX); s.bind("/tmp/s"); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect("/tmp/s")
d, _ = s.accept(); d.send(b"x"); print(c.recv(1).decode())`), says("x\n")},
			{"48 forkserver", py(`
import multiprocessing as m
def f(): print("forked", flush=True)
if __name__ == "__main__":
    m.set_start_method("fork"); p = m.Process(target=f); p.start(); p.join(); print(p.exitcode)`), says("forked\n0\n")},
			{"49 loopback", py(`import socket;s=socket.socket();s.bind(("127.0.0.1",0));s.listen();socket.create_connection(s.getsockname());print("ok")`), says("ok\n")},
			{"49 loopback over IPv6", py(`
import socket
s = socket.socket(socket.AF_INET6)
try:
    s.bind(("::1", 0)); s.listen(); socket.create_connection(s.getsockname()[:2]); print("ok")
except OSError as e:
    print("ok" if e.errno == 99 and not open("/proc/net/if_inet6").read() else e)`), says("ok\n")},
			{"50 ENOSYS for what is unknown", py(`
import ctypes
c = ctypes.CDLL(None, use_errno=True)
for n in 9999, 435, 600:
    ctypes.set_errno(0); print(c.syscall(n, 0, 0, 0, 0), ctypes.get_errno())`), says("-1 38\n-1 38\n-1 38\n")},
			{"50 threads", py(`import threading;threading.Thread(target=print,args=("thread",)).start()`), says("thread\n")},
			{"47 names fail at once", py(`
import socket, time
b = time.time()
try: socket.getaddrinfo("example.com", 80); print("resolved")
except socket.gaierror: print("no", time.time() - b < 4)`), says("no True\n")},
			{"subprocess", py(`import subprocess;print(subprocess.run(["sh","-c","echo a|tr a b"],capture_output=True,text=True).stdout,end="")`), says("b\n")},
			{"45 venv", jail.Job{Sh: `python3 -m venv --without-pip /workspace/v && /workspace/v/bin/python -c 'import sys;print(sys.prefix)'`}, says("/workspace/v\n")},
		},
		"node": {
			{"print", jail.Job{Argv: []string{"node", "-e", "console.log(6*7)"}}, says("42\n")},
			{"48 spawnSync", jail.Job{Argv: []string{"node", "-e", `process.stdout.write(require("child_process").spawnSync("echo",["spawned"]).stdout)`}}, says("spawned\n")},
			{"48 server and client", jail.Job{Argv: []string{"node", "-e", `
const h = require("http"), s = h.createServer((q, r) => r.end("served\n"));
s.listen(0, "127.0.0.1", () => h.get({port: s.address().port, host: "127.0.0.1"}, r => r.on("data", d => process.stdout.write(d)).on("end", () => s.close())));`}}, says("served\n")},
		},
		"git": {
			{"44 no dubious ownership", jail.Job{Sh: `
git init -q . && git config user.email a@b && git config user.name a && echo x >f && git add f && git commit -qm m &&
git -C /workspace status --porcelain && git -C /workspace log --format=%s`}, says("m\n")},
			{"44 the workspace is the user's", jail.Job{Sh: `stat -c '%u %g' /workspace; touch /workspace/f && stat -c %U /workspace/f`}, says("1000 1000\njail\n")},
		},
		"gcc": {
			{"compile and run", jail.Job{Flags: []string{"--timeout", jail.Timeout(120 * time.Second)}, Sh: `
printf '#include <stdio.h>\nint main(void){printf("%%d\\n",6*7);return 0;}\n' >a.c && gcc a.c -o a && ./a`}, says("42\n")},
		},
	}[p])
}

func TestEnvironment(t *testing.T) {
	each(t, []row{
		{"43 name and home", jail.Job{Sh: `whoami; id -un; id -gn; cd ~ && pwd && touch a && echo ok`}, says("jail\njail\njail\n/home/jail\nok\n")},
		{"45 caches are writable", jail.Job{Sh: `
for d in "$HOME" "$XDG_CACHE_HOME" "$XDG_CONFIG_HOME" "$XDG_DATA_HOME" "$XDG_STATE_HOME" "$GOCACHE" "$npm_config_cache" "$PIP_CACHE_DIR" "$TMPDIR"; do
	mkdir -p "$d" && touch "$d/f" || echo "no: $d"
done; echo done`}, says("done\n")},
		{"46 locale and zone", jail.Job{Sh: `echo $LANG $TZ; date +%Z; cat /etc/localtime >/dev/null && echo there`}, says("C.UTF-8 UTC\nUTC\nthere\n")},
		{"40 open files", jail.Job{Sh: `ulimit -Sn; ulimit -Hn`}, says("1024\n4096\n")},
		{
			"52 nothing inherited",
			jail.Job{Sh: `env`, Env: []string{"FOO=1", "AWS_SECRET_ACCESS_KEY=x", "LD_PRELOAD=/nosuch.so"}},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				o.Exited(t, 0)
				for _, name := range []string{"FOO=", "AWS_", "LD_PRELOAD"} {
					if strings.Contains(o.Out()+o.ErrOut(), name) {
						t.Errorf("the job sees %s:\n%s", name, o)
					}
				}
			},
		},
		{"52 what is given", jail.Job{Flags: []string{"--env", "A=1,2 3", "--env", "B="}, Sh: `echo "$A|${B-unset}"`}, says("1,2 3|\n")},
		{"job counts follow --cpus", jail.Job{Flags: []string{"--cpus", "0.5"}, Sh: `echo $GOMAXPROCS $OMP_NUM_THREADS $CARGO_BUILD_JOBS; nproc`}, says("1 1 1\n1\n")},
		{"6 one id needs no helper", jail.Job{Argv: []string{"id", "-u"}, Env: []string{"PATH=/nonexistent"}}, says("1000\n")},
	})
}

func TestTools(t *testing.T) {
	each(t, []row{
		{
			"45 npm",
			jail.Job{Sh: `[ -x /usr/bin/npm ] || { echo none; exit; }; npm --version >/dev/null && echo ok; exit $?`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				o.Exited(t, 0)
				need.Feature(t, "npm", o.Out() != "none\n", "npm is not installed on this host")
				if o.Out() != "ok\n" || strings.Contains(o.ErrOut(), "EROFS") {
					t.Error(o)
				}
			},
		},
		{
			"45 go",
			jail.Job{Flags: []string{"--timeout", jail.Timeout(200 * time.Second), "--memory", "2G", "--pids", "512"}, Sh: `
go=/usr/local/go/bin/go; [ -x $go ] || { echo none; exit; }
$go env GOCACHE`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				need.Feature(t, "go", o.Out() != "none\n", "go is not in the host's /usr/local")
				o.Said(t, "/home/jail/.cache/go-build\n")
			},
		},
	})
}
