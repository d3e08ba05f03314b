//go:build seccomp

package pid1

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// full uses every record that a job without AppArmor can have.
func full() Payload {
	p := sh("echo ran")
	p.Flags = SetgroupsDeny | IntoCgroup | NewCgroup | stdio
	p.Rlimits = []Rlimit{{unix.RLIMIT_NPROC, 8, 8}, {unix.RLIMIT_CORE, 0, unix.RLIM_INFINITY}}
	p.Affinity = []byte{1, 0, 0, 0, 0, 0, 0, 0}
	return p
}

// fullCgroup is how many descriptors full has after the job's three.
const fullCgroup = 3

func body(t testing.TB, p Payload) []byte {
	t.Helper()
	b, err := p.encode(fullCgroup)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// plain is a body without cgroups.
func plain(t testing.TB, p Payload) []byte {
	t.Helper()
	p.Flags |= stdio
	b, err := p.encode(0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// setup is a whole SETUP.
func setup(t testing.TB, s Setup) []byte {
	t.Helper()
	b, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func withHeader(b []byte) []byte {
	h := binary.LittleEndian.AppendUint32(nil, magic)
	h = binary.LittleEndian.AppendUint32(h, version)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(b)))
	return append(h, b...)
}

// refused sends a body with n descriptors of no use as another job of a PID 1 that
// lives on, and wants it to fail. What the parser accepts fails at the clone: the
// cgroup's directory is none.
func (j *jail) refused(t *testing.T, b []byte, n int) Report {
	t.Helper()
	j.SetReadDeadline(time.Now().Add(need.Time(10 * time.Second)))
	var files []*os.File
	for range n {
		files = append(files, j.stdin)
	}
	if err := j.exec(1, b, files); err != nil {
		t.Fatal(err)
	}
	r := j.next(t, Failed)
	if r.Job != 1 || r.PID != 0 {
		t.Fatalf("%+v", r)
	}
	return r
}

// alone runs the program as an ordinary process: a setup that it accepts ends with
// StagePID, everything else before.
func alone(t *testing.T, path string, message []byte) Report {
	t.Helper()
	conn, child, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cmd := exec.Command(path)
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	cmd.ExtraFiles = []*os.File{child, null}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child.Close()
	conn.SetReadDeadline(time.Now().Add(need.Time(10 * time.Second)))
	if _, err := conn.f.Write(message); err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Fatal(err)
	}
	if rc, err := conn.f.SyscallConn(); err == nil {
		rc.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
	r, err := conn.Next()
	if err != nil || r.Type != Failed {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("ended with 0")
	}
	return r
}

func program(t *testing.T) string {
	t.Helper()
	b, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pid1")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSetupCutShort(t *testing.T) {
	path, whole := program(t), setup(t, Setup{RequirePDeathSig, "one (enforce)"})
	if r := alone(t, path, whole); r.Stage != StagePID {
		t.Fatalf("the whole setup: %v, detail %d", r.Err(), r.Detail)
	}
	for n := range len(whole) {
		if r := alone(t, path, whole[:n]); r.Stage != StagePayload || r.Errno != syscall.EPROTO {
			t.Errorf("stream cut at %d: %v", n, r.Err())
		}
		// The header agrees with the shorter body; the flags alone are whole.
		if n < headerLen || n == headerLen+12 {
			continue
		}
		if r := alone(t, path, withHeader(whole[headerLen:n])); r.Stage != StagePayload || r.Errno != syscall.EBADMSG {
			t.Errorf("body cut at %d: %v", n, r.Err())
		}
	}
}

func TestSetupRefused(t *testing.T) {
	path, whole := program(t), setup(t, Setup{RequirePDeathSig, "one (enforce)"})
	tlv := func(typ uint16, data ...byte) []byte { return appendTLV(nil, typ, data) }
	for name, b := range map[string][]byte{
		"doubled flags":         tlv(tlvFlags, 8, 0, 0, 0),
		"doubled label":         tlv(tlvLabel, 'a', 0),
		"a record of a payload": tlv(tlvCwd, '/', 0),
		"unknown type":          tlv(19, 1),
		"type 0":                tlv(0),
		"padding":               {tlvLabel, 0, 0, 0, 2, 0, 0, 0, 'a', 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := alone(t, path, withHeader(append(bytes.Clone(whole[headerLen:]), b...)))
			if r.Stage != StagePayload || r.Errno != syscall.EBADMSG || int(r.Detail) != len(whole)-headerLen {
				t.Errorf("%v, detail %d", r.Err(), r.Detail)
			}
		})
	}
	for name, s := range map[string]Setup{
		"a job's flag": {Flags: NoFilter}, "unknown flag": {Flags: 1024},
		"label with a line end": {Label: "a\n"}, "long label": {Label: strings.Repeat("a", 256)},
	} {
		t.Run(name, func(t *testing.T) {
			if r := alone(t, path, setup(t, s)); r.Stage != StagePayload || r.Errno != syscall.EBADMSG {
				t.Errorf("%v", r.Err())
			}
		})
	}
	for name, h := range map[string]struct {
		off   int
		v     uint32
		errno syscall.Errno
	}{
		"magic": {0, 1, syscall.EBADMSG}, "version": {4, 1, syscall.EPROTONOSUPPORT}, "size": {8, setupMax + 1, syscall.EMSGSIZE},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(whole)
			binary.LittleEndian.PutUint32(b[h.off:], h.v)
			if r := alone(t, path, b); r.Stage != StagePayload || r.Errno != h.errno {
				t.Errorf("%v", r.Err())
			}
		})
	}
}

