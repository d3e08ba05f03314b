package session

import (
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
)

// inherited is the writing end of a pipe as a child of create's has it.
func inherited(t *testing.T) (r *os.File, fd int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	fd, err = unix.FcntlInt(w.Fd(), unix.F_DUPFD, 3)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return r, fd
}

func TestAnswer(t *testing.T) {
	r, fd := inherited(t)
	a, err := TakeAnswer(fd)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Fail(&jailer.Error{Code: jailer.CodeNoSpace, Message: "no room"}); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if want := `{"v":1,"error":{"code":"no_space","message":"no room","retryable":false}}` + "\n"; string(b) != want || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// A supervisor whose create was killed learns of it, at once and not before.
func TestAnswerBroken(t *testing.T) {
	r, fd := inherited(t)
	a, err := TakeAnswer(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	broken, stop, err := a.Broken()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	select {
	case <-broken:
		t.Fatal("broken with a reader")
	case <-time.After(200 * time.Millisecond):
	}
	r.Close()
	select {
	case <-broken:
	case <-time.After(long):
		t.Fatal("not told")
	}
	if err := a.State(State{}); err == nil {
		t.Error("an answer that nobody can read was given")
	}
}

func TestTakeAnswerRefuses(t *testing.T) {
	r, w, err := os.Pipe() // close-on-exec: the program's own
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	null, err := unix.Open(os.DevNull, unix.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	for _, fd := range []int{0, -1, 1 << 20, int(w.Fd()), null} {
		if _, err := TakeAnswer(fd); err == nil {
			t.Errorf("descriptor %d was taken", fd)
		}
	}
}
