package usermanager

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/jailer-project/jailer/test/need"
)

// bus is a message bus with one client and the manager behind it.
type bus struct {
	t    *testing.T
	o    Options
	dir  string
	got  []string         // members that were called
	args []any            // of StartTransientUnit
	say  map[string]reply // what to answer to a member in place of the usual
}

// reply is what a call is answered with: an error's name, nothing, or a result.
type reply struct {
	errName string
	silent  bool
	result  string // of the job; "" = done
	elsewhere,
	flood,
	noSignal bool
}

// newBus listens where a user's bus would be.
func newBus(t *testing.T) *bus {
	dir := t.TempDir()
	b := &bus{t: t, dir: dir, say: map[string]reply{}}
	b.o = Options{
		uid: os.Geteuid(), runUser: filepath.Join(dir, "run"), proc: filepath.Join(dir, "proc"), Wait: 5 * time.Second,
	}
	for _, d := range []string{b.usual() + "/systemd", b.o.proc} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.at("/somewhere.scope")
	return b
}

func (b *bus) usual() string { return filepath.Join(b.dir, "run", strconv.Itoa(os.Geteuid())) }

// at puts the caller into a cgroup.
func (b *bus) at(path string) {
	if err := os.WriteFile(filepath.Join(b.o.proc, "cgroup"), []byte("0::"+path+"\n"), 0o600); err != nil {
		b.t.Error(err)
	}
}

// serve answers at dir/bus.
func (b *bus) serve(dir string, handle func(net.Conn)) {
	l, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	b.t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			handle(c)
			c.Close()
		}
	}()
}

// talk is the server's side of the D-Bus specification, as far as one client
// needs it.
func (b *bus) talk(c net.Conn) {
	in := bufio.NewReader(c)
	if n, err := in.ReadByte(); err != nil || n != 0 {
		return
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch f := strings.Fields(line); {
		case f[0] == "AUTH" && len(f) == 1:
			c.Write([]byte("REJECTED EXTERNAL\r\n"))
		case f[0] == "AUTH":
			c.Write([]byte("OK 0123456789abcdef0123456789abcdef\r\n"))
		case f[0] == "BEGIN":
			b.messages(c, in)
			return
		default:
			c.Write([]byte("ERROR\r\n"))
		}
	}
}

func (b *bus) messages(c net.Conn, in *bufio.Reader) {
	serial := uint32(0)
	send := func(typ dbus.Type, h map[dbus.HeaderField]dbus.Variant, body ...any) {
		serial++
		m := &dbus.Message{Type: typ, Headers: h, Body: body}
		if len(body) > 0 {
			h[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
		}
		var out bytes.Buffer
		if _, err := m.EncodeToWithFDs(&out, nativeOrder); err != nil {
			b.t.Error(err)
			return
		}
		wire := out.Bytes()
		nativeOrder.PutUint32(wire[8:], serial)
		c.Write(wire)
	}
	answer := func(to *dbus.Message, body ...any) {
		send(dbus.TypeMethodReply, map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(to.Serial()),
			dbus.FieldSender:      dbus.MakeVariant(manager), dbus.FieldDestination: dbus.MakeVariant(":1.7"),
		}, body...)
	}
	for {
		m, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		member, _ := m.Headers[dbus.FieldMember].Value().(string)
		b.got = append(b.got, member)
		how := b.say[member]
		if how.silent {
			continue
		}
		if how.flood {
			flood(c)
			return
		}
		if how.errName != "" {
			send(dbus.TypeError, map[dbus.HeaderField]dbus.Variant{
				dbus.FieldReplySerial: dbus.MakeVariant(m.Serial()), dbus.FieldErrorName: dbus.MakeVariant(how.errName),
				dbus.FieldSender: dbus.MakeVariant(manager), dbus.FieldDestination: dbus.MakeVariant(":1.7"),
			}, "no")
			continue
		}
		switch member {
		case "Hello":
			answer(m, ":1.7")
		case "StartTransientUnit":
			b.args = m.Body
			unit := m.Body[0].(string)
			job := dbus.ObjectPath("/org/freedesktop/systemd1/job/9")
			answer(m, job)
			if !how.elsewhere {
				b.at("/user.slice/app.slice/" + unit)
			}
			if how.noSignal {
				continue
			}
			if how.result == "" {
				how.result = "done"
			}
			for _, other := range []dbus.ObjectPath{"/org/freedesktop/systemd1/job/8", job} {
				result := how.result
				if other != job {
					result = "failed" // somebody else's
				}
				send(dbus.TypeSignal, map[dbus.HeaderField]dbus.Variant{
					dbus.FieldPath: dbus.MakeVariant(managerPath), dbus.FieldInterface: dbus.MakeVariant(managerFace),
					dbus.FieldMember: dbus.MakeVariant("JobRemoved"), dbus.FieldSender: dbus.MakeVariant(manager),
				}, uint32(9), other, unit, result)
			}
		default:
			answer(m)
		}
	}
}

