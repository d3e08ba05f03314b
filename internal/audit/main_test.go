package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/need"
)

// TestMain doubles as a writer that is killed: it says each event that Append has
// taken.
func TestMain(m *testing.M) {
	if path := os.Getenv("AUDIT_TEST_WRITE"); path != "" {
		write(path, os.Getenv("AUDIT_TEST_NAME"))
		return
	}
	os.Exit(m.Run())
}

func write(path, name string) {
	l, err := Open(path)
	for i := 0; err == nil; i++ {
		id := fmt.Sprintf("%s-%d", name, i)
		err = l.Append(context.Background(), Event{Type: ExecStarted, Subject: Subject{SessionID: id, Labels: map[string]string{"fill": strings.Repeat("x", 900)}}})
		if err == nil {
			fmt.Println(id)
		}
	}
	fmt.Println(err)
}

func open(t testing.TB) *Log {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := Open(filepath.Join(dir, "events.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// event has a session's id alone.
func event(typ Type, id string) Event { return Event{Type: typ, Subject: Subject{SessionID: id}} }

func add(t testing.TB, l *Log, events ...Event) {
	t.Helper()
	if err := l.Append(context.Background(), events...); err != nil {
		t.Fatal(err)
	}
}

func content(t testing.TB, l *Log) string {
	t.Helper()
	b, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// read gives what a reader makes of the log: "seq type session", or the damage. It
// fails the test where seq doesn't rise, or a record is no JSON.
func read(t testing.TB, path string) (records, damage []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), need.Time(time.Minute))
	defer cancel()
	last := int64(0)
	err := Read(ctx, path, false, func(l Line) error {
		if l.Damage != "" {
			damage = append(damage, l.Damage)
			return nil
		}
		if l.Seq <= last {
			t.Errorf("seq %d after %d", l.Seq, last)
		}
		if !json.Valid(l.Text) {
			t.Errorf("no JSON: %q", l.Text)
		}
		last = l.Seq
		records = append(records, fmt.Sprintf("%d %s %s", l.Seq, l.Type, l.SessionID))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records, damage
}