func TestPayloadCutShort(t *testing.T) {
	j, whole := ready(t, options{}), body(t, full())
	if r := j.refused(t, whole, 3+fullCgroup); r.Stage != StageClone {
		t.Fatalf("the whole payload: %v, detail %d", r.Err(), r.Detail)
	}
	// The order agrees with the shorter body, which is a payload again once it has a
	// command.
	for n := range bytes.Index(whole, []byte("/bin/sh\x00")) + 8 {
		if r := j.refused(t, whole[:n], 3+fullCgroup); r.Stage != StagePayload {
			t.Errorf("body cut at %d: %v", n, r.Err())
		}
	}
}

func TestPayloadRefused(t *testing.T) {
	j := ready(t, options{})
	tlv := func(typ uint16, data ...byte) []byte { return appendTLV(nil, typ, data) }
	for _, c := range []struct {
		name   string
		append []byte
		change func(*Payload)
	}{
		{name: "unknown type", append: tlv(19, 1)},
		{name: "type 0", append: tlv(0)},
		{name: "type 32 (shift)", append: tlv(33)},
		{name: "type 65535", append: tlv(65535)},
		{name: "doubled flags", append: tlv(tlvFlags, 8, 0, 0, 0)},
		{name: "doubled cwd", append: tlv(tlvCwd, '/', 0)},
		{name: "doubled uid map", append: tlv(tlvUIDMap, '0')},
		{name: "terminal without columns", append: tlv(tlvTerminal, 0, 0, 24, 0)},
		{name: "terminal without rows", append: tlv(tlvTerminal, 80, 0, 0, 0)},
		{name: "terminal cut short", append: tlv(tlvTerminal, 80, 0, 24)},
		{name: "doubled terminal", change: func(p *Payload) { p.Cols, p.Rows = 80, 24 }, append: tlv(tlvTerminal, 80, 0, 24, 0)},
		{name: "label of PID 1", append: tlv(tlvLabel, 'a', 0)},
		{name: "profile with a line end", append: tlv(tlvStack, 'a', '\n', 0)},
		{name: "empty profile", append: tlv(tlvStack, 0)},
		{name: "relative executable", append: tlv(tlvExecutable, []byte("usr/bin/id\x00")...)},
		{name: "long executable", append: tlv(tlvExecutable, append(append([]byte{'/'}, bytes.Repeat([]byte{'a'}, 4096)...), 0)...)},
		{name: "executable without its end", append: tlv(tlvExecutable, []byte("/usr/bin/id")...)},
		{name: "long label", append: tlv(tlvJobLabel, append(bytes.Repeat([]byte{'a'}, 256), 0)...)},
		{name: "doubled profile", change: armored(nil), append: tlv(tlvStack, 'a', 0)},
		{name: "no profile for the job", change: armored(func(a *AppArmor) { a.Stack = "" })},
		{name: "no label for the job", change: armored(func(a *AppArmor) { a.JobLabel = "" })},
		{name: "no label for PID 1", change: armored(nil)},
		{name: "reserved field", append: []byte{tlvEnv, 0, 1, 0, 4, 0, 0, 0, 'A', '=', 'b', 0}},
		{name: "padding", append: []byte{tlvEnv, 0, 0, 0, 3, 0, 0, 0, 'A', '=', 0, 1}},
		{name: "length beyond the end", append: []byte{tlvEnv, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}},
		{name: "length that wraps when padded", append: []byte{tlvEnv, 0, 0, 0, 0xfd, 0xff, 0xff, 0xff, 'A', '=', 0}},
		{name: "string without NUL", append: tlv(tlvEnv, 'A', '=', 'b', 'c')},
		{name: "empty string", append: tlv(tlvArg)},
		{name: "two NULs", append: tlv(tlvArg, 'a', 0, 'b', 0)},
		{name: "env without =", append: tlv(tlvEnv, 'A', 0)},
		{name: "env without name", append: tlv(tlvEnv, '=', 'A', 0)},
		{name: "flag", change: func(p *Payload) { p.Flags |= 1024 }},
		{name: "flag of a setup", change: func(p *Payload) { p.Flags |= Once }},
		{name: "neither stdio nor terminal", change: func(p *Payload) { p.Flags &^= stdio }},
		{name: "seed with a cwd", change: func(p *Payload) { p.Flags |= Seed; p.Args, p.Env = nil, nil }},
		{name: "seed with a command", change: func(p *Payload) { p.Flags |= Seed; p.Cwd = ""; p.Env = nil }},
		{name: "seed with an environment", change: func(p *Payload) { p.Flags |= Seed; p.Cwd, p.Args = "", nil }},
		{name: "seed on a terminal", change: func(p *Payload) {
			p.Flags |= Seed
			p.Cwd, p.Args, p.Env, p.Cols, p.Rows = "", nil, nil, 80, 24
		}},
		{name: "seed without stdin", change: func(p *Payload) {
			p.Flags = p.Flags&^stdio | Seed
			p.Cwd, p.Args, p.Env = "", nil, nil
		}},
		{name: "map with letters", change: func(p *Payload) { p.UIDMap = "0 0 x" }},
		{name: "empty map", change: func(p *Payload) { p.GIDMap = "" }},
		{name: "uid -1", change: func(p *Payload) { p.UID = 0xffffffff }},
		{name: "relative cwd", change: func(p *Payload) { p.Cwd = "tmp" }},
		{name: "umask", change: func(p *Payload) { p.Umask = 0o1000 }},
		{name: "odd filter", change: func(p *Payload) { p.Filters = [][]byte{allowAll[:7]} }},
		{name: "long filter", change: func(p *Payload) { p.Filters = [][]byte{bytes.Repeat(allowAll, 4097)} }},
		{name: "nine filters", change: func(p *Payload) { p.Filters = bytesRepeat(allowAll, 9) }},
		{name: "soft over hard", change: func(p *Payload) { p.Rlimits = []Rlimit{{1, 2, 1}} }},
		{name: "doubled rlimit", change: func(p *Payload) { p.Rlimits = []Rlimit{{1, 1, 1}, {1, 1, 1}} }},
		{name: "rlimit 16", change: func(p *Payload) { p.Rlimits = []Rlimit{{16, 1, 1}} }},
		{name: "affinity of 7 bytes", change: func(p *Payload) { p.Affinity = make([]byte, 7) }},
		{name: "a descriptor past the last", append: tlv(tlvCgroupProcs, 7, 0, 0, 0)},
		{name: "a descriptor twice", append: tlv(tlvCgroupProcs, 5, 0, 0, 0)},
		{name: "stdin as a cgroup", append: tlv(tlvCgroupProcs, 0, 0, 0, 0)},
		{name: "place -1", append: tlv(tlvCgroupProcs, 0xff, 0xff, 0xff, 0xff)},
		{name: "doubled directory", append: tlv(tlvCgroupDir, 3, 0, 0, 0)},
		{name: "namespace twice", change: func(p *Payload) { p.Flags |= UnshareCgroupNS }},
		{name: "ids and setgroups", change: func(p *Payload) { p.Flags |= SetIDs }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := full()
			if c.change != nil {
				c.change(&p)
			}
			b := body(t, p)
			r := j.refused(t, append(bytes.Clone(b), c.append...), 3+fullCgroup)
			if r.Stage != StagePayload || r.Errno != syscall.EBADMSG {
				t.Errorf("%v", r.Err())
			}
			// What is wrong only beside the rest shows at the end.
			if at := int(r.Detail); c.append != nil && at != len(b) && at != len(b)+len(c.append) {
				t.Errorf("detail %d, want the offset %d", r.Detail, len(b))
			}
		})
	}
	t.Run("seventeen cgroups", func(t *testing.T) {
		p := full()
		p.Flags &^= IntoCgroup | NewCgroup
		b, err := p.encode(17)
		if err != nil {
			t.Fatal(err)
		}
		if r := j.refused(t, b, 20); r.Stage != StagePayload || r.Errno != syscall.EBADMSG {
			t.Errorf("%v", r.Err())
		}
	})
	t.Run("directory without its flag", func(t *testing.T) {
		b := body(t, full())
		b[8] &^= byte(IntoCgroup) // FLAGS are the first record
		if r := j.refused(t, b, 3+fullCgroup); r.Stage != StagePayload || int(r.Detail) != len(b) {
			t.Errorf("%v", r.Err())
		}
	})
	t.Run("size", func(t *testing.T) { // read to its end all the same
		if r := j.refused(t, make([]byte, bodyMax+1), 0); r.Stage != StagePayload || r.Errno != syscall.EMSGSIZE {
			t.Errorf("%v", r.Err())
		}
	})
	t.Run("empty", func(t *testing.T) {
		if r := j.refused(t, nil, 0); r.Stage != StagePayload || r.Errno != syscall.EBADMSG {
			t.Errorf("%v", r.Err())
		}
	})
	if r := j.refused(t, body(t, full()), 3+fullCgroup); r.Stage != StageClone {
		t.Errorf("the good payload after them: %v", r.Err())
	}
}

