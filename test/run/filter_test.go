//go:build seccomp

package run

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/profiles"
	"github.com/jailer-project/jailer/seccomp"
	"github.com/jailer-project/jailer/seccomp/bpf"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// TestFilterLoaded reads the filter of a running command out of the kernel: it is
// byte for byte what the profile compiles to, and the only one.
func TestFilterLoaded(t *testing.T) {
	need.Root(t)
	t.Parallel()
	for i, name := range []string{"default", "strict", "own"} {
		t.Run(name, func(t *testing.T) {
			text := ownProfile(t)
			if name != "own" {
				b, err := profiles.FS.ReadFile("seccomp/" + name + ".json")
				if err != nil {
					t.Fatal(err)
				}
				text = string(b)
			}
			p, err := seccomp.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			want, err := bpf.Compile(p, runtime.GOARCH)
			if err != nil {
				t.Fatal(err)
			}
			jail.Each(t, func(t *testing.T, c *jail.Caller) {
				c, _ = withProfile(t, c, ownProfile(t))
				if name != "own" {
					c = c.WithPolicy(t, name+".toml", jail.BestEffort+"[profiles.default]\nseccomp = \""+name+"\"\n")
				}
				mark := marked(70 + 2*i + c.UID%2)
				l := start(t, c, nil, "echo ready; exec sleep "+mark)
				defer l.end(t)
				defer l.cmd.Process.Signal(unix.SIGTERM)
				var pids []jail.Process
				if !jail.Eventually(prompt, func() bool { pids = jail.Living(t, jail.Marked(mark)); return len(pids) == 1 }) {
					t.Fatalf("processes %v, want one", pids)
				}
				got := loaded(t, pids[0].PID, 0)
				if !bytes.Equal(got, want) {
					t.Errorf("the kernel has %d bytes of filter, the profile compiles to %d", len(got), len(want))
				}
				if second := loaded(t, pids[0].PID, 1); second != nil {
					t.Errorf("there is a second filter, of %d bytes", len(second))
				}
			})
		})
	}
}

// loaded gives a process's filter, nil if it has no such: ptrace(2),
// PTRACE_SECCOMP_GET_FILTER, for which the kernel wants CAP_SYS_ADMIN.
func loaded(t *testing.T, pid, index int) []byte {
	t.Helper()
	const getFilter = 0x420c
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceAttach(pid); err != nil {
		t.Fatalf("attach: %v", err)
	}
	defer unix.PtraceDetach(pid)
	if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
		t.Fatal(err)
	}
	n, _, e := unix.Syscall6(unix.SYS_PTRACE, getFilter, uintptr(pid), uintptr(index), 0, 0, 0)
	if errors.Is(e, unix.ENOENT) {
		return nil
	}
	need.Feature(t, "checkpoint-restore", e == 0, "this kernel doesn't show filters: "+e.Error())
	code := make([]byte, n*8)
	if _, _, e := unix.Syscall6(unix.SYS_PTRACE, getFilter, uintptr(pid), uintptr(index), uintptr(unsafe.Pointer(&code[0])), 0, 0); e != 0 {
		t.Fatal(e)
	}
	return code
}
