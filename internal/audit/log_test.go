package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/need"
)

func TestAppend(t *testing.T) {
	a := open(t)
	b, err := Open(a.path)
	if err != nil {
		t.Fatal(err)
	}
	add(t, a, event(SessionCreated, "a"))
	add(t, b, event(SessionCreated, "b"), event(ExecStarted, "b"))
	add(t, a, event(ExecStarted, "a"))
	got, damage := read(t, a.path)
	want := []string{"1 session.created a", "2 session.created b", "3 exec.started b", "4 exec.started a"}
	if !slices.Equal(got, want) || damage != nil {
		t.Errorf("%v, damage %v", got, damage)
	}
	for _, p := range []string{a.path, a.path + ".lock"} {
		if st, err := os.Stat(p); err != nil || st.Mode() != 0o600 {
			t.Errorf("%s: %v %v", p, st.Mode(), err)
		}
	}
	// Moved away, as a log rotation would: a new file, and seq goes on for whoever
	// has been there.
	if err := os.Rename(a.path, a.path+".1"); err != nil {
		t.Fatal(err)
	}
	add(t, a, event(ExecFinished, "a"))
	add(t, b, event(ExecFinished, "b"))
	if got, _ := read(t, a.path); !slices.Equal(got, []string{"5 exec.finished a", "6 exec.finished b"}) {
		t.Errorf("in the new file: %v", got)
	}
}

// A writer may die after any byte. Nothing before is lost, nothing is glued to what
// it left, and the reader says what is no record.
func TestCrashAtAnyByte(t *testing.T) {
	for _, before := range []int{0, 1, 2} {
		l := open(t)
		for range before {
			add(t, l, event(SessionCreated, "a"))
		}
		whole := content(t, l)
		add(t, l, event(ExecStarted, "b"), event(ExecStarted, "c"))
		batch := strings.TrimPrefix(content(t, l), whole)
		for cut := range len(batch) + 1 {
			left := batch[:cut]
			if err := os.WriteFile(l.path, []byte(whole+left), 0o600); err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(left, "\n")
			torn := lines[len(lines)-1]
			ends := strings.Count(left, "\n")
			_, alive := parse([]byte(torn)) // only its end is missing
			if alive {
				ends++
			}
			check := func(when string, records int) {
				t.Helper()
				got, damage := read(t, l.path)
				if len(got) != records {
					t.Errorf("%d before, cut at %d, %s: %v", before, cut, when, got)
				}
				if want := torn != "" && !alive; want != (len(damage) == 1) || len(damage) > 1 {
					t.Errorf("%d before, cut at %d, %s: damage %v", before, cut, when, damage)
				}
			}
			if cut%24 == 0 { // a reader waits for the end of a line
				check("before the next writer", before+ends)
			}
			next := &Log{path: l.path}
			add(t, next, event(ExecFinished, "d"))
			check("after it", before+ends+1)
			if next.last != int64(before+ends+1) {
				t.Errorf("%d before, cut at %d: the next seq is %d", before, cut, next.last)
			}
		}
	}
}

// Writers that are killed at random moments, and one that is not. What Append has
// taken is in the log, once.
func TestWritersAreKilled(t *testing.T) {
	l := open(t)
	const writers = 4
	var acked sync.Map
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for round := range need.Times(8) {
				cmd := exec.Command(os.Args[0])
				cmd.Env = []string{"AUDIT_TEST_WRITE=" + l.path, fmt.Sprintf("AUDIT_TEST_NAME=%d-%d", w, round)}
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Error(err)
					return
				}
				s := bufio.NewScanner(out)
				s.Scan() // it is at it
				acked.Store(s.Text(), true)
				time.AfterFunc(time.Duration(rand.Int64N(int64(50*time.Millisecond))), func() { cmd.Process.Kill() })
				for s.Scan() {
					acked.Store(s.Text(), true)
				}
				cmd.Wait()
			}
		})
	}
	all.Wait()
	add(t, l, event(SessionCreated, "last"))
	records, damage := read(t, l.path)
	seen := map[string]int{}
	for _, r := range records {
		seen[strings.Fields(r)[2]]++
	}
	n := 0
	acked.Range(func(id, _ any) bool {
		n++
		if seen[id.(string)] != 1 {
			t.Errorf("%s is %d times in the log", id, seen[id.(string)])
		}
		return true
	})
	if n < writers {
		t.Errorf("%d events only", n)
	}
	t.Logf("%d acknowledged, %d records, damage %v", n, len(records), damage)
}

