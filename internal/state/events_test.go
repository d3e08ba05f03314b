package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
)

// dead is a session of d whose launcher is gone, after it had recorded that its
// command began, and the path of the log.
func dead(t *testing.T, d *Dir, labels map[string]string, mayLose bool) string {
	t.Helper()
	return deadAs(t, d, "dead", labels, mayLose)
}

func deadAs(t *testing.T, d *Dir, id string, labels map[string]string, mayLose bool) string {
	t.Helper()
	path, err := d.EventsPath()
	if err != nil {
		t.Fatal(err)
	}
	l, err := audit.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	s := audit.Subject{SessionID: id, Tenant: "acme", Labels: labels, UID: 7}
	ref := l.Ref(s)
	ref.MayLose = mayLose
	made, err := d.Create(Record{ID: id, Events: &ref})
	if err != nil {
		t.Fatal(err)
	}
	events := []audit.Event{{Type: audit.SessionCreated, Subject: s}, {Type: audit.ExecStarted, Subject: s, ExecID: "1"}}
	if err := errors.Join(l.Append(t.Context(), events...), made.Marks().Add(events...)); err != nil {
		t.Fatal(err)
	}
	made.Abandon()
	return path
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// What a dead launcher owes the log is written, with as many and as long labels as
// there can be; looking writes nothing.
func TestReapWritesEvents(t *testing.T) {
	labels := map[string]string{}
	for i := range jailer.MaxLabels {
		labels[fmt.Sprintf("%063d", i)] = strings.Repeat("<", jailer.MaxLabelBytes)
	}
	d := open(t)
	path := dead(t, d, labels, false)
	if leaks, err := d.Reap(t.Context(), true); err != nil || len(leaks) != 1 || leaks[0].Record == nil || len(lines(t, path)) != 2 {
		t.Fatalf("dry run: %v %v, %d records", leaks, err, len(lines(t, path)))
	}
	for range 2 {
		if _, err := d.Reap(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		got := lines(t, path)
		if len(got) != 5 {
			t.Fatalf("%d records", len(got))
		}
		for i, typ := range []audit.Type{audit.ExecFinished, audit.GCReaped, audit.SessionDestroyed} {
			l := got[2+i]
			if !strings.Contains(l, `"type":"`+string(typ)+`"`) || !strings.Contains(l, `"uid":7`) || strings.Count(l, `:"\u003c`) != len(labels) {
				t.Errorf("%s: %.300s", typ, l)
			}
		}
	}
}

// The log was moved away while the jail lived: its directory knows what was begun.
func TestReapMovedLog(t *testing.T) {
	d := open(t)
	path := dead(t, d, nil, false)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if leaks, err := d.Reap(t.Context(), false); err != nil || len(leaks) != 1 || !leaks[0].Removed {
		t.Fatalf("%+v %v", leaks, err)
	}
	got := lines(t, path)
	if len(got) != 3 || !strings.Contains(got[0], `"exec.finished"`) || !strings.Contains(got[0], `"execId":"1"`) || !strings.Contains(got[2], `"session.destroyed"`) {
		t.Errorf("%q", got)
	}
}

// A log that can't be written: the record stays, unless events may be lost.
func TestReapWithoutEvents(t *testing.T) {
	for _, mayLose := range []bool{false, true} {
		t.Run(fmt.Sprint(mayLose), func(t *testing.T) {
			d := open(t)
			path := dead(t, d, nil, mayLose)
			if err := os.Chmod(path, 0o666); err != nil {
				t.Fatal(err)
			}
			leaks, err := d.Reap(t.Context(), false)
			if err != nil || len(leaks) != 1 {
				t.Fatalf("%v %v", leaks, err)
			}
			l := leaks[0]
			if l.Removed != mayLose || (l.Err == "") != mayLose || (l.Warning != "") != mayLose {
				t.Errorf("%+v", l)
			}
		})
	}
}

// lockLog keeps everybody from writing to the log.
func lockLog(t *testing.T, path string) *os.File {
	t.Helper()
	lock, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return lock
}

// A lock that somebody keeps holds one collection up once, not once for each jail.
func TestReapLockedLog(t *testing.T) {
	t.Parallel()
	d := open(t)
	var path string
	for i := range 4 {
		path = deadAs(t, d, fmt.Sprint("dead", i), nil, false)
	}
	lock := lockLog(t, path)
	for _, wait := range []time.Duration{time.Minute, 100 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		began := time.Now()
		leaks, err := d.Reap(ctx, false)
		if took := time.Since(began); err != nil || len(leaks) != 4 || took > 9*time.Second || wait < time.Second && took > 3*time.Second {
			t.Errorf("%d leaks after %v: %v", len(leaks), took, err)
		}
		for _, l := range leaks {
			if l.Removed || !strings.Contains(l.Err, "another process holds the lock") {
				t.Errorf("%+v", l)
			}
		}
	}
	lock.Close()
	if leaks, err := d.Reap(t.Context(), false); err != nil || len(leaks) != 4 || !leaks[3].Removed {
		t.Errorf("%+v %v", leaks, err)
	}
}

// A reader makes nothing, and finds what a writer made.
func TestFindEvents(t *testing.T) {
	at := t.TempDir() + "/state"
	p, err := FindEvents(at, "")
	if _, gone := os.Lstat(at); err != nil || gone == nil {
		t.Fatalf("%v; the directory was made", err)
	}
	d, err := Open(at, "")
	if err != nil {
		t.Fatal(err)
	}
	if want, err := d.EventsPath(); err != nil || p != want {
		t.Errorf("%s, want %s: %v", p, want, err)
	}
	if err := os.Chmod(at+"/.priv", 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := FindEvents(at, ""); err == nil {
		t.Error("a log in a directory of others is found")
	}
}

func TestEventsPathRefuses(t *testing.T) {
	d := open(t)
	if err := os.Symlink(t.TempDir(), d.Path+"/.priv"); err != nil {
		t.Fatal(err)
	}
	if p, err := d.EventsPath(); err == nil {
		t.Errorf("a link: %s", p)
	}
}