// armored asks for AppArmor, with a fault.
func armored(fault func(*AppArmor)) func(*Payload) {
	return func(p *Payload) {
		p.AppArmor = AppArmor{"two", "one//&two (enforce)"}
		if fault != nil {
			fault(&p.AppArmor)
		}
	}
}

func bytesRepeat(b []byte, n int) (r [][]byte) {
	for range n {
		r = append(r, b)
	}
	return r
}

// As pid 1, where a job could really run.
func TestPayloadCutShortInJail(t *testing.T) {
	b := plain(t, sh("echo ran"))
	b = append(order(controlExec, 1, uint32(len(b))), b...)
	for _, n := range []int{controlLen, controlLen + 8, len(b) / 2, len(b) - 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			j := ready(t, options{})
			j.f.Write(b[:n])
			if rc, err := j.f.SyscallConn(); err == nil {
				rc.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
			}
			if r := j.next(t, Failed); r.Stage != StagePayload || r.Errno != syscall.EPROTO {
				t.Errorf("%v", r.Err())
			}
			if out := j.output(t); out != "" {
				t.Errorf("output %q", out)
			}
		})
	}
}

// FuzzPayload runs the C parser under the sanitizers.
func FuzzPayload(f *testing.F) {
	cc := need.Program(f, "cc")
	bin := filepath.Join(f.TempDir(), "payload_fuzz")
	out, err := exec.Command(cc, "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
		"-Wall", "-Wextra", "-Werror", "-o", bin, "testdata/payload_fuzz.c", "src/payload.c").CombinedOutput()
	if err != nil {
		f.Fatalf("%v\n%s", err, out)
	}
	p := full()
	whole := body(f, p)
	f.Add(whole)
	f.Add(plain(f, sh("exit 0")))
	onTerminal := sh("exit 0")
	onTerminal.Cols, onTerminal.Rows = 80, 24
	f.Add(plain(f, onTerminal))
	inProfile := sh("exit 0")
	armored(nil)(&inProfile)
	f.Add(plain(f, inProfile))
	seed := job()
	seed.Flags |= Seed
	seed.Cwd, seed.Env = "", nil
	f.Add(plain(f, seed))
	f.Add(setup(f, Setup{Once, "one (enforce)"})[headerLen:])
	f.Add(whole[:len(whole)/2])
	f.Add(append(bytes.Clone(whole), 14, 0, 0, 0, 0xfd, 0xff, 0xff, 0xff))
	h := startHarness(f, bin)
	for i := range 8 * len(whole) { // every single bit
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		if _, err := h.parse(b); err != nil {
			f.Fatalf("bit %d: %v\n%s", i, err, h.stderr.String())
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		if _, err := h.parse(b); err != nil {
			t.Fatalf("%v\n%s", err, h.stderr.String())
		}
	})
}

