package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is a connection and the plain socket at its other end.
func pair(t testing.TB) (*Conn, int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(fds[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, fds[1]
}

// both is two connections, one end each.
func both(t testing.TB) (a, b *Conn) {
	t.Helper()
	a, fd := pair(t)
	b, err := New(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return a, b
}

// openFDs lists the descriptors of the process.
func openFDs(t testing.TB) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}

// quiet waits for as few descriptors as there were.
func quiet(t *testing.T, were int) {
	t.Helper()
	var are int
	for range 100 {
		if are = openFDs(t); are <= were {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d descriptors are open, %d were", are, were)
}

func TestRoundTrip(t *testing.T) {
	a, b := both(t)
	sent := &Message{
		V: Version, Program: "1.2", Type: Exec,
		Command: &Command{Request: []byte(`{"v":1}`), Stdin: true, Flags: &Flags{
			Argv: [][]byte{[]byte("a\xff"), {}}, Env: map[string][]byte{"K": []byte("\xfe")}, Limits: map[string]int64{"memory": 1 << 30},
			Capabilities: []string{},
		}},
		Data: bytes.Repeat([]byte{0, 0xff}, 500_000),
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		if err := a.Send(sent, r, w); err != nil {
			t.Error(err)
		}
		w.Close()
	}()
	got, files, err := b.Receive()
	if err != nil {
		t.Fatal(err)
	}
	defer CloseAll(files)
	if !reflect.DeepEqual(got, sent) {
		t.Errorf("got %+v", got)
	}
	if len(files) != 2 {
		t.Fatalf("%d files", len(files))
	}
	for _, f := range files {
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("a passed descriptor would be inherited: %v", err)
		}
	}
	if _, err := files[1].WriteString("x"); err != nil {
		t.Error(err)
	}
	files[1].Close()
	w.Close()
	if data, err := io.ReadAll(r); string(data) != "x" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	a.Close()
	if _, _, err := b.Receive(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// A message that comes byte by byte, its descriptor with the first.
func TestTorn(t *testing.T) {
	c, fd := pair(t)
	whole := append(frame([]byte(`{"type":"state"}`)), frame([]byte(`{"type":"ps","prune":true}`))...)
	go func() {
		defer unix.Close(fd)
		for i := range whole {
			var rights []byte
			if i == 0 {
				rights = unix.UnixRights(0)
			}
			if err := unix.Sendmsg(fd, whole[i:i+1], rights, nil, 0); err != nil {
				t.Error(err)
			}
		}
	}()
	m, files, err := c.Receive()
	if err != nil || m.Type != State || len(files) != 1 {
		t.Fatalf("%+v, %d files, %v", m, len(files), err)
	}
	CloseAll(files)
	if m, files, err = c.Receive(); err != nil || m.Type != List || !m.Prune || len(files) != 0 {
		t.Errorf("%+v, %d files, %v", m, len(files), err)
	}
}

func TestRefused(t *testing.T) {
	for _, row := range []struct {
		name, bytes string
		word        string
	}{
		{"cut in the length", "\x05\x00", "cut off"},
		{"cut in the body", "\x05\x00\x00\x00{", "cut off"},
		{"no body", "\x00\x00\x00\x00", "0 bytes"},
		{"longer than allowed", "\x01\x00\x40\x00", "4194305 bytes"},
		{"as long as can be", "\xff\xff\xff\xff", "4294967295 bytes"},
		{"no JSON", "\x05\x00\x00\x00hello", "invalid"},
		{"no object", "\x02\x00\x00\x0042", "cannot unmarshal"},
		{"no type", "\x02\x00\x00\x00{}", "without a type"},
		{"another protocol", "GET / HTTP/1.1\r\n\r\n", "bytes"},
		{"deep", string(frame([]byte(`{"type":"exec","document":` + strings.Repeat("[", 100_000)))), "depth"},
	} {
		t.Run(row.name, func(t *testing.T) {
			were := openFDs(t)
			c, fd := pair(t)
			if err := unix.Sendmsg(fd, []byte(row.bytes), unix.UnixRights(0, 1), nil, 0); err != nil {
				t.Fatal(err)
			}
			unix.Close(fd)
			m, files, err := c.Receive()
			if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), row.word) || m != nil || files != nil {
				t.Errorf("%+v, %d files, %v", m, len(files), err)
			}
			c.Close()
			quiet(t, were)
		})
	}
}

func TestTooManyFiles(t *testing.T) {
	for _, n := range []int{MaxFiles + 1, MaxFiles + 2, 100} {
		were := openFDs(t)
		c, fd := pair(t)
		fds := make([]int, n)
		if err := unix.Sendmsg(fd, frame([]byte(`{"type":"exec"}`)), unix.UnixRights(fds...), nil, 0); err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		if m, files, err := c.Receive(); !errors.Is(err, ErrProtocol) || m != nil || files != nil {
			t.Errorf("%d descriptors: %+v, %d files, %v", n, m, len(files), err)
		}
		c.Close()
		quiet(t, were)
	}
}

// Descriptors beside a later byte than a message's first don't get in.
func TestLateFiles(t *testing.T) {
	were := openFDs(t)
	c, fd := pair(t)
	b := frame([]byte(`{"type":"state"}`))
	for _, part := range [][]byte{b[:6], b[6:]} {
		if err := unix.Sendmsg(fd, part, unix.UnixRights(0), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	m, files, err := c.Receive()
	if err != nil || m.Type != State || len(files) != 1 {
		t.Errorf("%+v, %d files, %v", m, len(files), err)
	}
	CloseAll(files)
	unix.Close(fd)
	c.Close()
	quiet(t, were)
}

func TestSendRefuses(t *testing.T) {
	a, _ := both(t)
	if err := a.Send(&Message{Type: Data, Data: make([]byte, MaxMessage)}); err == nil || !strings.Contains(err.Error(), "allowed") {
		t.Errorf("too long: %v", err)
	}
	if err := a.Send(&Message{Type: Exec}, make([]*os.File, MaxFiles+1)...); err == nil || !strings.Contains(err.Error(), "allowed") {
		t.Errorf("too many descriptors: %v", err)
	}
}

// Many senders at once: each message is whole.
func TestWritersDontMix(t *testing.T) {
	a, b := both(t)
	const senders, each = 8, 50
	var work sync.WaitGroup
	for n := range senders {
		work.Go(func() {
			for range each {
				if err := a.Send(&Message{Type: Data, Lost: int64(n), Data: bytes.Repeat([]byte{byte(n)}, 10_000)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range senders * each {
		m, _, err := b.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Data) != 10_000 || bytes.Count(m.Data, []byte{byte(m.Lost)}) != 10_000 {
			t.Fatal("two messages in one")
		}
	}
	work.Wait()
}

// A peer that doesn't read holds a sender up for so long and no longer.
func TestSendWithin(t *testing.T) {
	a, _ := both(t)
	a.SendWithin(100 * time.Millisecond)
	m := &Message{Type: Data, Data: make([]byte, 1<<20)}
	began := time.Now()
	if err := a.Send(m); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took < 100*time.Millisecond || took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// A peer that says nothing, or stops in the middle of a message, is not waited for.
func TestReceiveUntil(t *testing.T) {
	for _, said := range []string{"", "\x05\x00\x00\x00{"} {
		c, fd := pair(t)
		defer unix.Close(fd)
		if _, err := unix.Write(fd, []byte(said)); err != nil {
			t.Fatal(err)
		}
		if err := c.ReceiveUntil(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %q: %v", said, err)
		}
	}
}

func TestPeerGone(t *testing.T) {
	a, b := both(t)
	b.Close()
	if err := a.Send(&Message{Type: State}); !errors.Is(err, unix.EPIPE) {
		t.Errorf("%v", err)
	}
}

func TestSocket(t *testing.T) {
	// A path much longer than 108 bytes.
	dir := t.TempDir()
	for range 4 {
		dir = filepath.Join(dir, strings.Repeat("d", 60))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Dial(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a socket: %v", err)
	}
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Lstat(filepath.Join(dir, Name))
	if err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if _, err := Listen(dir); err == nil {
		t.Error("a second supervisor took the socket over")
	}
	accepted := make(chan *Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
		if _, err := l.Accept(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		close(accepted)
	}()
	c, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := <-accepted
	defer s.Close()
	for _, end := range []*Conn{c, s} {
		cred, err := end.Peer()
		if err != nil || int(cred.Uid) != os.Geteuid() || int(cred.Pid) != os.Getpid() {
			t.Errorf("%+v, %v", cred, err)
		}
	}
	l.Close()
	<-accepted
	if _, err := Dial(dir); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("when nobody listens: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(link); err == nil {
		t.Error("followed a link")
	}
}

// FuzzReceive: whatever comes, Receive ends, keeps no descriptor that it doesn't give,
// and gives no more memory than the bytes are worth.
func FuzzReceive(f *testing.F) {
	for _, s := range []string{"", "{}", `{"v":1,"type":"exec","command":{"stdin":true}}`, `{"type":"data","data":"!"}`, `{"type":1}`, "[", `{"signal":9e99}`} {
		f.Add(frame([]byte(s)))
	}
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Add([]byte("\x00\x00\x40\x00{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 100_000 {
			return // the socket's buffer, which nobody empties meanwhile
		}
		c, fd := pair(t)
		defer c.Close()
		if len(b) > 0 {
			if err := unix.Sendmsg(fd, b, unix.UnixRights(0), nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		unix.Close(fd)
		for n := 0; ; n++ {
			m, files, err := c.Receive()
			if err != nil {
				if m != nil || files != nil {
					t.Error("something beside an error")
				}
				return
			}
			if m.Type == "" || len(files) > 1 || n > 0 && len(files) > 0 {
				t.Errorf("%+v, %d files", m, len(files))
			}
			CloseAll(files)
			size := binary.LittleEndian.Uint32(b)
			if size == 0 || size > MaxMessage {
				t.Errorf("took a message of %d bytes", size)
			}
			b = b[4+size:]
		}
	})
}
