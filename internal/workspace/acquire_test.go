package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/need"
)

// FuzzName: what parses is spelt one way, and two names never have one directory.
func FuzzName(f *testing.F) {
	for _, s := range []string{"a/b", "a/b.c", "a b/c", "A/b", "a/b/c", "../x", "a/..", "a/\u0430", "ab/c", "a/bc"} {
		f.Add(s, "a/b")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		n, err := ParseName(a)
		if err != nil {
			coded(t, err, jailer.CodeInvalidRequest)
			return
		}
		if n.String() != a || strings.ContainsAny(n.dir(), "/.") || len(n.dir()) != 64 {
			t.Errorf("%q: %q %q", a, n, n.dir())
		}
		if m, err := ParseName(b); err == nil && (m.dir() == n.dir()) != (a == b) {
			t.Errorf("%q and %q", a, b)
		}
	})
}

// One of many has it, and the others are told who.
func TestOneWriter(t *testing.T) {
	s := store(t)
	for n := range need.Times(100) {
		var ps [2]*process
		for i := range ps {
			ps[i] = another(t, s, fmt.Sprint("w", i))
		}
		won := -1
		for i, p := range ps {
			switch said := p.says(t); {
			case said == "holds" && won < 0:
				won = i
			case said == "holds":
				t.Fatal("two writers")
			case !strings.Contains(said, "workspace acme/site is in use by session w"+fmt.Sprint(1-i)+" "):
				t.Errorf("%d: %s", n, said)
			}
		}
		if won < 0 {
			t.Fatal("nobody has it")
		}
		ps[won].in.Close()
		if said := ps[won].says(t); said != "<nil>" {
			t.Error(said)
		}
		for _, p := range ps {
			p.Wait()
		}
	}
}

// A holder that is killed leaves it free, and his mark: whoever comes next ends what he
// has left, or doesn't get it.
func TestKilledHolder(t *testing.T) {
	s := store(t)
	for _, remove := range []bool{false, true} {
		p := another(t, s, "dies")
		if said := p.says(t); said != "holds" {
			t.Fatal(said)
		}
		p.Process.Kill()
		p.Wait()
		stuck := errors.New("its jail is still there")
		refuse := func(context.Context, Holder) error { return stuck }
		for range 2 { // and the mark stays
			_, err := s.mine(t, Options{Reap: refuse})
			coded(t, err, jailer.CodeWorkspaceBusy, "session dies", "still there")
			if err := s.Remove(t.Context(), other, nil, refuse); !errors.Is(err, stuck) {
				t.Error(err)
			}
		}
		var reaped []string
		reap := func(_ context.Context, h Holder) error { reaped = append(reaped, h.SessionID); return nil }
		if remove {
			if err := s.Remove(t.Context(), other, nil, reap); err != nil {
				t.Fatal(err)
			}
		} else {
			w, err := s.mine(t, Options{Reap: reap})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if w, err = s.mine(t, Options{Reap: refuse}); err != nil { // nothing more to end
				t.Fatal(err)
			}
			w.Close()
		}
		if fmt.Sprint(reaped) != "[dies]" {
			t.Errorf("reaped %v", reaped)
		}
	}
}

