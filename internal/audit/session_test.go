package audit

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// begin opens the log anew, as the launcher of a session does.
func begin(t *testing.T, l *Log, s Subject) Ref {
	t.Helper()
	own, err := Open(l.path)
	if err != nil {
		t.Fatal(err)
	}
	return own.Ref(s)
}

func TestReap(t *testing.T) {
	created, started, finished := event(SessionCreated, "x"), Event{Type: ExecStarted, ExecID: "1"}, Event{Type: ExecFinished, ExecID: "1"}
	second := Event{Type: ExecStarted, ExecID: "2"}
	destroyed, leaked := event(SessionDestroyed, "x"), event(SessionLeaked, "x")
	for _, e := range []*Event{&started, &finished, &second} {
		e.SessionID = "x"
	}
	other := event(ExecStarted, "other") // of a session that lives
	for _, c := range []struct {
		name string
		log  []Event
		want string
	}{
		{"nothing was written", nil, "gc.reaped"},
		{"created", []Event{created}, "gc.reaped session.destroyed"},
		{"started", []Event{created, other, started}, "exec.finished 1,gc.reaped session.destroyed"},
		{"two started", []Event{created, started, second}, "exec.finished 1,exec.finished 2,gc.reaped session.destroyed"},
		{"one of two finished", []Event{created, started, second, finished}, "exec.finished 2,gc.reaped session.destroyed"},
		{"finished", []Event{created, started, finished}, "gc.reaped session.destroyed"},
		{"leaked", []Event{created, started, finished, leaked}, "gc.reaped session.destroyed"},
		{"all but the directory", []Event{created, started, finished, destroyed}, "gc.reaped"},
		{"a gc was killed", []Event{created, started, finished, event(GCReaped, "x")}, "session.destroyed"},
		{"a gc was killed later", []Event{created, event(GCReaped, "x"), destroyed}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := open(t)
			// The id was another's before, who left without a word.
			add(t, l, created, started, event(GCReaped, "x"))
			ref := begin(t, l, Subject{SessionID: "x", Tenant: "acme", Labels: map[string]string{"job": "42"}, UID: 7})
			if len(c.log) > 0 {
				add(t, l, c.log...)
			}
			marks := noMarks(t)
			n := len(c.log) + 3
			check := func(want string) {
				t.Helper()
				var got []string
				records, _ := read(t, l.path)
				lines := strings.Split(content(t, l), "\n")
				for i, r := range records[n:] {
					f := strings.Fields(r)
					if f[1] == "exec.finished" {
						f[1] += " " + between(lines[n+i], `"execId":"`, `"`)
						if !strings.Contains(lines[n+i], `"data":{"error":{"code":"internal","op":"gc","reason":"launcher.lost"}}`) {
							t.Error(lines[n+i])
						}
					}
					if !strings.Contains(lines[n+i], `"tenant":"acme","labels":{"job":"42"},"uid":7`) {
						t.Error(lines[n+i])
					}
					got = append(got, f[1])
				}
				if strings.Join(got, " ") != strings.ReplaceAll(want, ",", " ") {
					t.Errorf("written: %v, want %s", got, want)
				}
			}
			for range 2 {
				if err := ref.Reap(t.Context(), time.Now(), marks); err != nil {
					t.Fatal(err)
				}
				check(c.want)
			}
		})
	}
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