func TestEnter(t *testing.T) {
	b := newBus(t)
	b.serve(b.usual(), b.talk)
	unit, err := Enter(b.o)
	if err != nil || !strings.HasPrefix(unit, "jailer-") || !strings.HasSuffix(unit, ".scope") {
		t.Fatalf("%q, %v", unit, err)
	}
	if want := []string{"Hello", "AddMatch", "Subscribe", "StartTransientUnit"}; !slices.Equal(b.got, want) {
		t.Errorf("called %v, want %v", b.got, want)
	}
	if b.args[0] != unit || b.args[1] != "fail" {
		t.Errorf("asked for %v", b.args)
	}
	got := map[string]any{}
	for _, p := range b.args[2].([][]any) {
		got[p[0].(string)] = p[1].(dbus.Variant).Value()
	}
	if pids, ok := got["PIDs"].([]uint32); !ok || !slices.Equal(pids, []uint32{0}) {
		t.Errorf("PIDs %v", got["PIDs"])
	}
	if got["Delegate"] != true || got["CollectMode"] != "inactive-or-failed" {
		t.Errorf("properties %v", got)
	}
	if again, err := Enter(b.o); err != nil || again == unit {
		t.Errorf("a second time: %q, %v", again, err)
	}
}

// The variable comes first, but one that leads nowhere is no dead end.
func TestRuntimeDir(t *testing.T) {
	for _, dir := range []string{"", "relative", "/nonexistent"} {
		b := newBus(t)
		b.o.RuntimeDir = dir
		b.serve(b.usual(), b.talk)
		if _, err := Enter(b.o); err != nil {
			t.Errorf("XDG_RUNTIME_DIR=%q: %v", dir, err)
		}
	}
	b := newBus(t)
	b.o.RuntimeDir = t.TempDir()
	b.serve(b.o.RuntimeDir, b.talk)
	if _, err := Enter(b.o); err != nil {
		t.Error(err)
	}
}

