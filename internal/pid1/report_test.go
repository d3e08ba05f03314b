package pid1

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"time"
)

func exited() []byte {
	b := make([]byte, ReportLen)
	le := binary.LittleEndian
	le.PutUint32(b[0:], magic)
	le.PutUint16(b[4:], uint16(Exited))
	le.PutUint32(b[12:], 0x700)
	le.PutUint32(b[16:], 3)
	le.PutUint32(b[20:], 2)
	le.PutUint32(b[88:], 1234567)
	for i := range 6 {
		le.PutUint64(b[24+8*i:], uint64(1000*(i+1)))
	}
	return b
}

func TestDecodeReport(t *testing.T) {
	r, err := DecodeReport(exited())
	if err != nil {
		t.Fatal(err)
	}
	want := Report{
		Type: Exited, Job: 1234567, WaitStatus: 0x700, Leftover: 3, PID: 2,
		Main: Usage{time.Millisecond, 2 * time.Millisecond, 3000},
		All:  Usage{4 * time.Millisecond, 5 * time.Millisecond, 6000},
	}
	if r != want || r.Err() != nil {
		t.Errorf("%+v, want %+v", r, want)
	}
	for _, c := range []struct {
		name string
		off  int
		v    byte
	}{
		{"magic", 0, 0},
		{"type 0", 4, 0},
		{"type 6", 4, 6},
		{"ready with a job", 4, byte(Ready)},
		{"stage of an exit", 6, 1},
		{"errno", 11, 0x80},
		{"time", 31, 0x80},
		{"tail", 127, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := exited()
			b[c.off] = c.v
			if _, err := DecodeReport(b); !errors.Is(err, ErrReport) {
				t.Errorf("accepted: %v", err)
			}
		})
	}
	for typ, ok := range map[Type]bool{Started: false, Exited: false, Terminal: false, Ready: true} {
		b := exited()
		binary.LittleEndian.PutUint32(b[88:], 0)
		b[4] = byte(typ)
		if _, err := DecodeReport(b); (err == nil) != ok {
			t.Errorf("type %d of no job: %v", typ, err)
		}
	}
	if _, err := DecodeReport(exited()[:127]); !errors.Is(err, ErrReport) {
		t.Error("short report accepted")
	}
}

func TestStartError(t *testing.T) {
	for _, c := range []struct {
		e    StartError
		want string
	}{
		{StartError{Stage: StageCwd, Errno: syscall.ENOENT}, "cwd: no such file or directory"},
		{StartError{Stage: StageExec, Errno: syscall.ENOENT, Detail: DetailInterpreter}, "exec: the program's interpreter does not exist"},
		{StartError{Stage: StageDied, Errno: syscall.ECHILD, WaitStatus: 9}, "the job's process was killed by signal 9 before it could be executed"},
		{StartError{Stage: 99, Errno: syscall.EPERM}, "stage 99: operation not permitted"},
	} {
		if got := c.e.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	var err error = &StartError{Stage: StageCwd, Errno: syscall.ENOENT}
	if !errors.Is(err, syscall.ENOENT) {
		t.Error("the errno is not in the chain")
	}
}

func FuzzDecodeReport(f *testing.F) {
	f.Add(exited())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeReport(b)
		if err != nil {
			if r != (Report{}) {
				t.Fatalf("half a report: %+v", r)
			}
			return
		}
		if r.Main.User < 0 || r.Main.MaxRSS < 0 || r.All.System < 0 || (r.Err() != nil) != (r.Type == Failed) {
			t.Fatalf("%+v", r)
		}
		if r.Err() != nil && r.Err().Error() == "" {
			t.Fatal("no text")
		}
	})
}
