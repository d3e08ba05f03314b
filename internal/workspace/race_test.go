package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/need"
)

func init() { jobs["races"] = race } // which needs jobs itself

// race does all that can be done to a few workspaces, until it is killed. A line of its
// output is a fault.
func race() {
	path := os.Getenv("WORKSPACE_TEST_STORE")
	s := &Store{path: path, uids: filepath.Join(path, uids)}
	names := []Name{{"acme", "a"}, {"acme", "b"}}
	// A second lock tells who has it at the same time. At the end of a process the kernel
	// closes from the lowest descriptor on: this one goes before the workspace's.
	proofs := map[Name]int{}
	for _, n := range names {
		proofs[n] = try(unix.Open(filepath.Join(path, n.Resource), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600))
	}
	fmt.Println("ready")
	for ctx := context.Background(); ; {
		n := names[rand.IntN(len(names))]
		switch rand.IntN(8) {
		case 0:
			expected("rm", s.Remove(ctx, n, nil, nil))
		case 1:
			_, err := s.Prune(ctx, time.Nanosecond, false, nil)
			expected("prune", err)
		case 2:
			_, err := s.Sweep(ctx, false)
			expected("sweep", err)
		case 3:
			_, err := s.List()
			expected("list", err)
		default:
			o := Options{Create: true, ReadOnly: rand.IntN(2) == 0, Holder: Holder{SessionID: "racer"}.Self()}
			if os.Geteuid() == 0 {
				o.NewUID = func() (int, int, error) { return 1<<30 + rand.IntN(1<<30), 1 << 30, nil }
			}
			w, err := s.Acquire(ctx, n, o)
			if err != nil {
				expected("acquire", err)
				continue
			}
			s.use(w, o, proofs[n])
		}
	}
}

func (s *Store) use(w *Workspace, o Options, proof int) {
	how := unix.LOCK_EX
	if o.ReadOnly {
		how = unix.LOCK_SH
	}
	if err := unix.Flock(proof, how|unix.LOCK_NB); err != nil {
		fmt.Println("beside a writer:", err)
	}
	if b, err := os.ReadFile(s.marker(w.HostUID)); o.NewUID != nil && (err != nil || string(b) != w.dir) {
		fmt.Println("its id is free for others:", err)
	}
	if !o.ReadOnly {
		if err := os.WriteFile(filepath.Join(w.Path(), fmt.Sprint(rand.IntN(10))), nil, 0o600); err != nil {
			fmt.Println("moved away from its holder:", err)
		}
	}
	time.Sleep(rand.N(2 * time.Millisecond))
	check(unix.Flock(proof, unix.LOCK_UN))
	if err := w.Close(); err != nil {
		fmt.Println("close:", err)
	}
}

// expected are the refusals of one who comes second.
func expected(verb string, err error) {
	if e, ok := errors.AsType[*jailer.Error](err); err != nil && (!ok || e.Code != jailer.CodeWorkspaceBusy && e.Code != jailer.CodeWorkspaceNotFound) {
		fmt.Printf("%s: %v\n", verb, err)
	}
}

