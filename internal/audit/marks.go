package audit

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Marks is the path of a file beside a session's record: what of the session is in
// the log, which may be moved away, cut or replaced while the session lives. Each
// mark follows its record, so that it never says more than the log did. Nothing is
// synced: it outlives its writer, not the host.
type Marks string

// launcherEnded is the mark, and no record, of a launcher that knew how its command
// ended. It precedes the records of that.
const launcherEnded Type = "launcher.ended"

// Ended is marked before the session's last records are written: if they can't be,
// the launcher wasn't lost, but what it knew.
func (m Marks) Ended() error { return m.Add(Event{Type: launcherEnded}) }

// Add marks events that the log has taken.
func (m Marks) Add(events ...Event) error { return m.write(string(m), os.O_APPEND, events) }

// Replace makes these the only marks: a session with many commands has no end of
// them, and those of commands that are over say nothing.
func (m Marks) Replace(events ...Event) error {
	next := string(m) + ".new"
	if err := m.write(next, os.O_TRUNC, events); err != nil {
		return err
	}
	return os.Rename(next, string(m))
}

func (m Marks) write(path string, flag int, events []Event) error {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(string(e.Type) + " " + e.ExecID + "\n")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(b.String())
	return err
}

// marksLimit is more, in bytes, than the marks of a session ever are.
const marksLimit = 64 << 10

// heads are the marked records of the session id. None are an empty list: the
// launcher may have died before its first.
func (m Marks) heads(id string) []Head {
	f, err := openLog(string(m))
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, marksLimit)
	n, _ := f.ReadAt(b, 0)
	var out []Head
	for line := range strings.Lines(string(b[:n])) {
		if typ, exec, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok && strings.HasSuffix(line, "\n") {
			out = append(out, Head{Type: Type(typ), SessionID: id, ExecID: exec})
		}
	}
	return out
}
