package session

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/boottime"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/wire"
	"github.com/jailer-project/jailer/policy"
)

func TestOCIVersion(t *testing.T) {
	if ociVersion != specs.Version {
		t.Errorf("%s, the specification is %s", ociVersion, specs.Version)
	}
}

// The session's own ends.
func TestEnds(t *testing.T) {
	slack := long
	t.Run("ttl", func(t *testing.T) {
		t.Parallel()
		b := supervise(t, func(j *fakeJail, _ *Options) { j.plan.Limits.TTL = 300 * time.Millisecond })
		ch := b.begin(t, launch.Options{Overrides: policy.Overrides{Argv: []string{"forever"}}}) // it doesn't count
		b.ended(t, audit.TTL, 100*time.Millisecond, slack)
		if a := wait(t, ch); a.err != nil || a.out.Result.Status != jailer.StatusAborted {
			t.Errorf("%+v, %v", a.out, a.err)
		}
	})
	t.Run("ttl counts from the beginning", func(t *testing.T) {
		t.Parallel()
		b := supervise(t, func(j *fakeJail, o *Options) { j.plan.Limits.TTL, o.Began = time.Hour, boottime.Now()-time.Hour })
		b.ended(t, audit.TTL, 0, slack)
	})
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		b := supervise(t, func(j *fakeJail, _ *Options) { j.plan.Limits.Idle = 200 * time.Millisecond })
		b.ended(t, audit.Idle, 100*time.Millisecond, slack)
	})
	t.Run("a command is no idleness", func(t *testing.T) {
		t.Parallel()
		b := supervise(t, func(j *fakeJail, _ *Options) {
			j.plan.Limits.Idle = 200 * time.Millisecond
			j.commands["slow"] = forTime(time.Second)
		})
		began := time.Now()
		if _, err := b.run(t.Context(), "slow"); err != nil || time.Since(began) < time.Second {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		b.ended(t, audit.Idle, 100*time.Millisecond, slack) // and counts anew after it
	})
	t.Run("a process is", func(t *testing.T) {
		t.Parallel()
		b := supervise(t, func(j *fakeJail, _ *Options) { j.plan.Limits.Idle = 300 * time.Millisecond })
		if _, err := b.client.Start("one", ProcessRequest{Overrides: policy.Overrides{Argv: []string{"forever"}}}); err != nil {
			t.Fatal(err)
		}
		b.ended(t, audit.Idle, 0, slack)
	})
	t.Run("a client that doesn't take its output is", func(t *testing.T) {
		t.Parallel()
		b := supervise(t, func(j *fakeJail, _ *Options) { j.plan.Limits.Idle = 300 * time.Millisecond })
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		b.jail.set("much", say(strings.Repeat("x", 150_000)))                                            // two pipes and a buffer
		ch := b.begin(t, launch.Options{Overrides: policy.Overrides{Argv: []string{"much"}}, Stdout: w}) // nobody reads r
		b.ended(t, audit.Idle, 0, slack)
		w.Close()
		r.Close()
		wait(t, ch)
	})
	t.Run("owner", func(t *testing.T) {
		t.Parallel()
		gone := make(chan struct{})
		b := supervise(t, func(_ *fakeJail, o *Options) { o.Owner = gone })
		close(gone)
		b.ended(t, audit.OwnerExited, 0, slack)
	})
	t.Run("signal", func(t *testing.T) {
		t.Parallel()
		stop := make(chan struct{})
		b := supervise(t, func(_ *fakeJail, o *Options) { o.Stop = stop })
		close(stop)
		b.ended(t, audit.Requested, 0, slack)
	})
	t.Run("PID 1 killed", func(t *testing.T) {
		t.Parallel()
		b := supervise(t, nil)
		close(b.jail.done)
		b.ended(t, audit.Failed, 0, slack)
	})
}