// Many who make, take, remove and prune, and are killed while they do: there is one writer,
// nothing is taken from under him, and at the end nothing is left.
func TestRaceAndKill(t *testing.T) {
	s := store(t)
	var all sync.WaitGroup
	var kills atomic.Int64
	end := time.Now().Add(need.Time(need.RaceTime()))
	for range 4 {
		all.Go(func() {
			for time.Now().Before(end) {
				cmd := exec.Command(os.Args[0])
				cmd.Env = []string{"WORKSPACE_TEST_JOB=races", "WORKSPACE_TEST_STORE=" + s.path}
				out, err := cmd.StdoutPipe()
				if err := errors.Join(err, cmd.Start()); err != nil {
					t.Error(err)
					return
				}
				lines := bufio.NewScanner(out)
				if lines.Scan(); lines.Text() != "ready" {
					t.Errorf("%q %v", lines.Text(), lines.Err())
				}
				kill := time.AfterFunc(rand.N(100*time.Millisecond), func() { cmd.Process.Kill() })
				for lines.Scan() {
					t.Error(lines.Text())
				}
				kill.Stop()
				cmd.Process.Kill()
				cmd.Wait()
				kills.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%d were killed", kills.Load())
	old := time.Now().Add(-2 * stageTime)
	err := filepath.WalkDir(s.path, func(p string, d os.DirEntry, err error) error {
		if err == nil {
			err = os.Chtimes(p, old, old)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	left, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range left {
		if i.Busy || i.Err != nil {
			t.Errorf("held by the dead: %+v", i)
		}
	}
	removed, err := s.Prune(soon(t), time.Nanosecond, false, nil)
	if err != nil || len(removed) != len(left) {
		t.Errorf("%d of %d: %v", len(removed), len(left), err)
	}
	for _, d := range []string{workspaces, trash, uids} {
		if names, err := os.ReadDir(filepath.Join(s.path, d)); err != nil || len(names) > 0 {
			t.Errorf("left in %s: %v %v", d, names, err)
		}
	}
}

// Who has the lock has that of the workspace which is there, not of one that was moved
// away between his open and his lock.
func TestLockOfWhatIsThere(t *testing.T) {
	s := store(t)
	dir := s.dirOf(other)
	var all sync.WaitGroup
	var locks, removals atomic.Int64
	stop := make(chan struct{})
	time.AfterFunc(need.RaceTime(), func() { close(stop) })
	for i := range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				f, err := takeLock(dir, false)
				if err != nil {
					if i == 0 && errors.Is(err, errAgain) {
						_ = os.Mkdir(dir, 0o700)
					} else if !errors.Is(err, errAgain) && !errors.Is(err, unix.EWOULDBLOCK) {
						t.Error(err)
					}
					continue
				}
				locks.Add(1)
				var here, there unix.Stat_t
				if err := errors.Join(unix.Fstat(int(f.Fd()), &here), unix.Stat(filepath.Join(dir, lockFile), &there)); err != nil || here.Ino != there.Ino {
					t.Errorf("a lock on nothing: %v", err)
				}
				away := filepath.Join(s.path, trash, random())
				if i < 2 {
					if err := os.Rename(dir, away); err != nil {
						t.Error(err)
					}
					removals.Add(1)
				}
				f.Close()
				_ = os.RemoveAll(away)
			}
		})
	}
	all.Wait()
	t.Logf("%d locks, %d removals", locks.Load(), removals.Load())
	if removals.Load() == 0 {
		t.Error("nothing was raced")
	}
}

// Records and marks are read whatever they are: cut, of another program, or planted by
// one who restored a copy.
func FuzzRecord(f *testing.F) {
	for _, b := range []string{
		"", "{", "null", "[]", `{"v":1}`, `{"v":2,"tenant":"acme","resource":"site"}`, `{"v":1e400}`,
		`{"v":1,"tenant":"acme","resource":"site","owner":0,"hostUid":-1}`, `{"v":1,"tenant":"../..","resource":"/etc"}`,
		`{"v":1,"tenant":"acme","resource":"site","tokenSha256":"zz"}`, `{"v":1,"createdAt":"9999-99-99T00:00:00Z"}`,
		`{"sessionId":"s","pid":1,"startTime":18446744073709551615}`, `{"sessionId":"s","pid":-1,"since":"2000-01-01T00:00:00Z"}`,
	} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, holdersDir), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{recordFile, holdersDir + "/x" + markEnd} {
			if err := os.WriteFile(filepath.Join(dir, p), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if h := living(dir); h != nil && (!bytes.Contains(b, []byte(bootID())) || h.SessionID == "") {
			t.Errorf("%+v lives", h)
		}
		r, err := readRecord(dir)
		if err != nil {
			return
		}
		if r.V != recordVersion {
			t.Errorf("%+v", r)
		}
		if err := r.permits(other, nil); err == nil && (r.Tenant != other.Tenant || r.Resource != other.Resource || r.TokenSHA256 != "") {
			t.Errorf("%+v is open", r)
		}
	})
}
