package netns

import (
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

func TestCheckInterfaces(t *testing.T) {
	lo := net.Interface{Name: "lo", Flags: net.FlagUp | net.FlagLoopback}
	for _, tc := range []struct {
		name string
		in   []net.Interface
		want error
	}{
		{"lo up", []net.Interface{lo}, nil},
		{"nothing", nil, ErrLoopback},
		{"lo down", []net.Interface{{Name: "lo", Flags: net.FlagLoopback}}, ErrLoopback},
		{"something called lo", []net.Interface{{Name: "lo", Flags: net.FlagUp}}, ErrInterface},
		{"eth0 down", []net.Interface{lo, {Name: "eth0"}}, ErrInterface},
		{"eth0 up", []net.Interface{{Name: "eth0", Flags: net.FlagUp}, lo}, ErrInterface},
		{"fallback tunnel", []net.Interface{lo, {Name: "sit0"}}, nil},
		{"fallback tunnel up", []net.Interface{lo, {Name: "sit0", Flags: net.FlagUp}}, ErrInterface},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := check(tc.in); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// inside runs f on a thread in a new network namespace and throws both away.
func inside(t *testing.T, f func()) {
	t.Helper()
	need.Root(t)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("unshare: %v", err)
	}
}

func TestCheckInside(t *testing.T) {
	inside(t, func() {
		if err := Check(); !errors.Is(err, ErrLoopback) {
			t.Errorf("new namespace: %v, want %v", err, ErrLoopback)
		}
		if err := raise("lo"); err != nil {
			t.Errorf("raise lo: %v", err)
			return
		}
		if err := Check(); err != nil {
			t.Errorf("with lo up: %v", err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Errorf("the loopback is dead: %v", err)
			return
		}
		defer l.Close()
		c, err := net.DialTimeout("tcp", l.Addr().String(), need.Time(10*time.Second))
		if err != nil {
			t.Errorf("the loopback is dead: %v", err)
			return
		}
		c.Close()
	})
}

// The control: a namespace with a way out must not pass.
func TestCheckOutside(t *testing.T) {
	inside(t, func() {
		if err := raise("lo"); err != nil {
			t.Errorf("raise lo: %v", err)
			return
		}
		// An address besides the loopback's and a route out over lo.
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		ifr, _ := unix.NewIfreq("lo")
		ifr.SetInet4Addr([]byte{192, 0, 2, 7})
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, ifr); err != nil {
			t.Errorf("set address: %v", err)
			return
		}
		if err := Check(); !errors.Is(err, ErrRoute) {
			t.Errorf("with a route: %v, want %v", err, ErrRoute)
		}
	})
}

func raise(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