// The lock is held for as long as anybody has the descriptor that was handed out, whoever
// is gone, and then nobody is named who has not got it.
func TestHold(t *testing.T) {
	s := store(t)
	w, err := s.mine(t, Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	held, err := w.Hold()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = s.mine(t, Options{})
	coded(t, err, jailer.CodeWorkspaceBusy, "is in use; its session is over, and a file command of it")
	held.Close()
	if w, err = s.mine(t, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestReaders(t *testing.T) {
	s := store(t)
	if w, err := s.mine(t, Options{Create: true}); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	a, b := another(t, s, "ra", "WORKSPACE_TEST_RO=1"), another(t, s, "rb", "WORKSPACE_TEST_RO=1")
	if x, y := a.says(t), b.says(t); x != "holds" || y != "holds" {
		t.Fatal(x, y)
	}
	_, err := s.mine(t, Options{})
	coded(t, err, jailer.CodeWorkspaceBusy, "session r")
	a.Process.Kill()
	a.Wait()
	b.in.Close()
	b.Wait()
	w, err := s.mine(t, Options{Reap: func(context.Context, Holder) error { return errors.New("a reader leaves nothing") }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.mine(t, Options{ReadOnly: true})
	coded(t, err, jailer.CodeWorkspaceBusy, "session mine")
	w.Close()
	_, err = s.Acquire(t.Context(), Name{"acme", "none"}, Options{ReadOnly: true})
	coded(t, err, jailer.CodeWorkspaceNotFound)
}

// Who only looks is in nobody's way.
func TestListBesideAcquire(t *testing.T) {
	s := store(t)
	stop := make(chan struct{})
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := s.List(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range need.Times(100) {
		w, err := s.mine(t, Options{Create: true})
		if err != nil {
			t.Error(err)
			break
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	work.Wait()
}

func TestToken(t *testing.T) {
	s := store(t)
	hash := func(s string) []byte { h := sha256.Sum256([]byte(s)); return h[:] }
	w, err := s.mine(t, Options{Create: true, TokenHash: hash("right")})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	for _, token := range [][]byte{nil, {}, hash("wrong"), hash("right")[:31], []byte("right")} {
		_, err := s.mine(t, Options{TokenHash: token})
		coded(t, err, jailer.CodeUnauthorized, "token")
		coded(t, s.Remove(t.Context(), other, token, nil), jailer.CodeUnauthorized)
	}
	b, err := os.ReadFile(filepath.Join(s.dirOf(other), recordFile))
	if err != nil || strings.Contains(string(b), "right") {
		t.Errorf("%s %v", b, err)
	}
	if err := s.Remove(t.Context(), other, hash("right"), nil); err != nil {
		t.Error(err)
	}
}

// Made, removed and killed at any moment: what is left a sweep removes, and never what
// lives.
func TestKillAtAnyMoment(t *testing.T) {
	s := store(t)
	began := time.Now()
	p := another(t, s, "whole", "WORKSPACE_TEST_REMOVE=1")
	p.says(t)
	p.in.Close()
	p.says(t)
	p.Wait()
	whole := time.Since(began)
	for n := range need.Times(60) {
		p := another(t, s, "k", "WORKSPACE_TEST_REMOVE=1")
		p.in.Close()
		time.Sleep(whole * time.Duration(n%30) / 30)
		p.Process.Kill()
		p.Wait()
		w, err := s.mine(t, Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(w.Path()); err != nil {
			t.Error(err)
		}
		if n%2 == 0 {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		} else if err := w.remove(soon(t)); err != nil {
			t.Error(err)
		}
	}
	old := time.Now().Add(-2 * stageTime)
	for _, d := range []string{workspaces, uids} {
		names, _ := filepath.Glob(filepath.Join(s.path, d, "*"))
		hidden, _ := filepath.Glob(filepath.Join(s.path, d, ".*"))
		for _, n := range append(names, hidden...) {
			_ = os.Chtimes(n, old, old)
		}
	}
	if _, err := s.Prune(soon(t), time.Nanosecond, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{workspaces, trash, uids} {
		left, err := os.ReadDir(filepath.Join(s.path, d))
		if err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v %v", d, left, err)
		}
	}
}

// A record that is no record: said, and removed on request.
func TestDamagedRecord(t *testing.T) {
	s := store(t)
	for _, content := range []string{"", "{", `{"v":9}`, "none"} {
		w, err := s.mine(t, Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		if err := os.WriteFile(filepath.Join(s.dirOf(other), recordFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if content == "none" {
			if err := os.Remove(filepath.Join(s.dirOf(other), recordFile)); err != nil {
				t.Fatal(err)
			}
		}
		_, err = s.mine(t, Options{})
		coded(t, err, jailer.CodeInternal, "record")
		if content == `{"v":9}` { // of a later program: that has to remove it
			coded(t, s.Remove(soon(t), other, nil, nil), jailer.CodeInternal, "version 9")
			if err := os.WriteFile(filepath.Join(s.dirOf(other), recordFile), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if all, err := s.List(); content != "none" && (err != nil || len(all) != 1 || all[0].Err == nil) {
			t.Errorf("%+v %v", all, err)
		}
		if removed, err := s.Prune(soon(t), time.Nanosecond, false, nil); err != nil || len(removed) != 0 {
			t.Errorf("%+v %v", removed, err)
		}
		if err := s.Remove(soon(t), other, nil, nil); err != nil {
			t.Error(err)
		}
	}
}

// What a job has left goes, whoever's it is.
func TestRemoveWhateverIsLeft(t *testing.T) {
	s := store(t)
	w, err := s.mine(t, Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"a\nb", "\xff", "shut/in"} {
		if err := os.MkdirAll(filepath.Join(w.Path(), p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("/etc", filepath.Join(w.Path(), "l")), unix.Mkfifo(filepath.Join(w.Path(), "p"), 0), os.Chmod(filepath.Join(w.Path(), "shut"), 0)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Lchown(filepath.Join(w.Path(), "shut"), 54321, 54321); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.remove(soon(t)); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.path, "*", "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// An id of a workspace's is nobody else's while that is there, and of another store's
// nothing is said.
func TestUIDs(t *testing.T) {
	need.Root(t)
	s := store(t)
	w, err := s.mine(t, Options{Create: true, NewUID: func() (int, int, error) { return 54321, 54322, nil }})
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(w.Path(), &st); err != nil || st.Uid != 54321 || st.Gid != 54322 || w.HostUID != 54321 {
		t.Errorf("%d:%d %v", st.Uid, st.Gid, err)
	}
	foreign := filepath.Join(s.uids, "777")
	if err := os.WriteFile(foreign, []byte("/nowhere/workspaces/x"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * stageTime)
	for _, m := range []string{foreign, s.marker(54321)} {
		if err := os.Chtimes(m, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Sweep(soon(t), false); err != nil {
		t.Error(err)
	}
	for _, m := range []string{foreign, s.marker(54321)} {
		if _, err := os.Stat(m); err != nil {
			t.Errorf("freed: %v", err)
		}
	}
	if err := w.remove(soon(t)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.marker(54321)); err == nil {
		t.Error("not freed")
	}
}

// One who was killed, and has not had his turn to die, is no living holder.
func TestDying(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	pid := cmd.Process.Pid
	if startTime(pid) == 0 {
		t.Error("one that lives is none")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if startTime(pid) == 0 {
		t.Error("one that is stopped is none")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if n := startTime(pid); n != 0 {
		t.Errorf("one that is killed began at %d", n)
	}
}
