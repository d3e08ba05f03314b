//go:build seccomp

package bpf

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/jailer-project/jailer/seccomp"
	"github.com/jailer-project/jailer/test/need"
	"golang.org/x/sys/unix"
)

// underFilter makes the test binary a launcher that loads the filter and execs
// its arguments.
const underFilter = "JAILER_TEST_UNDER_FILTER"

func TestMain(m *testing.M) {
	if os.Getenv(underFilter) != "" {
		os.Unsetenv(underFilter)
		fmt.Fprintln(os.Stderr, "under filter:", loadAndExec(os.Args[1:]))
		os.Exit(99)
	}
	os.Exit(m.Run())
}

// loadAndExec confines this thread and makes it the whole process by execve.
func loadAndExec(argv []string) error {
	runtime.LockOSThread()
	p, err := seccomp.Load("default")
	if err != nil {
		return err
	}
	code, err := Compile(p, runtime.GOARCH)
	if err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(code) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&code[0]))}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return fmt.Errorf("seccomp: %w", e)
	}
	return syscall.Exec(argv[0], argv, os.Environ())
}

// confined runs a command on this host with nothing but the filter in its way.
func confined(t *testing.T, dir string, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), need.Time(2*time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", argv...)
	cmd.WaitDelay = need.Time(time.Second) // a stray grandchild holding the pipe is no reason to hang
	cmd.Dir = dir
	cache, err := os.UserCacheDir() // Go's, so that the standard library need not be built
	if err != nil {
		cache = dir
	}
	cmd.Env = []string{
		underFilter + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "LANG=C.UTF-8",
		"GOCACHE=" + filepath.Join(cache, "go-build"), "GOTOOLCHAIN=local",
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

func buildProbe(t *testing.T) string {
	t.Helper()
	gcc := need.Program(t, "gcc")
	bin := filepath.Join(t.TempDir(), "probe")
	if out, err := exec.CommandContext(t.Context(), gcc, "-O1", "-pthread", "-o", bin, "testdata/probe.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// TestKernelAgrees loads the filter into this kernel and wants the filter's own
// errno for each probe. The control runs the same probe without it.
func TestKernelAgrees(t *testing.T) {
	bin := buildProbe(t)
	want := map[string]string{
		"nr-9999": "38", "nr-1000": "38", "clone3": "38", "io_uring_setup": "38", "socket-alg": "1", "socket-vsock": "1", "socket-packet": "1",
		"socket-high": "1", "socket-xfrm": "1", "socket-audit": "22", "socket-route": "0", "socket-unix": "0", "socket-inet": "0", "tiocsti-high": "1",
		"keyctl": "1", "bpf": "1", "unshare": "1", "ptrace": "1", "personality-read": "0", "personality-norandom": "1", "prlimit-pid1": "1",
		"prlimit-self": "0", "clone-newuser": "1", "pthread": "0", "fork": "0",
	}
	read := func(out string) map[string]string {
		got := map[string]string{}
		for line := range strings.Lines(out) {
			name, errno, _ := strings.Cut(strings.TrimSpace(line), " ")
			got[name] = errno
		}
		return got
	}
	out, err := confined(t, t.TempDir(), bin)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := read(out)
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: errno %q, want %s", name, got[name], w)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), need.Time(20*time.Second))
	defer cancel()
	unfiltered := exec.CommandContext(ctx, bin)
	unfiltered.WaitDelay = need.Time(time.Second)
	control, err := unfiltered.CombinedOutput()
	if err != nil {
		t.Fatalf("control: %v\n%s", err, control)
	}
	// These work, or fail in another way, without a filter on any kernel.
	free := read(string(control))
	for _, name := range []string{"unshare", "clone3", "tiocsti-high", "personality-norandom", "ptrace"} {
		if free[name] == "" || free[name] == got[name] {
			t.Errorf("control: %s gives errno %s without the filter as well", name, free[name])
		}
	}
}

// TestForeignABIDies calls through int 0x80 and with an x32 number. A kernel
// built without the ABI kills in its own way before the filter is asked, or
// shows it another number; the control says so.
func TestForeignABIDies(t *testing.T) {
	need.Feature(t, "amd64", runtime.GOARCH == "amd64", "int 0x80 and x32 numbers are x86-64's")
	bin := buildProbe(t)
	for _, abi := range []string{"i386", "x32"} {
		t.Run(abi, func(t *testing.T) {
			if abi == "i386" {
				control := exec.CommandContext(t.Context(), bin, abi).Run()
				need.Feature(t, "i386-abi", control == nil, "this kernel has no int 0x80: TestForeignABI covers it over records")
			}
			out, err := confined(t, t.TempDir(), bin, abi)
			ee, ok := err.(*exec.ExitError)
			if !ok || ee.Sys().(syscall.WaitStatus).Signal() != unix.SIGSYS {
				t.Errorf("%v, want SIGSYS\n%s", err, out)
			}
		})
	}
}

// TestOrdinaryPrograms runs what people run.
func TestOrdinaryPrograms(t *testing.T) {
	const python = `
import threading, multiprocessing, subprocess, socket, tempfile, os, mmap, ssl, asyncio, signal
def square(x): return x*x
if __name__ == "__main__":
    r=[]; ts=[threading.Thread(target=lambda i=i: r.append(i)) for i in range(8)]
    [t.start() for t in ts]; [t.join() for t in ts]; assert len(r)==8
    with multiprocessing.Pool(2) as p: assert p.map(square,[1,2,3])==[1,4,9]
    assert subprocess.check_output(["sh","-c","echo hi"])==b"hi\n"
    s=socket.create_server(("127.0.0.1",0)); c=socket.create_connection(s.getsockname()); c.close(); s.close()
    socket.getaddrinfo("localhost",80); socket.if_nameindex()
    a,b=socket.socketpair(); a.send(b"x"); assert b.recv(1)==b"x"
    try: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET); raise SystemExit("AF_ALG")
    except PermissionError: pass
    os.mkfifo("fifo"); os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1)
    asyncio.run(asyncio.sleep(0.01)); os.getrandom(4); os.memfd_create("x")
    print(6*7)
`
	const node = `
const {Worker}=require('worker_threads'),fs=require('fs'),http=require('http'),cp=require('child_process');
fs.watch('.').close(); fs.copyFileSync(process.argv[1],'copy.js');
new Worker('require("worker_threads").parentPort.postMessage(6)',{eval:true}).on('message',n=>{
 const s=http.createServer((q,a)=>a.end('7')).listen(0,'127.0.0.1',()=>http.get({port:s.address().port,host:'127.0.0.1'},r=>r.on('data',d=>{
  console.log(n*Number(d)); cp.execFileSync('true'); s.close(); process.exit(0)})))});
`
	const c = `
#include <stdio.h>
#include <pthread.h>
static void *f(void *p) { *(int *)p += 2; return p; }
int main(void) { int x = 40; pthread_t t; if (pthread_create(&t, 0, f, &x)) return 1; pthread_join(t, 0); printf("%d\n", x); return 0; }
`
	const goProg = `package main

import ("fmt"; "net"; "os/exec")

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0"); if err != nil { panic(err) }
	go func() { c, _ := l.Accept(); c.Write([]byte{42}); c.Close() }()
	c, err := net.Dial("tcp", l.Addr().String()); if err != nil { panic(err) }
	b := make([]byte, 1); c.Read(b)
	if err := exec.Command("true").Run(); err != nil { panic(err) }
	if _, err := net.Interfaces(); err != nil { panic(err) }
	fmt.Println(b[0])
}
`
	const java = `public class A { public static void main(String[] a) throws Exception { var t = new Thread(() -> {}); t.start(); t.join();
 new ProcessBuilder("true").start().waitFor(); System.out.println(6 * 7); } }`
	for _, c := range []struct {
		name, program, file, text string
		argv                      []string
	}{
		{"python3", "python3", "a.py", python, []string{"a.py"}},
		{"node", "node", "a.js", node, []string{"a.js"}},
		{"gcc", "gcc", "a.c", c, []string{"-c", `gcc -pthread -o a a.c && ./a`}},
		{"go", "go", "a.go", goProg, []string{"-c", `go build -o a a.go && ./a`}},
		{"java", "java", "A.java", java, []string{"A.java"}},
		{"git", "git", "run.sh", "", []string{"-c", `git init -q r && cd r && git config user.email a@b && git config user.name n && echo 1 > f && git add f &&
			git commit -qm m && git gc -q && git clone -q . ../r2 && cat ../r2/f >/dev/null && git -C ../r2 log --oneline | wc -l | sed s/1/42/`}},
		{"pipeline", "sh", "run.sh", "", []string{"-c", `seq 1 1000 | sort -n | awk '{s+=$1} END {print s}' | sed s/500500/42/ > o; tar cf - o | tar xf - -O | cat;
			mkfifo p; (echo x > p &) ; cat p >/dev/null; nice -n 5 true; ls -l / | wc -l >/dev/null; cp -a o o2; touch o2; ln -s o l; flock o true; timeout 5 true`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := "/bin/sh"
			if c.program != "go" { // go test itself ran through go, from wherever it is
				path = need.Program(t, c.program)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			if c.argv[0] == "-c" {
				path = "/bin/sh"
			}
			out, err := confined(t, dir, append([]string{path}, c.argv...)...)
			if err != nil || strings.TrimSpace(out) != "42" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
