package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/policy"
)

// Why a session was destroyed, wherever its run ended.
func TestReason(t *testing.T) {
	ran, failed := time.Now(), &jailer.Error{Code: jailer.CodeInternal}
	for name, c := range map[string]struct {
		ended   time.Time
		cause   cause
		abort   *abort
		failure *jailer.Error
		want    audit.Reason
	}{
		"ran":                         {ended: ran, want: audit.Requested},
		"timed out":                   {ended: ran, cause: causeWall, want: audit.Requested},
		"aborted":                     {ended: ran, cause: causeAborted, want: audit.Requested},
		"its owner ended":             {ended: ran, cause: causeOwner, want: audit.OwnerExited},
		"expired":                     {ended: ran, cause: causeTTL, want: audit.TTL},
		"ran, and then jailer failed": {ended: ran, cause: causeTTL, failure: failed, want: audit.Failed},
		"never started":               {want: audit.Failed},
		"its owner ended before":      {abort: &abort{"", audit.OwnerExited}, want: audit.OwnerExited},
		"expired before":              {abort: &abort{"", audit.TTL}, want: audit.TTL},
		"interrupted before":          {abort: &abort{"", audit.Requested}, want: audit.Requested},
	} {
		r := new(Jail)
		r.only = &command{j: r, endedAt: c.ended, cause: c.cause, failure: c.failure}
		if c.abort != nil {
			r.aborted.Store(c.abort)
		}
		if got := r.reason(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The end of a command that the log doesn't take at once is written with what comes
// next: nobody else knows of it once the session's directory is gone.
func TestCommandEndIsOwed(t *testing.T) {
	dir := t.TempDir()
	st, err := state.Open(filepath.Join(dir, "state"), "")
	if err != nil {
		t.Fatal(err)
	}
	session, err := st.Create(state.Record{ID: "owed"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Remove()
	path := filepath.Join(dir, "events.ndjson")
	log, err := audit.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	j := newJail(t.Context(), Options{Policy: new(policy.Policy)})
	j.session, j.plan, j.trail.log = session, &policy.Plan{}, log
	j.plan.Limits.TTL = 300 * time.Millisecond // of the wait for the lock
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := j.recordCommandEnd([]audit.Event{{Type: audit.ExecFinished, ExecID: "1"}}); err == nil {
		t.Fatal("written, though the log is locked")
	}
	lock.Close()
	if err := j.recordCommandEnd([]audit.Event{{Type: audit.ExecFinished, ExecID: "2"}}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"1", "2"} {
		if n := strings.Count(string(b), `"execId":"`+id+`"`); n != 1 {
			t.Errorf("%d ends of command %s:\n%s", n, id, b)
		}
	}
}

// A lock that another process keeps doesn't make a run deaf, before its command and
// after it.
func TestLockedLogIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	log, err := audit.Open(filepath.Join(dir, "events.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "events.ndjson.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ttl     time.Duration
		signals int
		watched bool // the command is about to start
		ended   bool
		onError string
		want    string
	}{
		"two signals":                      {ttl: time.Hour, signals: 2, want: "setup.aborted"},
		"two signals, though it may go on": {ttl: time.Hour, signals: 2, onError: policy.SinkLog, want: "setup.aborted"},
		"the time to live":                 {ttl: 300 * time.Millisecond, want: "setup.aborted"},
		"two signals, watched":             {ttl: time.Hour, signals: 2, watched: true, want: "setup.aborted"},
		"the time to live, watched":        {ttl: 300 * time.Millisecond, watched: true, want: "setup.aborted"},
		"a signal at the end":              {ttl: time.Hour, signals: 1, ended: true, want: "events.sink"},
	} {
		t.Run(name, func(t *testing.T) {
			signals := make(chan os.Signal, 2)
			r := newJail(t.Context(), Options{Signals: signals, Policy: &policy.Policy{Events: policy.Events{OnError: c.onError}}})
			r.plan, r.trail.log = &policy.Plan{}, log
			r.only = r.newCommand(t.Context(), Command{})
			r.plan.Limits.TTL = c.ttl
			if c.ended {
				r.only.endedAt = time.Now()
			}
			if c.watched {
				defer r.watchSetup()()
			}
			for range c.signals {
				signals <- unix.SIGTERM
			}
			began, done := time.Now(), false
			err := r.record(r.patience(), func() { done = true }, audit.Event{Type: audit.ExecStarted})
			e, ok := errors.AsType[*jailer.Error](err)
			if !ok || e.Reason != c.want || done || time.Since(began) > 3*time.Second {
				t.Errorf("%v after %v, want %s", err, time.Since(began), c.want)
			}
		})
	}
}