func TestDelete(t *testing.T) {
	b := supervise(t, nil)
	ch := b.begin(t, launch.Options{Overrides: policy.Overrides{Argv: []string{"forever"}}})
	for range 2 { // the second finds nothing
		if err := b.client.Delete(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
	}
	if a := wait(t, ch); a.err != nil || a.out.Result.Status != jailer.StatusAborted {
		t.Errorf("%+v, %v", a.out, a.err)
	}
	b.ended(t, audit.Requested, 0, long)
	_, err := b.client.State("one")
	refused(t, err, jailer.CodeSessionNotFound)
	_, err = b.run(t.Context(), "true")
	refused(t, err, jailer.CodeSessionNotFound)
}

// Who deletes is told what could not be removed.
func TestDeleteFails(t *testing.T) {
	b := supervise(t, func(j *fakeJail, _ *Options) { j.leftover = errors.New("a process is stuck") })
	if err := b.client.Delete(t.Context(), "one"); err == nil || !strings.Contains(err.Error(), "stuck") {
		t.Errorf("%v", err)
	}
}

// What a dead supervisor leaves is removed; what is no session is refused.
func TestDeleteOthers(t *testing.T) {
	b := supervise(t, nil)
	// A supervisor that was killed lets go of the lock and leaves the rest.
	if _, err := b.client.Dir.Find("one"); err != nil {
		t.Fatal(err)
	}
	b.entry.Abandon()
	st, err := b.client.State("one")
	if err != nil || st.Status != jailer.SessionStopped {
		t.Errorf("%+v, %v", st, err)
	}
	_, err = b.run(t.Context(), "true")
	if e := refused(t, err, jailer.CodeInvalidState); !strings.Contains(e.Hint, "jailer delete one") {
		t.Errorf("hint %q", e.Hint)
	}
	if err := b.client.Delete(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(b.entry.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

func TestState(t *testing.T) {
	b := supervise(t, nil)
	look := func(want jailer.SessionStatus, commands int) State {
		t.Helper()
		st, err := b.client.State("one")
		if err != nil || st.Status != want || st.Commands == nil || *st.Commands != commands {
			t.Fatalf("%+v, %v; want %s with %d commands", st, err, want, commands)
		}
		return st
	}
	st := look(jailer.SessionCreated, 0)
	if st.OCIVersion == "" || st.ID != "one" || st.PID != 4242 || st.Bundle != b.entry.Path || st.Annotations["job"] != "7" ||
		st.ExpiresAt.Sub(st.CreatedAt) != time.Hour || st.IdleAfterMs != 3_600_000 || st.Processes == nil {
		t.Errorf("%+v", st)
	}
	ch := b.begin(t, launch.Options{Overrides: policy.Overrides{Argv: []string{"forever"}}})
	look(jailer.SessionRunning, 1)
	list, err := b.client.List()
	if err != nil || len(list) != 1 || list[0].ID != "one" || *list[0].Commands != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	select {
	case a := <-ch:
		t.Errorf("%+v, %v", a.out, a.err)
	default:
	}
}

// A stranger is a connection that no client made.
type stranger struct {
	*wire.Conn
	fd int // the same socket
}

// raw connects without a client.
func (b *bed) raw(t *testing.T) stranger {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: b.entry.Priv + "/" + wire.Name}); err != nil {
		t.Fatal(err)
	}
	same, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	c, err := wire.New(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); unix.Close(same) })
	return stranger{c, same}
}

// write sends bytes that no Conn would.
func (s stranger) write(t *testing.T, bytes string) {
	t.Helper()
	if _, err := unix.Write(s.fd, []byte(bytes)); err != nil {
		t.Error(err)
	}
}

// lives wants the supervisor to answer, soon.
func (b *bed) lives(t *testing.T) {
	t.Helper()
	began := time.Now()
	if out, err := b.run(t.Context(), "hello"); err != nil || out.Result.Stdout == nil || *out.Result.Stdout != "hello\n" {
		t.Fatalf("%+v, %v", out, err)
	}
	if took := time.Since(began); took > long/4 {
		t.Errorf("took %v", took)
	}
}

