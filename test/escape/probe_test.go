package escape

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/test/need"
)

// TestReachable: of every call, socket family, foreign ABI and path that
// untrusted code has no need of, nothing is reachable, and each is refused by the
// defence that is meant to.
func TestReachable(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		inside, outside := c.attacks(t)
		proven, refused := 0, 0
		for _, name := range slices.Sorted(maps.Keys(inside)) {
			a, o := inside[name], outside[name]
			if a.verdict == "" {
				continue // a sum
			}
			if a.verdict != "denied" {
				t.Errorf("%s: %s %s %s (outside: %s %s)", name, a.result, a.errno, a.verdict, o.result, o.errno)
				continue
			}
			// A refusal proves something where the same attempt outside ends otherwise.
			refused++
			if a.result != o.result || a.errno != o.errno {
				proven++
			}
		}
		if n := inside["reachable"].result; n != "0" {
			t.Errorf("reachable %s, want 0", n)
		}
		t.Logf("%d attacks refused; %d of them end otherwise outside", refused, proven)
		if proven < 150 {
			t.Errorf("only %d refusals differ from those outside", proven)
		}
		for _, name := range []string{
			"io_uring_setup", "clone3", "keyctl", "add_key", "bpf", "perf_event_open", "userfaultfd",
			"ptrace-traceme", "process_vm_readv", "open_by_handle_at", "fsconfig", "unshare-nothing",
			"clone-user", "clone-user-high-bits", "unshare-user", "ioctl-TIOCSTI", "ioctl-TIOCSTI-high-bits",
			"socket-AF_ALG", "socket-AF_VSOCK", "socket-AF_VSOCK-high-bits", "socket-NETLINK-6",
			"socket-NETLINK-6-high-bits", "prlimit64-pid1", "sched_setattr-pid1",
			"personality-no-randomize", "mknod-char-bad-path", "read:/proc/interrupts",
		} {
			t.Run("shown/"+name, func(t *testing.T) {
				a, o := inside[name], outside[name]
				if a.verdict == "" {
					t.Fatal("the probe has no such attack")
				}
				need.Feature(t, "control:"+name, a.result != o.result || a.errno != o.errno,
					fmt.Sprintf("outside a jail it is %s %s as well", o.result, o.errno))
			})
		}
	})
}

// TestForeignABI: a filter that knows one ABI only must not let another pass.
func TestForeignABI(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		inside, outside := c.attacks(t)
		for _, abi := range []string{"int80", "x32"} {
			t.Run(abi, func(t *testing.T) {
				o := outside[abi+"-getpid"]
				need.Feature(t, abi, o.errno == "-", "this kernel answers "+o.errno+" to it outside a jail")
				if a := inside[abi+"-getpid"]; a.errno != "SIGSYS" {
					t.Errorf("getpid by %s: %v, want SIGSYS", abi, a)
				}
			})
		}
	})
}

// A whole 32-bit program, and one that installs a filter of its own.
func TestPrograms(t *testing.T) {
	callers(t, func(t *testing.T, c caller) {
		t.Run("386", func(t *testing.T) {
			bin := build386(t)
			f, err := os.Open(bin)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r := c.run(t, job{stdin: f, argv: []string{"/bin/sh", "-c", "cat >/tmp/x && chmod 755 /tmp/x && exec /tmp/x"}})
			if r.Status != "signaled" || r.Signal == nil || *r.Signal != "SIGSYS" || strings.Contains(r.Stdout, "RAN") {
				t.Errorf("a 386 program: %v, want SIGSYS", r)
			}
		})
		t.Run("nested filter", func(t *testing.T) {
			if r := c.probe(t, nil, "--nest"); r.Stdout != "EDOM\nEPERM\n" {
				t.Errorf("%v, want EDOM (its own) and EPERM (the jail's)", r)
			}
		})
	})
}
