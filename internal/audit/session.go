package audit

import (
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
	Offset  int64   `json:"offset"`            // none of its records is before it
	Subject Subject `json:"subject"`
}

// Ref is that of a session that begins after Open.
func (l *Log) Ref(s Subject) Ref {
	return Ref{Path: l.path, Inode: l.inode, Offset: l.size, Subject: s}
}

// Reap writes what the launcher of a session owes the log and can't write any
// more: an end for each command that it began, the session's own, and that it was
// reaped. The log itself says what is there already, and is locked meanwhile, so
// that each comes once, however often collectors are killed on the way.
func (r Ref) Reap(createdAt time.Time) error {
	l, err := Open(r.Path)
	if err != nil {
		return err
	}
	return l.locked(func(f *os.File, t tail) error {
		st, err := f.Stat()
		if err != nil {
			return err
		}
		from := r.Offset
		if inode(st) != r.Inode || st.Size() < from {
			from = 0
		}
		o := owed{id: r.Subject.SessionID}
		rd := &reader{f: f, at: from, each: o.see}
		if err := rd.more(); err != nil {
			return err
		}
		if rd.pending() {
			if h, ok := parse(rd.rest); ok { // it lacks its end alone, which write adds
				_ = o.see(Line{Head: h})
			}
		}
		if missing := o.events(r.Subject, createdAt); len(missing) > 0 {
			return l.write(f, t, missing)
		}
		return nil
	})
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
	running   []string // execs without an end
}

func (o *owed) see(l Line) error {
	if l.Damage != "" || l.SessionID != o.id {
		return nil
	}
	switch l.Type {
	case SessionCreated: // an id may have been another session's before
		*o = owed{id: o.id, created: true}
	case SessionDestroyed:
		o.destroyed = true
	case GCReaped:
		o.reaped = true
	case ExecStarted:
		o.running = append(o.running, l.ExecID)
	case ExecFinished:
		o.running = slices.DeleteFunc(o.running, func(id string) bool { return id == l.ExecID })
	}
	return nil
}

func (o *owed) events(s Subject, createdAt time.Time) []Event {
	var out []Event
	for _, id := range o.running {
		out = append(out, Event{Type: ExecFinished, Subject: s, ExecID: id, Data: Finished{
			Error: &Failure{Code: jailer.CodeInternal, Op: "gc", Reason: "launcher.lost"},
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
