package session

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jailer-project/jailer/test/jail"
)

// A state directory may have any length, though the socket of a session in it has a
// path that no socket address can hold.
func TestLongStateDir(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		const bytes = 200
		far := *c
		far.Home = filepath.Join(c.Home, strings.Repeat("x", bytes-len("/state")-len(c.Home)-1))
		if err := os.Mkdir(far.Home, 0o711); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(far.Home, c.UID, c.UID); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(far.StateDir()); n != bytes {
			t.Fatalf("%d bytes", n)
		}
		create(t, &far, "far")
		socket := filepath.Join(far.StateDir(), "far", "priv", "ctl")
		if i, err := os.Lstat(socket); err != nil || i.Mode().Type() != os.ModeSocket {
			t.Fatalf("%v, %v", i, err)
		}
		if _, err := net.Dial("unix", socket); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v: is the path too long for an address?", err)
		}
		in(t, &far, "far", jail.Job{Sh: "echo one > /workspace/file"}).Exited(t, 0)
		in(t, &far, "far", jail.Job{Argv: []string{"cat", "/workspace/file"}}).Said(t, "one\n")
		ok(t, do(t, &far, "start", "far", "--", "sleep", "100"))
		if s := look(t, &far, "far"); s.Status != "running" || s.Bundle != far.StateDir()+"/far" || len(s.Processes) != 1 {
			t.Errorf("%+v", s)
		}
		ok(t, do(t, &far, "delete", "far"))
		far.NothingLeft(t, "far")
		destroyed(t, &far, "far", "requested")
	})
}