type harness struct {
	in     io.WriteCloser
	out    io.Reader
	stderr *strings.Builder
}

func startHarness(f *testing.F, bin string) *harness {
	f.Helper()
	cmd := exec.Command(bin)
	in, err := cmd.StdinPipe()
	if err != nil {
		f.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	h := &harness{in, out, &strings.Builder{}}
	cmd.Stderr = h.stderr
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			f.Errorf("harness: %v\n%s", err, h.stderr.String())
		}
	})
	// It tells good from bad at all.
	if ok, err := h.parse(body(f, full())); err != nil || !ok {
		f.Fatalf("harness refuses the good payload: %v", err)
	}
	if ok, err := h.parse([]byte("garbage")); err != nil || ok {
		f.Fatalf("harness accepts garbage: %v", err)
	}
	return h
}

func (h *harness) parse(b []byte) (bool, error) {
	m := binary.LittleEndian.AppendUint32(nil, uint32(len(b)))
	if _, err := h.in.Write(append(m, b...)); err != nil {
		return false, err
	}
	var v [1]byte
	_, err := io.ReadFull(h.out, v[:])
	return v[0] == 1, err
}

func TestMemfd(t *testing.T) {
	f, err := Memfd()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	want, _ := Binary()
	if st.Mode().Perm() != 0o555 || st.Size() != int64(len(want)) || st.Size() > 1<<20 {
		t.Errorf("mode %v, size %d of %d", st.Mode(), st.Size(), len(want))
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("contents differ (%v)", err)
	}
	for name, err := range map[string]error{
		"write":    func() error { _, err := f.WriteAt([]byte("x"), 0); return err }(),
		"grow":     f.Truncate(1 << 20),
		"shrink":   f.Truncate(0),
		"add seal": func() error { _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, 0); return err }(),
	} {
		if !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EPERM) {
		t.Errorf("shared writable mapping: %v", err)
	}
}
