package audit

import (
	"context"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/jailer-project/jailer"
)

// A Ref is what the record of a session on disk says about its events, for the
// one who has to write those that its launcher could not.
type Ref struct {
	Path    string  `json:"path"`
	MayLose bool    `json:"mayLose,omitempty"` // an event that can't be written is a warning
	Inode   uint64  `json:"inode"`             // of the file in which the session begins
	Begins  string  `json:"begins,omitempty"`  // how that file begins: an inode may be another file's later
	Offset  int64   `json:"offset"`            // none of its records is before it
	Subject Subject `json:"subject"`
}

// Ref is that of a session that begins after Open.
func (l *Log) Ref(s Subject) Ref {
	return Ref{Path: l.path, Inode: l.inode, Begins: l.begins, Offset: l.size, Subject: s}
}

// Reap writes what the launcher of a session owes the log and can't write any
// more: an end for each command that it began, the session's own, and that it was
// reaped. The log and the marks say what was written already, perhaps into a file
// that was moved away since. The log is locked meanwhile, so that each record comes
// once, however often collectors are killed on the way.
func (r Ref) Reap(ctx context.Context, createdAt time.Time, marks Marks) error {
	l, err := Open(r.Path)
	if err != nil {
		return err
	}
	return l.locked(ctx, func(f *os.File, t tail) error {
		from, err := r.from(f)
		if err != nil {
			return err
		}
		o := owed{id: r.Subject.SessionID}
		for _, h := range marks.heads(o.id) {
			_ = o.see(Line{Head: h})
		}
		rd := &reader{f: f, at: from, each: o.see}
		if err := rd.more(); err != nil {
			return err
		}
		if rd.pending() {
			if h, ok := parse(rd.rest); ok { // it lacks its end alone, which write adds
				_ = o.see(Line{Head: h})
			}
		}
		missing := o.events(r.Subject, createdAt)
		if len(missing) == 0 {
			return nil
		}
		if err := l.write(f, t, missing); err != nil {
			return err
		}
		_ = marks.Add(missing...) // the directory goes next; if not, the log itself says it
		return nil
	})
}

// from is where the session's records begin: in the file that it began in, or, in
// any other, anywhere.
func (r Ref) from(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	b, err := begins(f)
	if err != nil || inode(st) != r.Inode || st.Size() < r.Offset || r.Offset > 0 && b != r.Begins {
		return 0, err
	}
	return r.Offset, nil
}

// begins is how a log begins: the first record's seq and time tell two apart.
func begins(f *os.File) (string, error) {
	b := make([]byte, 64)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return hex.EncodeToString(b[:n]), err
}

func inode(st os.FileInfo) uint64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

// owed is what a session still owes.
type owed struct {
	id        string
	created   bool
	destroyed bool
	reaped    bool
	ended     bool    // its launcher came to its end
	running   []begun // without an end
}

// begun is a command that was started.
type begun struct {
	id  string
	how Type
}

func (b begun) end() Type {
	if b.how == ProcessStarted {
		return ProcessExited
	}
	return ExecFinished
}

func (o *owed) see(l Line) error {
	if l.Damage != "" || l.SessionID != o.id {
		return nil
	}
	switch l.Type {
	case SessionCreated: // an id may have been another session's before
		*o = owed{id: o.id, created: true, ended: o.ended}
	case SessionDestroyed:
		o.destroyed = true
	case GCReaped:
		o.reaped = true
	case launcherEnded:
		o.ended = true
	case ExecStarted, ProcessStarted:
		if b := (begun{l.ExecID, l.Type}); !slices.Contains(o.running, b) { // marked, and read
			o.running = append(o.running, b)
		}
	case ExecFinished, ProcessExited:
		o.running = slices.DeleteFunc(o.running, func(b begun) bool { return b.id == l.ExecID })
	}
	return nil
}

func (o *owed) events(s Subject, createdAt time.Time) []Event {
	var out []Event
	why := "launcher.lost"
	if o.ended {
		why = "events.lost"
	}
	for _, b := range o.running {
		out = append(out, Event{Type: b.end(), Subject: s, ExecID: b.id, Data: Finished{
			Error: &Failure{Code: jailer.CodeInternal, Op: "gc", Reason: why},
		}})
	}
	if !o.reaped {
		out = append(out, Event{Type: GCReaped, Subject: s, Data: Reaped{createdAt}})
	}
	if o.created && !o.destroyed {
		out = append(out, Event{Type: SessionDestroyed, Subject: s, Data: Destroyed{Failed}})
	}
	return out
}
