package launch

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/pid1"
	"github.com/jailer-project/jailer/internal/terminal"
	"github.com/jailer-project/jailer/policy"
)

// The host may have no terminal left; that says nothing about its isolation, and the
// next try may find one.
func TestNoTerminalLeft(t *testing.T) {
	r := newJail(t.Context(), Options{})
	cmd := r.newCommand(t.Context(), Command{})
	cmd.plan = &policy.Plan{Argv: []string{"true"}}
	for _, c := range []struct {
		errno     unix.Errno
		code      jailer.Code
		reason    string
		retryable bool
	}{
		{unix.ENOSPC, jailer.CodeInternal, "host.resources", true},
		{unix.EACCES, jailer.CodeIsolationUnavailable, "pid1.terminal", false},
	} {
		err := cmd.commandError(&pid1.StartError{Stage: pid1.StageTerminal, Errno: c.errno})
		e, ok := errors.AsType[*jailer.Error](err)
		if !ok || e.Code != c.code || e.Reason != c.reason || e.Retryable != c.retryable || e.Hint == "" {
			t.Errorf("%v: %+v", c.errno, err)
		}
	}
}

func TestTerminalKind(t *testing.T) {
	for _, c := range []struct {
		name string
		tty  *TTY
		env  []string
		want string // "" for none
	}{
		{"pipes", nil, nil, ""},
		{"terminal", &TTY{Size: terminal.Default, Type: "vt100"}, nil, "TERM=vt100"},
		{"given", &TTY{Size: terminal.Default, Type: "vt100"}, []string{"TERM=dumb"}, "TERM=dumb"},
	} {
		env, got := environment(&policy.Plan{Env: c.env}, c.tty), ""
		if i := slices.IndexFunc(env, func(kv string) bool { return kv[:5] == "TERM=" }); i >= 0 {
			got = env[i]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDuplicate(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	d, err := terminal.Duplicate(w)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if flags, err := unix.FcntlInt(d.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	w.Close()
	if _, err := terminal.Duplicate(w); err == nil {
		t.Error("a closed file was duplicated")
	}
}
