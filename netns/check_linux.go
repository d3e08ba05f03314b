package netns

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
)

// fallback are the devices that some kernel modules put, down, into each new
// network namespace unless net.core.fb_tunnels_only_for_init_net says otherwise
// (Documentation/admin-guide/sysctl/net.rst). Nobody without CAP_NET_ADMIN can
// raise them.
var fallback = []string{
	"tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip_vti0",
	"ip6tnl0", "ip6gre0", "ip6_vti0",
}

// The errors of Check.
var (
	ErrInterface = errors.New("an interface besides lo")
	ErrLoopback  = errors.New("lo is not up")
	ErrRoute     = errors.New("a route out")
)

// Check reports how the network namespace of the calling thread differs from
// None. Run it inside, on a locked thread. It sends nothing.
func Check() error {
	all, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	if err := check(all); err != nil {
		return err
	}
	return unreachable()
}

func check(all []net.Interface) error {
	up := false
	for _, i := range all {
		switch on := i.Flags&net.FlagUp != 0; {
		case i.Name == "lo" && i.Flags&net.FlagLoopback != 0:
			up = on
		case on || !slices.Contains(fallback, i.Name):
			return fmt.Errorf("%w: %q", ErrInterface, i.Name)
		}
	}
	if !up {
		return ErrLoopback
	}
	return nil
}

// unreachable connects a UDP socket, which looks up the route and sends no
// packet, to addresses kept for documentation (RFC 5737, RFC 3849).
func unreachable() error {
	for _, to := range []struct {
		family int
		addr   syscall.Sockaddr
		name   string
	}{
		{syscall.AF_INET, &syscall.SockaddrInet4{Port: 9, Addr: [4]byte{192, 0, 2, 1}}, "192.0.2.1"},
		{syscall.AF_INET6, &syscall.SockaddrInet6{Port: 9, Addr: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}}, "2001:db8::1"},
	} {
		fd, err := syscall.Socket(to.family, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
		if errors.Is(err, syscall.EAFNOSUPPORT) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return fmt.Errorf("socket for %s: %w", to.name, err)
		}
		err = syscall.Connect(fd, to.addr)
		syscall.Close(fd)
		switch {
		case err == nil:
			return fmt.Errorf("%w: to %s", ErrRoute, to.name)
		case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		default:
			return fmt.Errorf("connect to %s: %w, want ENETUNREACH", to.name, err)
		}
	}
	return nil
}