func TestOtherVersion(t *testing.T) {
	b := supervise(t, nil)
	c := b.raw(t)
	if err := c.Send(&wire.Message{V: 7, Program: "9.9", Type: wire.State}); err != nil {
		t.Fatal(err)
	}
	m, _, err := c.Receive()
	if err != nil || m.Type != wire.Error || m.V != wire.Version {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, word := range []string{"invalid_state", "version 1", "version 7", "server-1", "9.9"} {
		if !strings.Contains(string(m.Document), word) {
			t.Errorf("%s is without %q", m.Document, word)
		}
	}
	b.lives(t)
}

// A supervisor of another version is told from a broken one.
func TestOtherSupervisor(t *testing.T) {
	b := supervise(t, nil)
	b.server.l.Close()
	if err := os.Remove(b.entry.Priv + "/" + wire.Name); err != nil {
		t.Fatal(err)
	}
	l, err := wire.Listen(b.entry.Priv)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _, _ = c.Receive()
		_ = c.Send(&wire.Message{V: 2, Program: "3.0", Type: wire.Done})
	}()
	_, err = b.client.State("one")
	e := refused(t, err, jailer.CodeInvalidState)
	for _, word := range []string{"version 1", "version 2", "client-1", "3.0"} {
		if !strings.Contains(e.Error(), word) {
			t.Errorf("%v is without %q", e, word)
		}
	}
}

// Bytes of a stranger, and messages that make no sense: each is answered or cut off,
// and the session goes on.
func TestHostileBytes(t *testing.T) {
	b := supervise(t, nil)
	framed := func(s string) string {
		return string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
	}
	for _, bytes := range []string{
		"GET / HTTP/1.0\r\n\r\n", "\x00\x00\x00\x00", "\xff\xff\xff\xff", framed("{}"), framed("[]"), framed("\xff"),
		framed(`{"v":1,"type":"nosuch"}`), framed(`{"v":1,"type":"exec"}`), framed(`{"v":1,"type":"start"}`),
		framed(`{"v":1,"type":"exec","command":{"tty":{"cols":0,"rows":0}}}`),
		framed(`{"v":1,"type":"exec","command":{}}`),
		framed(`{"v":1,"type":"start","command":{"flags":{"limits":{"memory":-1}}}}`),
		framed(`{"v":1,"type":"start","command":{"flags":{"limits":{"nosuch":1}}}}`),
		framed(`{"v":1,"type":"start","name":"../x","command":{"flags":{}}}`),
		framed(`{"v":1,"type":"start","name":"p1","command":{"flags":{}}}`),
		framed(`{"v":1,"type":"logs","process":"","stream":"stdout"}`),
		framed(`{"v":1,"type":"kill","process":"p1","signal":-9}`),
		framed(`{"v":1,"type":"stop","process":"p1","grace":-1}`),
		framed(`{"v":1,"type":"totals","output":{"stdout":-1}}`),
	} {
		c := b.raw(t)
		c.write(t, bytes)
		if err := unix.Shutdown(c.fd, unix.SHUT_WR); err != nil {
			t.Fatal(err)
		}
		if err := c.ReceiveUntil(time.Now().Add(long)); err != nil {
			t.Fatal(err)
		}
		if m, _, err := c.Receive(); err == nil && m.Type != wire.Error {
			t.Errorf("%.60q was answered with %+v", bytes, m)
		}
		if _, _, err := c.Receive(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.60q: the connection stays: %v", bytes, err)
		}
		c.Close()
	}
	b.lives(t)
}

