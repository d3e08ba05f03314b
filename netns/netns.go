// Package netns describes the jail's network: a namespace of its own with a live
// loopback interface and no way out. It holds the plain data that the spec is
// built from, and the check that a namespace is what the data says.
//
// A new network namespace is more than a firewall: the host's abstract unix
// sockets are per namespace (CVE-2020-15257, containerd's shim), and so are the
// packet, netlink and vsock-like families that a filter might let through.
package netns

import "fmt"

// Mode is how a jail is connected.
type Mode string

// None is the only mode: a new namespace, loopback up, nothing else.
const None Mode = "none"

// Modes lists the modes that a policy may name.
func Modes() []Mode { return []Mode{None} }

// Network is the plain data of a mode.
type Network struct {
	New        bool     // a namespace made for this jail, never one that exists
	Interfaces []string // interfaces that are there and up
	Addresses  []string // their addresses, all on the loopback
}

// For returns the data of m. An unknown mode is an error, never the host's
// network; so is the empty one.
func For(m Mode) (Network, error) {
	if m != None {
		return Network{}, fmt.Errorf("network mode %q is unknown", m)
	}
	return Network{
		New:        true,
		Interfaces: []string{"lo"},
		Addresses:  []string{"127.0.0.1/8", "::1/128"},
	}, nil
}
