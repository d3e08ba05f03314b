package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

func TestReadDamage(t *testing.T) {
	l := open(t)
	add(t, l, event(SessionCreated, "a"))
	record := content(t, l)
	bad := []string{
		"", "{", "null", "[]", `{"v":1}`, `{"v":1,"seq":0,"type":"x"}`, `{"v":1,"seq":1,"type":""}`, "\x00\x00\x00", `{"v":1,"seq":1,"type":"a` + "\x1b" + `"}`,
		strings.Repeat("x", 3*maxRecord), record[:20] + record[:len(record)-1],
	}
	text := record + strings.Join(bad, "\n") + "\n" + strings.Replace(record, `"seq":1`, `"seq":2`, 1)
	if err := os.WriteFile(l.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, damage := read(t, l.path)
	if !slices.Equal(got, []string{"1 session.created a", "2 session.created a"}) {
		t.Errorf("%v", got)
	}
	if len(damage) != len(bad) || damage[0] != "line 2: no record" || damage[len(bad)-1] != "line 12: no record" {
		t.Errorf("%d damaged: %q", len(damage), damage)
	}
}

// A record that somebody else wrote is shown, but not as a terminal would obey it.
func TestReadEscapes(t *testing.T) {
	l := open(t)
	if err := os.WriteFile(l.path, []byte("{\"v\":1,\"seq\":1,\"type\":\"x\",\"a\":\"\u009b2J\x9b\u2028\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Read(t.Context(), l.path, false, func(l Line) error {
		if want := `{"v":1,"seq":1,"type":"x","a":"\u009b2J\ufffd\u2028"}`; string(l.Text) != want {
			t.Errorf("%q, want %q", l.Text, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo, link, wide := filepath.Join(dir, "fifo"), filepath.Join(dir, "link"), filepath.Join(dir, "wide")
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), os.Symlink("/dev/zero", link),
		os.WriteFile(wide, nil, 0o600), os.Chmod(wide, 0o602)); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{fifo, link, dir, wide} {
		if err := Read(t.Context(), p, false, func(Line) error { return nil }); err == nil {
			t.Errorf("%s is read", p)
		}
	}
	if err := Read(t.Context(), filepath.Join(dir, "none"), false, func(Line) error { return errors.New("a line") }); err != nil {
		t.Errorf("none: %v", err)
	}
	t.Run("another's", func(t *testing.T) {
		need.Root(t)
		l := open(t)
		if err := os.Chown(l.path, 54321, 54321); err != nil {
			t.Fatal(err)
		}
		err := Read(t.Context(), l.path, false, func(Line) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "owned by uid 54321") {
			t.Error(err)
		}
	})
	stop := errors.New("stop")
	l := open(t)
	add(t, l, event(SessionCreated, "a"))
	if err := Read(t.Context(), l.path, true, func(Line) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

func TestFollow(t *testing.T) {
	l := open(t)
	if err := os.Remove(l.path); err != nil { // it comes later
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), need.Time(time.Minute))
	defer cancel()
	lines, ended := make(chan string, 16), make(chan error, 1)
	go func() {
		ended <- Read(ctx, l.path, true, func(l Line) error { lines <- l.SessionID + l.Damage; return nil })
	}()
	want := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			select {
			case got := <-lines:
				if !strings.Contains(got, text) {
					t.Fatalf("%q, want %q", got, text)
				}
			case <-ctx.Done():
				t.Fatalf("%q never came", text)
			}
		}
	}
	time.Sleep(2 * pollTime)
	add(t, l, event(SessionCreated, "one"))
	want("one")
	add(t, l, event(SessionCreated, "two"), event(SessionCreated, "three"))
	want("two", "three")

	// Half a line is waited for.
	whole := content(t, l)
	add(t, l, event(SessionCreated, "four"))
	four := strings.TrimPrefix(content(t, l), whole)
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want("four")
	f.WriteString(strings.Replace(four, "four", "five", 1)[:30])
	time.Sleep(3 * pollTime)
	f.WriteString(strings.Replace(four, "four", "five", 1)[30:])
	want("five")

	// Moved away; what its old writers still add is read first.
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		t.Fatal(err)
	}
	f.WriteString(strings.Replace(four, "four", "six", 1))
	add(t, l, event(SessionCreated, "seven"))
	want("six", "seven")
	if err := os.Truncate(l.path, 0); err != nil {
		t.Fatal(err)
	}
	want("cut")
	add(t, l, event(SessionCreated, "eight"))
	want("eight")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