// Descriptors that are no pipes, or too few or many of them, or pipes the wrong way
// round, start nothing; nothing of them stays open.
func TestHostileFiles(t *testing.T) {
	b := supervise(t, nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fifo := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	named, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	flags := &wire.Flags{Argv: [][]byte{[]byte("true")}}
	before := b.jail.n.Load()
	for _, row := range []struct {
		name  string
		stdin bool
		tty   *wire.Window
		files []*os.File
	}{
		{"none", false, nil, nil},
		{"one", false, nil, []*os.File{w}},
		{"three for two", false, nil, []*os.File{r, w, w}},
		{"two for three", true, nil, []*os.File{w, w}},
		{"some for a terminal", false, &wire.Window{Cols: 80, Rows: 24}, []*os.File{w, w}},
		{"a device", false, nil, []*os.File{null, w}},
		{"a named FIFO", false, nil, []*os.File{w, named}},
		{"reading ends", false, nil, []*os.File{r, r}},
		{"a writing end to read", true, nil, []*os.File{w, w, w}},
	} {
		c := b.raw(t)
		m := &wire.Message{V: wire.Version, Type: wire.Exec, Command: &wire.Command{Flags: flags, Stdin: row.stdin, TTY: row.tty}}
		if err := c.Send(m, row.files...); err != nil {
			t.Fatal(err)
		}
		m, _, err := c.Receive()
		if err != nil || m.Type != wire.Error || !strings.Contains(string(m.Document), "invalid_request") {
			t.Errorf("%s: %+v, %v", row.name, m, err)
		}
		c.Close()
	}
	if n := b.jail.n.Load(); n != before {
		t.Errorf("%d commands ran", n-before)
	}
	b.lives(t)
	w.Close()
	if err := r.SetReadDeadline(time.Now().Add(long)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("somebody holds the pipe: %v", err)
	}
}

// As many clients as there may be that say nothing, and one more: it is refused with
// the reason, those in the way are gone after a while, and neither the clock nor the
// end waits for any of them.
func TestSilentCrowd(t *testing.T) {
	b := supervise(t, func(j *fakeJail, _ *Options) { j.plan.Limits.Idle = 400 * time.Millisecond })
	for range maxClients {
		b.raw(t)
	}
	var err error
	for range 100 { // until all of them were taken in
		if _, err = b.client.State("one"); err != nil {
			break
		}
	}
	if e := refused(t, err, jailer.CodeSessionLimit); !e.Retryable {
		t.Error("not retryable")
	}
	b.ended(t, audit.Idle, 0, long)
}

func TestSilentClientsAreLetGo(t *testing.T) {
	b := supervise(t, nil)
	for range maxClients {
		b.raw(t)
	}
	end := time.Now().Add(long)
	for {
		_, err := b.client.State("one")
		if err == nil {
			break
		}
		refused(t, err, jailer.CodeSessionLimit)
		if time.Now().After(end) {
			t.Fatal("they are never let go")
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.lives(t)
}

// As many commands as there may be: one more is refused, and the session can be looked
// at and ended all the same.
func TestFullHouse(t *testing.T) {
	b := supervise(t, nil)
	var chs []<-chan answer
	for range maxBusy {
		chs = append(chs, b.begin(t, launch.Options{Overrides: policy.Overrides{Argv: []string{"forever"}}}))
	}
	_, err := b.run(t.Context(), "true")
	if e := refused(t, err, jailer.CodeSessionLimit); !e.Retryable {
		t.Error("not retryable")
	}
	if st, err := b.client.State("one"); err != nil || *st.Commands != maxBusy {
		t.Errorf("%+v, %v", st, err)
	}
	if err := b.client.Delete(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	for _, ch := range chs {
		if a := wait(t, ch); a.err != nil || a.out.Result.Status != jailer.StatusAborted {
			t.Errorf("%+v, %v", a.out, a.err)
		}
	}
}

// Clients that stop in the middle of everything, many at once.
func TestTornClients(t *testing.T) {
	b := supervise(t, nil)
	var work sync.WaitGroup
	for n := range 40 {
		c := b.raw(t)
		work.Go(func() {
			defer func() { c.Close(); unix.Shutdown(c.fd, unix.SHUT_RDWR) }()
			switch n % 4 {
			case 0:
				c.write(t, "\x40\x00")
			case 1:
				c.write(t, "\xff\xff\x0f\x00{")
			case 2:
				_ = c.Send(&wire.Message{V: wire.Version, Type: wire.State}) // and doesn't wait for the answer
			case 3:
				r, w, err := os.Pipe()
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.Send(&wire.Message{V: wire.Version, Type: wire.Exec, Command: &wire.Command{Flags: &wire.Flags{Argv: [][]byte{[]byte("forever")}}}}, w, w)
				r.Close()
				w.Close()
			}
		})
	}
	work.Wait()
	b.lives(t)
	// Commands of clients that are gone are aborted.
	end := time.Now().Add(long)
	for {
		st, err := b.client.State("one")
		if err == nil && *st.Commands == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v, %v", st, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