// The collector is killed as well, after any byte of what it writes: in the end
// each record is there once.
func TestReapIsKilled(t *testing.T) {
	l := open(t)
	ref := begin(t, l, Subject{SessionID: "x"})
	started := Event{Type: ExecStarted, ExecID: "1", Subject: Subject{SessionID: "x"}}
	add(t, l, event(SessionCreated, "x"), started)
	before := content(t, l)
	marks := noMarks(t)
	if err := ref.Reap(t.Context(), time.Now(), marks); err != nil {
		t.Fatal(err)
	}
	written := strings.TrimPrefix(content(t, l), before)
	for cut := range len(written) {
		if err := os.WriteFile(l.path, []byte(before+written[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := ref.Reap(t.Context(), time.Now(), noMarks(t)); err != nil {
			t.Fatal(err)
		}
		records, _ := read(t, l.path)
		for i := range records {
			_, records[i], _ = strings.Cut(records[i], " ")
		}
		want := []string{"session.created x", "exec.started x", "exec.finished x", "gc.reaped x", "session.destroyed x"}
		if !slices.Equal(records, want) {
			t.Fatalf("cut at %d: %v", cut, records)
		}
	}
}

// noMarks are those of a launcher that died before its first.
func noMarks(t *testing.T) Marks { return Marks(filepath.Join(t.TempDir(), "events")) }

// The log was moved away, cut or replaced while the session lived: whatever was begun
// in the old file, the new one has its end, once.
func TestReapOtherFile(t *testing.T) {
	const end = "exec.finished x,gc.reaped x,session.destroyed x"
	for name, arrange := range map[string]func(l *Log) error{
		"moved":   func(l *Log) error { return os.Rename(l.path, l.path+".1") },
		"cut":     func(l *Log) error { return os.Truncate(l.path, 0) },
		"removed": func(l *Log) error { return os.Remove(l.path) },
		// The same inode, and longer than it was: copied away, cut and written on.
		"cut and grown": func(l *Log) error {
			err := os.Truncate(l.path, 0)
			next := &Log{path: l.path}
			for range 30 {
				err = errors.Join(err, next.Append(t.Context(), event(SessionCreated, "later")))
			}
			return err
		},
	} {
		for _, c := range []struct {
			name          string
			before, after []Type
			want          string // after
		}{
			{"created before, started after", []Type{SessionCreated}, []Type{ExecStarted}, "exec.started x," + end},
			{"started before the move", []Type{SessionCreated, ExecStarted}, nil, end},
			{"finished after the move", []Type{SessionCreated, ExecStarted}, []Type{ExecFinished, SessionDestroyed}, "exec.finished x,session.destroyed x,gc.reaped x"},
			{"finished before the move", []Type{SessionCreated, ExecStarted, ExecFinished, SessionDestroyed}, nil, "gc.reaped x"},
			{"leaked before the move", []Type{SessionCreated, ExecStarted, ExecFinished, SessionLeaked}, nil, "gc.reaped x,session.destroyed x"},
		} {
			t.Run(name+", "+c.name, func(t *testing.T) {
				l := open(t)
				for range 10 {
					add(t, l, event(SessionCreated, "other"))
				}
				own, marks := begin(t, l, Subject{SessionID: "x"}), noMarks(t)
				write := func(types []Type) {
					for _, typ := range types {
						e := event(typ, "x")
						if typ == ExecStarted || typ == ExecFinished {
							e.ExecID = "1"
						}
						add(t, l, e)
						if err := marks.Add(e); err != nil {
							t.Fatal(err)
						}
					}
				}
				write(c.before)
				if err := arrange(l); err != nil {
					t.Fatal(err)
				}
				write(c.after)
				for range 2 {
					if err := own.Reap(t.Context(), time.Now(), marks); err != nil {
						t.Fatal(err)
					}
				}
				var got []string
				for _, r := range recordsOf(t, l.path, "x") {
					got = append(got, r+" x")
				}
				if strings.Join(got, ",") != c.want {
					t.Errorf("%v, want %s", got, c.want)
				}
			})
		}
	}
}

// recordsOf are the types of a session's records.
func recordsOf(t *testing.T, path, id string) []string {
	t.Helper()
	var types []string
	records, _ := read(t, path)
	for _, r := range records {
		if f := strings.Fields(r); f[2] == id {
			types = append(types, f[1])
		}
	}
	return types
}

// A launcher that knew the end, and could not write it, was not lost.
func TestReapAfterEnd(t *testing.T) {
	l := open(t)
	ref, marks := begin(t, l, Subject{SessionID: "x"}), noMarks(t)
	started := Event{Type: ExecStarted, ExecID: "1", Subject: Subject{SessionID: "x"}}
	add(t, l, event(SessionCreated, "x"), started)
	if err := errors.Join(marks.Add(event(SessionCreated, "x"), started), marks.Ended(), ref.Reap(t.Context(), time.Now(), marks)); err != nil {
		t.Fatal(err)
	}
	if got := content(t, l); !strings.Contains(got, `"reason":"events.lost"`) || strings.Contains(got, "launcher.lost") {
		t.Error(got)
	}
}

// Another file in the log's place is read from its beginning, and an id in it may
// have been another session's before.
func TestReapLongerFile(t *testing.T) {
	l := open(t)
	ref := begin(t, l, Subject{SessionID: "x"})
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		t.Fatal(err)
	}
	started := Event{Type: ExecStarted, ExecID: "1", Subject: Subject{SessionID: "x"}}
	add(t, l, event(SessionCreated, "x"), event(GCReaped, "x"), event(SessionDestroyed, "x"))
	add(t, l, event(SessionCreated, "x"), started)
	ref.Offset = int64(len(content(t, l)))
	add(t, l, event(SessionCreated, "other"))
	marks := noMarks(t)
	for range 2 {
		if err := ref.Reap(t.Context(), time.Now(), marks); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := read(t, l.path)
	if want := []string{"7 exec.finished x", "8 gc.reaped x", "9 session.destroyed x"}; !slices.Equal(got[6:], want) {
		t.Errorf("%v", got)
	}
}
