package usermanager

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// D-Bus lets the sender choose; both architectures are little-endian.
var nativeOrder = binary.LittleEndian

// fullQueue makes a listener that never accepts and whose queue is full: a
// blocking connect(2) would wait for ever.
func fullQueue(b *bus) {
	l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { unix.Close(l) })
	addr := &unix.SockaddrUnix{Name: b.usual() + "/bus"}
	if err := errors.Join(unix.Bind(l, addr), unix.Listen(l, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { unix.Close(c) })
		if err := unix.Connect(c, addr); errors.Is(err, unix.EAGAIN) {
			return
		} else if err != nil {
			b.t.Fatal(err)
		}
	}
}