// A disk that fills up (here: the limit on the size of a file) takes half a record.
// It is an error, and the half goes away.
func TestNoRoom(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGXFSZ) // as the program does
	l := open(t)
	add(t, l, event(SessionCreated, "a"))
	before := content(t, l)
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &lim); err != nil {
		t.Fatal(err)
	}
	low := lim
	low.Cur = uint64(len(before)) + 40
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &low); err != nil {
		t.Fatal(err)
	}
	err := l.Append(t.Context(), event(ExecStarted, "a"))
	if err2 := unix.Setrlimit(unix.RLIMIT_FSIZE, &lim); err2 != nil {
		t.Fatal(err2)
	}
	if e, ok := errors.AsType[*jailer.Error](err); !ok || e.Reason != "events.sink" || !errors.Is(err, unix.EFBIG) || e.Hint == "" {
		t.Errorf("%#v", err)
	}
	if got := content(t, l); got != before {
		t.Errorf("left %q", strings.TrimPrefix(got, before))
	}
	add(t, l, event(ExecStarted, "a"))
	if got, damage := read(t, l.path); len(got) != 2 || damage != nil {
		t.Errorf("%v, damage %v", got, damage)
	}
}

func TestLockIsHeld(t *testing.T) {
	t.Parallel()
	l := open(t)
	add(t, l, event(SessionCreated, "a"))
	f, err := os.OpenFile(l.path+".lock", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = l.Append(t.Context(), event(ExecStarted, "a"))
	if e, ok := errors.AsType[*jailer.Error](err); !ok || e.Reason != "events.sink" || !errors.Is(err, ErrLocked) ||
		!e.Retryable || !strings.Contains(e.Message, "another process") || e.Hint != "fuser -v "+l.path+".lock" {
		t.Errorf("%#v after %v", err, time.Since(began))
	}
	// Whoever waits may be told to stop.
	began = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := l.Append(ctx, event(ExecStarted, "a")); !errors.Is(err, ErrLocked) || time.Since(began) >= lockWait {
		t.Errorf("told to stop: %v after %v", err, time.Since(began))
	}
	// Who may read the log, and only read, holds nobody up.
	f.Close()
	r, err := os.Open(l.path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := unix.Flock(int(r.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	add(t, l, event(ExecStarted, "a"))
}

func TestOpenRefuses(t *testing.T) {
	type place struct{ dir, path string }
	file := func(mode os.FileMode, text string) func(t *testing.T, p place) {
		return func(t *testing.T, p place) {
			if err := errors.Join(os.WriteFile(p.path, []byte(text), 0o600), os.Chmod(p.path, mode)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name    string
		arrange func(t *testing.T, p place)
		want    string
	}{
		{"a FIFO", func(t *testing.T, p place) { unix.Mkfifo(p.path, 0o600) }, "regular"},
		{"a link", func(t *testing.T, p place) { os.Symlink("other", p.path) }, "is a symbolic link"},
		{"a link as lock", func(t *testing.T, p place) { os.Symlink("other", p.path+".lock") }, "ndjson.lock, or name the file itself"},
		{"a directory", func(t *testing.T, p place) { os.Mkdir(p.path, 0o700) }, "directory"},
		{"readable by others", file(0o644, ""), "open to others"},
		{"writable by its group", file(0o660, ""), "open to others"},
		{"another program's", file(0o600, "root:x:0:0\n"), "no event log"},
		{"all zero", file(0o600, string(make([]byte, 8192))), "no event log"},
		{"a lock that others could take", func(t *testing.T, p place) { os.WriteFile(p.path+".lock", nil, 0o644) }, "open to others"},
		{"a directory of others", func(t *testing.T, p place) { os.Chmod(p.dir, 0o777) }, "writable by others"},
		{"a directory of others above", func(t *testing.T, p place) { os.Chmod(filepath.Dir(p.dir), 0o777) }, "writable by others (mode 0777)"},
		{"a directory of its group above", func(t *testing.T, p place) { os.Chmod(filepath.Dir(p.dir), 0o775) }, "writable by its group"},
		{"a sticky directory", func(t *testing.T, p place) { os.Chmod(p.dir, 0o777|os.ModeSticky) }, "name a directory of its own"},
		{"another owner's above", func(t *testing.T, p place) { need.Root(t); os.Chown(filepath.Dir(p.dir), 54321, 54321) }, "owned by uid 54321"},
		{"another's link above", func(t *testing.T, p place) {
			need.Root(t)
			real := p.dir + ".real"
			if err := errors.Join(os.Rename(p.dir, real), os.Symlink(real, p.dir), os.Lchown(p.dir, 54321, 54321)); err != nil {
				t.Fatal(err)
			}
		}, "owned by uid 54321"},
		{"no directory", func(t *testing.T, p place) { os.Remove(p.dir) }, "install -d"},
		{"another owner's", func(t *testing.T, p place) {
			need.Root(t)
			file(0o600, "")(t, p)
			os.Chown(p.path, 54321, 54321)
		}, "owned by uid 54321"},
		{"another owner's directory", func(t *testing.T, p place) { need.Root(t); os.Chown(p.dir, 54321, 54321) }, "owned by uid 54321"},
		{"read-only", func(t *testing.T, p place) { readOnly(t, p.dir) }, "read-only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := place{dir: filepath.Join(t.TempDir(), "log")}
			p.path = filepath.Join(p.dir, "events.ndjson")
			if err := os.Mkdir(p.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			c.arrange(t, p)
			before := names(t, filepath.Dir(p.dir))
			check := Check(p.path)
			if after := names(t, filepath.Dir(p.dir)); after != before {
				t.Errorf("looking changed %s to %s", before, after)
			}
			l, err := Open(p.path)
			if err == nil {
				err = l.Append(t.Context(), event(SessionCreated, "a"))
			}
			e, ok := errors.AsType[*jailer.Error](err)
			if !ok || e.Reason != "events.sink" || e.Hint == "" || !strings.Contains(e.Error()+e.Hint, c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if check == nil || ok && check.Error() != err.Error() && c.name != "read-only" {
				t.Errorf("foretold: %v, was: %v", check, err)
			}
			if strings.Contains(e.Hint, "go-w") != (strings.Contains(c.name, "directory of others") && os.Geteuid() != 0) || strings.Contains(c.name, "link") && (e.Retryable || strings.Contains(e.Hint, "make room")) {
				t.Errorf("hint %q, retryable %v", e.Hint, e.Retryable)
			}
		})
	}
	// A link of the caller's own is followed, below a directory of root's such as /tmp too.
	own := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), own); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(own, "events.ndjson")); err != nil {
		t.Errorf("the caller's own link: %v", err)
	}
	// The commands of hints are for a shell.
	_, err := Open("/tmp/no such $(dir)/events.ndjson")
	if e, ok := errors.AsType[*jailer.Error](err); !ok || e.Hint != "install -d -m 0750 '/tmp/no such $(dir)'" {
		t.Errorf("%#v", err)
	}
	if _, err := Open("relative"); err == nil {
		t.Error("a relative path is taken")
	}
	// What an administrator may well do.
	l := open(t)
	if err := os.Chmod(l.path, 0o640); err != nil {
		t.Fatal(err)
	}
	add(t, l, event(SessionCreated, "a"))
}

// names are all files below dir.
func names(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	filepath.WalkDir(dir, func(p string, _ os.DirEntry, _ error) error { out = append(out, p); return nil })
	return strings.Join(out, " ")
}

// Check makes nothing, takes what is there, and what can be made.
func TestCheck(t *testing.T) {
	l := open(t)
	add(t, l, event(SessionCreated, "a"))
	if err := Check(l.path); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	if err := Check(filepath.Join(dir, "events.ndjson")); err != nil || names(t, dir) != dir {
		t.Errorf("%v, made %s", err, names(t, dir))
	}
}

// A forged seq must not make the next one negative, nor the log one without an end.
func TestSeqDoesNotRise(t *testing.T) {
	for _, last := range []int64{math.MaxInt64, math.MaxInt64 - 1} {
		l := open(t)
		forged := fmt.Sprintf(`{"v":1,"seq":%d,"type":"x"}`+"\n", last)
		if err := os.WriteFile(l.path, []byte(forged), 0o600); err != nil {
			t.Fatal(err)
		}
		err := l.Append(t.Context(), event(ExecStarted, "a"), event(ExecFinished, "a"))
		if e, ok := errors.AsType[*jailer.Error](err); !ok || e.Reason != "events.sink" || !strings.HasPrefix(e.Hint, "mv ") || content(t, l) != forged {
			t.Errorf("%d: %#v, left %q", last, err, content(t, l))
		}
	}
}

func readOnly(t *testing.T, dir string) {
	t.Helper()
	need.Root(t)
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_RDONLY, "mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

// FuzzTail: whatever a log ends in, a writer refuses it or makes its record one that
// readers find, last and above all others.
func FuzzTail(f *testing.F) {
	f.Add([]byte(`{"v":1,"seq":3,"type":"x"}` + "\n"))
	f.Add([]byte(`{"v":1,"se`))
	f.Add([]byte("\n\n\x00"))
	f.Fuzz(func(t *testing.T, junk []byte) {
		l := open(t)
		add(t, l, event(SessionCreated, "a"))
		file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		file.Write(junk)
		file.Close()
		next := &Log{path: l.path}
		if err := next.Append(t.Context(), event(ExecStarted, "b")); err != nil {
			return
		}
		file, err = os.Open(l.path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var last Line
		r := &reader{f: file, each: func(l Line) error { last = l; return nil }}
		if err := r.more(); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if last.SessionID != "b" || last.Seq != next.last || r.pending() {
			t.Errorf("%+v, want seq %d of b", last, next.last)
		}
	})
}

// BenchmarkSession is what the log costs a run: four records, in three writes.
func BenchmarkSession(b *testing.B) {
	l := open(b)
	s := Subject{SessionID: "q4jz5mdkffst4whk", Tenant: "acme", Labels: map[string]string{"job": "42"}}
	for b.Loop() {
		l, err := Open(l.path)
		if err != nil {
			b.Fatal(err)
		}
		add(b, l, Event{Type: SessionCreated, Subject: s, Data: Created{"default", "host", 1900000000}})
		add(b, l, Event{Type: ExecStarted, Subject: s, ExecID: "1"})
		add(b, l, Event{Type: ExecFinished, Subject: s, ExecID: "1", Data: FinishedBy(&jailer.Result{Status: jailer.StatusExited})},
			Event{Type: SessionDestroyed, Subject: s, Data: Destroyed{Requested}})
	}
}
