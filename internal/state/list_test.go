package state

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/test/need"
)

func make1(t *testing.T, d *Dir, r Record) *Session {
	t.Helper()
	s, err := d.Create(r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUpdate(t *testing.T) {
	d := open(t)
	s := make1(t, d, Record{ID: "one", Cgroups: []string{"/x/jail-one"}, Session: &SessionInfo{TTLMs: 1000, Profile: "agent", Labels: map[string]string{"a": "b"}}})
	before, err := d.Find("one")
	if err != nil || before.Record.Session == nil || before.Record.Session.Profile != "agent" {
		t.Fatalf("%+v %v", before, err)
	}
	if err := s.Update(func(r *Record) {
		r.Session.PID1 = 42
		r.Cgroups = append(r.Cgroups, "/y/jail-one")
		r.ID, r.V, r.PID = "other", 9, 1
	}); err != nil {
		t.Fatal(err)
	}
	after, err := d.Find("one")
	if err != nil || after.Record == nil {
		t.Fatalf("%+v %v", after, err)
	}
	r := after.Record
	if r.Session.PID1 != 42 || len(r.Cgroups) != 2 || r.Session.Labels["a"] != "b" || r.ID != "one" || r.V != 1 || r.PID != os.Getpid() {
		t.Errorf("%+v", r)
	}
	es, _ := os.ReadDir(s.Priv)
	info, err := os.Lstat(filepath.Join(s.Priv, recordFile))
	if err != nil || info.Mode() != 0o600 || len(es) != 1 {
		t.Errorf("%v %v, beside it %v", info.Mode(), err, es)
	}
}

// A record that gc would not read is not written, and the old one stands.
func TestUpdateRefuses(t *testing.T) {
	d := open(t)
	s := make1(t, d, Record{ID: "one", Cgroups: []string{"/x/jail-one"}})
	grow := func(r *Record) { r.Cgroups = []string{strings.Repeat("x", recordLimit)} }
	if err := s.Update(grow); err == nil {
		t.Error("a record without end was written")
	}
	if e, err := d.Find("one"); err != nil || e.Record == nil || e.Record.Cgroups[0] != "/x/jail-one" {
		t.Errorf("%+v %v", e, err)
	}
	big := Record{ID: "two"}
	grow(&big)
	if _, err := d.Create(big); err == nil {
		t.Error("created with it")
	}
	if got := entries(t, d); len(got) != 1 {
		t.Errorf("left %v", got)
	}
	// Somebody's link in the place of the new file is not followed.
	aim := filepath.Join(t.TempDir(), "aim")
	if err := os.Symlink(aim, filepath.Join(s.Priv, recordFile+".new")); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(func(*Record) {}); !errors.Is(err, unix.ELOOP) {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(aim); err == nil {
		t.Error("written through a link")
	}
}

// A reader sees the old record or the new one, never none and never a part.
func TestUpdateIsWhole(t *testing.T) {
	d := open(t)
	s := make1(t, d, Record{ID: "one", Session: &SessionInfo{}})
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !stop.Load() {
				e, err := d.Find("one")
				if err != nil || !e.Alive || e.Record == nil || len(e.Record.Cgroups) != e.Record.Session.PID1%7 {
					t.Errorf("%+v %v", e, err)
					return
				}
			}
		})
	}
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for range need.Times(100) {
				if err := s.Update(func(r *Record) {
					r.Session.PID1++
					r.Cgroups = make([]string, r.Session.PID1%7)
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	if e, _ := d.Find("one"); e.Record == nil || e.Record.Session.PID1 != 3*need.Times(100) {
		t.Errorf("updates are lost: %+v", e.Record)
	}
}

func TestList(t *testing.T) {
	d := open(t)
	if l, err := d.List(); err != nil || len(l) != 0 {
		t.Errorf("%v %v", l, err)
	}
	live := make1(t, d, Record{ID: "live"})
	make1(t, d, Record{ID: "gone"}).Abandon()
	for _, dir := range []string{"bare", "UPPER", ".priv", stagePrefix + "x"} {
		if err := os.Mkdir(filepath.Join(d.Path, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(d.Path, "file"), nil, 0o600)
	os.Symlink(live.Path, filepath.Join(d.Path, "link"))
	l, err := d.List()
	if err != nil || len(l) != 3 {
		t.Fatalf("%+v %v", l, err)
	}
	for i, want := range []struct {
		id            string
		alive, record bool
	}{{"bare", false, false}, {"gone", false, true}, {"live", true, true}} {
		if e := l[i]; e.ID != want.id || e.Path != filepath.Join(d.Path, want.id) || e.Alive != want.alive || (e.Record != nil) != want.record {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
	for _, id := range []string{"none", "file", "link"} {
		if e, err := d.Find(id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %+v %v", id, e, err)
		}
	}
	for _, id := range []string{"", "..", "UPPER", ".priv", "a/b", "live\x00", strings.Repeat("a", 64)} {
		if e, err := d.Find(id); err == nil || errors.Is(err, ErrNotFound) {
			t.Errorf("%q is no id: %+v %v", id, e, err)
		}
	}
}

// Who looks, however many and often, hides no leak from gc and takes no lock from
// a launcher.
func TestLookersHinderNobody(t *testing.T) {
	d := open(t)
	var stop atomic.Bool
	var lookers sync.WaitGroup
	for i := range 4 {
		lookers.Go(func() {
			for !stop.Load() {
				if i > 0 {
					_, _ = alive(filepath.Join(d.Path, "again")) // as often as can be
				} else if _, err := d.List(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range need.Times(100) {
		s := make1(t, d, Record{ID: "again"})
		if i%2 == 0 {
			if err := s.Remove(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		s.Abandon()
		if leaks, err := d.Reap(t.Context(), i%4 == 1); err != nil || len(leaks) != 1 || leaks[0].ID != "again" {
			t.Fatalf("%d: %+v %v", i, leaks, err)
		}
		if i%4 == 1 {
			if l, ok := d.ReapOne(t.Context(), "again"); !ok || !l.Removed {
				t.Fatalf("%d: %+v", i, l)
			}
		}
	}
	stop.Store(true)
	lookers.Wait()
}

// A lock that is shared and kept is waited for, and not for ever; one that is held
// alone is life.
func TestLockDead(t *testing.T) {
	d := open(t)
	s := make1(t, d, Record{ID: "one"})
	begin := time.Now()
	if _, ok := lockDead(t.Context(), s.Path); ok || time.Since(begin) > need.Time(lookTime/2) {
		t.Errorf("a live one: %v after %v", ok, time.Since(begin))
	}
	s.Abandon()
	looker, err := takeLock(s.Path, unix.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := lockDead(t.Context(), s.Path); ok {
		t.Error("shared, and taken")
	}
	time.AfterFunc(50*time.Millisecond, func() { looker.Close() })
	f, ok := lockDead(t.Context(), s.Path)
	if !ok {
		t.Fatal("not taken when the looker had gone")
	}
	f.Close()
	if err := os.RemoveAll(s.Path); err != nil {
		t.Fatal(err)
	}
	if _, ok := lockDead(t.Context(), s.Path); ok {
		t.Error("a directory that is gone")
	}
}

func TestReapOne(t *testing.T) {
	d := open(t)
	live := make1(t, d, Record{ID: "live"})
	make1(t, d, Record{ID: "gone"}).Abandon()
	make1(t, d, Record{ID: "other"}).Abandon()
	l, ok := d.ReapOne(t.Context(), "gone")
	if !ok || !l.Removed || l.ID != "gone" || l.Record == nil {
		t.Errorf("%+v %v", l, ok)
	}
	for _, id := range []string{"gone", "live", "..", "", "none", stagePrefix + "x"} {
		if l, ok := d.ReapOne(t.Context(), id); ok {
			t.Errorf("%q: %+v", id, l)
		}
	}
	if got := fmt.Sprint(entries(t, d)); got != "[live other]" {
		t.Errorf("left %v", got)
	}
	if err := live.Remove(); err != nil {
		t.Error(err)
	}
}

// The socket of a session goes with its directory.
func TestSocketGoes(t *testing.T) {
	d := open(t)
	for _, end := range []func(*Session) error{(*Session).Remove, func(s *Session) error {
		s.Abandon()
		if l, ok := d.ReapOne(t.Context(), s.ID); !ok || !l.Removed {
			return fmt.Errorf("%+v", l)
		}
		return nil
	}} {
		s := make1(t, d, Record{ID: "one"})
		dir, err := os.Open(s.Priv)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/ctl", dir.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Lstat(filepath.Join(s.Priv, "ctl")); err != nil || st.Mode()&os.ModeSocket == 0 {
			t.Errorf("%v %v", st, err)
		}
		if err := end(s); err != nil {
			t.Error(err)
		}
		l.Close()
		dir.Close()
		if got := entries(t, d); len(got) != 0 {
			t.Errorf("left %v", got)
		}
	}
}

// age makes a directory as old as one that was left behind some time ago.
func age(t *testing.T, path string) {
	t.Helper()
	past := time.Now().Add(-time.Minute)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
}

func TestReapSome(t *testing.T) {
	d := open(t)
	for i := range 5 {
		s := make1(t, d, Record{ID: fmt.Sprint("gone", i)})
		s.Abandon()
		age(t, s.Path)
	}
	live := make1(t, d, Record{ID: "live"})
	age(t, live.Path)
	make1(t, d, Record{ID: "young"}).Abandon()
	stage := filepath.Join(d.Path, stagePrefix+"old")
	os.Mkdir(stage, 0o700)
	age(t, stage)
	for _, n := range []int{0, 1, 2} {
		if leaks := d.ReapSome(t.Context(), n); len(leaks) > n {
			t.Errorf("%d: %+v", n, leaks)
		}
	}
	for range need.Times(50) { // one may run out of its time
		d.ReapSome(t.Context(), 100)
	}
	if got := fmt.Sprint(entries(t, d)); got != "[live young]" {
		t.Errorf("left %v", got)
	}
	if err := live.Remove(); err != nil {
		t.Error(err)
	}
	if leaks := (&Dir{Path: "/nonexistent"}).ReapSome(t.Context(), 1); len(leaks) != 0 {
		t.Errorf("%v", leaks)
	}
}

// What is owed to the log is written at a start as by gc; a lock on the log that
// somebody keeps delays no start, and one that can't be reaped hides no other.
func TestReapSomeWritesEvents(t *testing.T) {
	d := open(t)
	path := dead(t, d, nil, false)
	age(t, filepath.Join(d.Path, "dead"))
	lock := lockLog(t, path)
	begin := time.Now()
	leaks := d.ReapSome(t.Context(), 4)
	if took := time.Since(begin); len(leaks) != 1 || leaks[0].Removed || leaks[0].Err == "" || took > need.Time(time.Second) {
		t.Errorf("%+v after %v", leaks, took)
	}
	age(t, filepath.Join(d.Path, "dead"))
	other := make1(t, d, Record{ID: "other"})
	other.Abandon()
	age(t, other.Path)
	for i := 0; ; i++ {
		if leaks := d.ReapSome(t.Context(), 1); len(leaks) == 1 && leaks[0].ID == "other" && leaks[0].Removed {
			break
		}
		if i == 100 {
			t.Fatal("hidden for ever")
		}
	}
	lock.Close()
	if leaks := d.ReapSome(t.Context(), 4); len(leaks) != 1 || !leaks[0].Removed {
		t.Errorf("%+v", leaks)
	}
	got := strings.Join(lines(t, path), "\n")
	for _, typ := range []audit.Type{audit.ExecFinished, audit.GCReaped, audit.SessionDestroyed} {
		if strings.Count(got, `"type":"`+string(typ)+`"`) != 1 {
			t.Errorf("%s: %s", typ, got)
		}
	}
}

// amongLive times what is done beside so many live jails.
func amongLive(b *testing.B, do func(d *Dir, live int) bool) {
	for _, n := range []int{0, 64, 1000} {
		b.Run(fmt.Sprint(n, "live"), func(b *testing.B) {
			d, err := Open(filepath.Join(b.TempDir(), "jailer"), "")
			if err != nil {
				b.Fatal(err)
			}
			for i := range n {
				s, err := d.Create(Record{ID: fmt.Sprint("live", i)})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Remove()
			}
			for b.Loop() {
				if !do(d, n) {
					b.Fatal("wrong")
				}
			}
		})
	}
}

func BenchmarkReapSome(b *testing.B) {
	amongLive(b, func(d *Dir, _ int) bool { return len(d.ReapSome(b.Context(), 4)) == 0 })
}

func BenchmarkList(b *testing.B) {
	amongLive(b, func(d *Dir, live int) bool {
		l, err := d.List()
		return err == nil && len(l) == live
	})
}