// flood sends zeros, and never a newline, for as long as somebody reads, and no
// longer than a second more than a client may wait.
func flood(c net.Conn) {
	c.SetDeadline(time.Now().Add(6 * time.Second))
	for b := make([]byte, 64<<10); ; {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, id string
		words    []string
		set      func(*bus)
	}{
		{"no manager", "cgroup.manager", []string{"loginctl enable-linger " + strconv.Itoa(os.Geteuid())}, func(b *bus) {
			os.RemoveAll(b.usual())
		}},
		{"no bus", "cgroup.manager.bus", []string{"no message bus", "dbus-user-session"}, func(b *bus) {
			os.WriteFile(b.usual()+"/systemd/private", nil, 0o600)
		}},
		{"a file for a bus", "cgroup.manager.bus", []string{"no message bus"}, func(b *bus) {
			os.WriteFile(b.usual()+"/systemd/private", nil, 0o600)
			os.WriteFile(b.usual()+"/bus", nil, 0o600)
		}},
		{"nobody listens", "cgroup.manager.bus", []string{"connection refused", "systemctl restart user@"}, func(b *bus) {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.usual() + "/bus", Net: "unix"})
			if err != nil {
				b.t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
		}},
		{"another user's", "cgroup.manager.bus", []string{"belongs to uid " + strconv.Itoa(os.Geteuid())}, func(b *bus) {
			b.o.uid = 54321
			dir := filepath.Join(b.o.runUser, "54321")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				b.t.Fatal(err)
			}
			b.serve(dir, b.talk)
		}},
		{"accepts and says nothing", "cgroup.manager.timeout", []string{"did not answer within 300ms"}, func(b *bus) {
			b.o.Wait = 300 * time.Millisecond
			b.serve(b.usual(), func(c net.Conn) {
				c.SetReadDeadline(time.Now().Add(3 * time.Second))
				c.Read(make([]byte, 1))
				bufio.NewReader(c).ReadString(0xff)
			})
		}},
		{"never accepts", "cgroup.manager.timeout", []string{"did not answer"}, func(b *bus) {
			b.o.Wait = 300 * time.Millisecond
			fullQueue(b)
		}},
		{"closes at once", "cgroup.manager.bus", []string{"can't be used"}, func(b *bus) { b.serve(b.usual(), func(net.Conn) {}) }},
		{"rejects", "cgroup.manager.bus", []string{"can't be used"}, func(b *bus) {
			b.serve(b.usual(), func(c net.Conn) {
				in := bufio.NewReader(c)
				for {
					if _, err := in.ReadString('\n'); err != nil {
						return
					}
					c.Write([]byte("REJECTED EXTERNAL\r\n"))
				}
			})
		}},
		{"a line without an end", "cgroup.manager.bus", []string{errTooMuch.Error()}, func(b *bus) {
			b.serve(b.usual(), func(c net.Conn) { flood(c) })
		}},
		{"noise for messages", "cgroup.manager.bus", []string{errTooMuch.Error()}, func(b *bus) {
			b.serve(b.usual(), func(c net.Conn) {
				io.WriteString(c, "REJECTED EXTERNAL\r\nOK 0123456789abcdef0123456789abcdef\r\n")
				flood(c)
			})
		}},
		{"a message of 4 GiB", "cgroup.manager.bus", []string{errTooMuch.Error()}, func(b *bus) {
			b.serve(b.usual(), func(c net.Conn) {
				io.WriteString(c, "REJECTED EXTERNAL\r\nOK 0123456789abcdef0123456789abcdef\r\n")
				io.WriteString(c, "l\x02\x00\x01\xf0\xff\xff\xff\x01\x00\x00\x00\x00\x00\x00\x00")
				flood(c)
			})
		}},
		{"noise after the hello", "cgroup.manager.scope", []string{"did not make a scope"}, func(b *bus) {
			b.say["Subscribe"] = reply{flood: true}
		}},
		{"silent after the hello", "cgroup.manager.timeout", []string{"did not answer"}, func(b *bus) { b.say["Subscribe"] = reply{silent: true}; b.o.Wait = time.Second }},
		{"silent at hello", "cgroup.manager.timeout", []string{"did not answer"}, func(b *bus) { b.say["Hello"] = reply{silent: true}; b.o.Wait = time.Second }},
		{"a job without an end", "cgroup.manager.timeout", []string{"did not answer"}, func(b *bus) {
			b.say["StartTransientUnit"] = reply{noSignal: true}
			b.o.Wait = time.Second
		}},
		{"a failed job", "cgroup.manager.scope", []string{`ended with "failed"`}, func(b *bus) { b.say["StartTransientUnit"] = reply{result: "failed", elsewhere: true} }},
		{"somebody else moved", "cgroup.manager.scope", []string{"and the kernel doesn't"}, func(b *bus) { b.say["StartTransientUnit"] = reply{elsewhere: true} }},
		{"denied", "cgroup.manager.scope", []string{"did not make a scope", ": no"}, func(b *bus) {
			b.say["StartTransientUnit"] = reply{errName: "org.freedesktop.DBus.Error.AccessDenied"}
		}},
		{"no systemd", "cgroup.manager.bus", []string{"no systemd behind it"}, func(b *bus) {
			b.say["Subscribe"] = reply{errName: "org.freedesktop.DBus.Error.ServiceUnknown"}
		}},
		{"systemd can't be started", "cgroup.manager.bus", []string{"can't start systemd"}, func(b *bus) {
			b.say["Subscribe"] = reply{errName: "org.freedesktop.DBus.Error.Spawn.ChildExited"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBus(t)
			c.set(b)
			if len(b.say) > 0 {
				b.serve(b.usual(), b.talk)
			}
			began := time.Now()
			unit, err := Enter(b.o)
			if took := time.Since(began); took > b.o.Wait+need.Time(2*time.Second) {
				t.Errorf("took %v", took)
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || unit != "" || e.ID != c.id || e.Hint == "" {
				t.Fatalf("%q, %#v", unit, err)
			}
			for _, w := range c.words {
				if !strings.Contains(e.Error()+"\n"+e.Hint, w) {
					t.Errorf("without %q: %v; %s", w, e, e.Hint)
				}
			}
		})
	}
}

// TestDescriptors: what was opened for the question is closed after it.
func TestDescriptors(t *testing.T) {
	b := newBus(t)
	b.serve(b.usual(), b.talk)
	count := func() int { es, _ := os.ReadDir("/proc/self/fd"); return len(es) }
	if _, err := Enter(b.o); err != nil {
		t.Fatal(err)
	}
	before := count()
	for range 20 {
		if _, err := Enter(b.o); err != nil {
			t.Fatal(err)
		}
	}
	// The server's ends close a little later.
	for end := time.Now().Add(need.Time(10 * time.Second)); count() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors before, %d after", before, count())
		}
	}
}
