package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/wire"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// ask connects to the socket in a directory that is open, as another user if uid is not
// 0, and gives the type of the answer and its document.
func ask(t *testing.T, dir *os.File, uid int, m *wire.Message) (wire.Type, []byte) {
	t.Helper()
	type answer struct {
		m   *wire.Message
		err error
	}
	got := make(chan answer, 1)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine, and nobody inherits its uid
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			got <- answer{nil, err}
			return
		}
		conn, err := wire.New(fd)
		if err != nil {
			got <- answer{nil, err}
			return
		}
		defer conn.Close()
		if uid != 0 { // of this thread alone: setuid(2), "C library/kernel differences"
			if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
				got <- answer{nil, e}
				return
			}
		}
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/ctl", dir.Fd())})
		if err == nil { // who is refused may be so before he has said anything
			if err = conn.Send(m); errors.Is(err, unix.EPIPE) {
				err = nil
			}
		}
		if err != nil {
			got <- answer{nil, err}
			return
		}
		_ = conn.ReceiveUntil(time.Now().Add(prompt))
		m, files, err := conn.Receive()
		wire.CloseAll(files)
		got <- answer{m, err}
	}()
	a := <-got
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.m.Type, a.m.Document
}

// The socket answers no stranger, even one who has got past every directory: the
// supervisor asks the kernel who connected (SO_PEERCRED, unix(7)).
func TestStrangersSocket(t *testing.T) {
	t.Parallel()
	need.Feature(t, "root", os.Geteuid() == 0, "takes root to be two users")
	c := jail.Root(t)
	create(t, c, "astray")
	p := start(t, c, "astray", "--", "sleep", "1000")
	priv := filepath.Join(c.StateDir(), "astray", "priv")
	dir, err := os.Open(priv)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for path, mode := range map[string]os.FileMode{priv: 0o711, filepath.Join(priv, "ctl"): 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	defer unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) // a change of uid takes it away
	hello := func(typ wire.Type) *wire.Message {
		return &wire.Message{V: wire.Version, Program: "library", Type: typ, Process: p.ID, Stream: "stdout", Signal: int(syscall.SIGKILL)}
	}
	for _, typ := range []wire.Type{wire.State, wire.List, wire.Logs, wire.Kill, wire.Stop, wire.Delete} {
		answer, doc := ask(t, dir, jail.UserID(), hello(typ))
		var e jailer.Error
		if err := json.Unmarshal(doc, &e); answer != wire.Error || err != nil || e.Code != jailer.CodeUnauthorized {
			t.Errorf("%s: a stranger is answered %s %s", typ, answer, doc)
		}
	}
	if answer, doc := ask(t, dir, 0, hello(wire.State)); answer != wire.Done {
		t.Errorf("its user is answered %s %s", answer, doc)
	}
	if list := ps(t, c, "astray"); len(list) != 1 || list[0].Status != "running" {
		t.Errorf("%+v", list)
	}
}

// 48: what is planted in the place of a session is never followed, and is nobody's to
// remove.
func TestPlanted(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		real := create(t, c, "real")
		for name, target := range map[string]string{"self": real.Bundle, "dangling": filepath.Join(c.Home, "nowhere")} {
			if err := os.Symlink(target, filepath.Join(c.StateDir(), name)); err != nil {
				t.Fatal(err)
			}
			fails(t, do(t, c, "create", "--id", name), 1, "a session with this id exists")
			for _, verb := range [][]string{{"state", name}, {"ps", name}, {"start", name, "--", "true"}, {"logs", name, "p1"}, {"stop", name, "p1"}, {"kill", name, "p1"}} {
				fails(t, do(t, c, verb...), 1)
			}
			fails(t, in(t, c, name, jail.Job{Raw: true, Argv: []string{"true"}}), 125)
			do(t, c, "delete", name) // whatever it says of it, the other one lives
			ok(t, do(t, c, "gc"))
			if to, err := os.Readlink(filepath.Join(c.StateDir(), name)); err != nil || to != target {
				t.Errorf("%s is %q, %v", name, to, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(c.Home, "nowhere")); err == nil {
			t.Error("made behind a link")
		}
		in(t, c, "real", jail.Job{Argv: []string{"echo", "alive"}}).Said(t, "alive\n")
		if s := c.States(t); !slices.Equal(s, []string{"real"}) {
			t.Errorf("%v", s)
		}
	})
}

// What is no id is refused by the library too; a NUL can't be given in an argv.
func TestLibraryIDs(t *testing.T) {
	t.Parallel()
	c := jail.Root(t)
	if os.Geteuid() != 0 {
		c = jail.User(t)
	}
	client := &jailer.Client{Path: jail.Program(), StateDir: c.StateDir()}
	for _, id := range []string{"a\x00b", "a\x00", "\x00", "..", "a/b", "A"} {
		if s, err := client.Create(t.Context(), jailer.Request{}, jailer.SessionOptions{ID: id}); err == nil {
			t.Errorf("%q: created %+v", id, s)
		}
		if s, err := client.Open(t.Context(), id); err == nil {
			t.Errorf("%q: opened %+v", id, s)
		}
	}
	if s := c.States(t); len(s) > 0 {
		t.Errorf("made %v", s)
	}
}
