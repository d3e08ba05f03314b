package state

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// TestMain doubles as a process that makes a session and waits to be killed, and
// as one that collects.
func TestMain(m *testing.M) {
	if os.Getenv("STATE_TEST_REAP") != "" {
		d, err := Open(os.Getenv("STATE_TEST_DIR"), "")
		var ids []string
		if err == nil {
			var leaks []Leak
			leaks, err = d.Reap(context.Background(), false)
			for _, l := range leaks {
				ids = append(ids, l.ID)
			}
		}
		fmt.Println(ids, err)
		return
	}
	if dir := os.Getenv("STATE_TEST_HOLD"); dir != "" {
		d, err := Open(dir, "")
		if err == nil {
			_, err = d.Create(Record{ID: os.Getenv("STATE_TEST_ID")})
		}
		fmt.Println("made", err)
		time.Sleep(need.Time(time.Minute))
		return
	}
	os.Exit(m.Run())
}

func open(t *testing.T) *Dir {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), "jailer"), "")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func entries(t *testing.T, d *Dir) []string {
	t.Helper()
	es, err := os.ReadDir(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		out = append(out, e.Name())
	}
	return out
}

func TestCheckID(t *testing.T) {
	for id, ok := range map[string]bool{
		"a": true, "0": true, "job-1_x.y": true, strings.Repeat("a", 63): true,
		"": false, ".": false, "..": false, "-a": false, ".a": false, "A": false, "a/b": false,
		"a b": false, "a\n": false, "a\x00": false, "ä": false, strings.Repeat("a", 64): false, ".new-x": false, ".uids": false,
	} {
		if err := CheckID(id); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", id, err, ok)
		}
	}
	if err := CheckID(NewID()); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	base := t.TempDir()
	link := filepath.Join(base, "link")
	os.Symlink(t.TempDir(), link)
	wide := filepath.Join(base, "wide")
	os.Mkdir(wide, 0o755)
	os.Chmod(wide, 0o777)
	file := filepath.Join(base, "file")
	os.WriteFile(file, nil, 0o600)
	for _, p := range []string{"relative", link, wide, file, filepath.Join(base, "no", "parent")} {
		if d, err := Open(p, ""); err == nil {
			t.Errorf("%s: accepted as %v", p, d)
		}
	}
	if os.Geteuid() == 0 {
		other := filepath.Join(base, "other")
		os.Mkdir(other, 0o700)
		os.Chown(other, 54321, 54321)
		if _, err := Open(other, ""); err == nil || !strings.Contains(err.Error(), "54321") {
			t.Errorf("a directory of another user: %v", err)
		}
	}
}

func TestDuplicateLeavesTheLiveOneAlone(t *testing.T) {
	d := open(t)
	s, err := d.Create(Record{ID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(Record{ID: "one"}); !errors.Is(err, ErrExists) {
		t.Fatalf("second: %v", err)
	}
	if got := entries(t, d); len(got) != 1 {
		t.Errorf("left %v", got)
	}
	if _, err := os.Stat(filepath.Join(s.Priv, "record.json")); err != nil {
		t.Error(err)
	}
	if leaks, err := d.Reap(t.Context(), false); err != nil || len(leaks) != 0 {
		t.Errorf("gc took a live one: %v %v", leaks, err)
	}
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, d); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

func TestReapAfterKill(t *testing.T) {
	d := open(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"STATE_TEST_HOLD=" + d.Path, "STATE_TEST_ID=dead"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "made <nil>\n" {
		t.Fatal(line)
	}
	if leaks, _ := d.Reap(t.Context(), false); len(leaks) != 0 {
		t.Fatalf("reaped while its holder lives: %v", leaks)
	}
	cmd.Process.Kill()
	cmd.Wait()
	leaks, err := d.Reap(t.Context(), true)
	if err != nil || len(leaks) != 1 || leaks[0].Removed || leaks[0].Record == nil || leaks[0].Record.PID != cmd.Process.Pid {
		t.Fatalf("dry run: %+v %v", leaks, err)
	}
	leaks, err = d.Reap(t.Context(), false)
	if err != nil || len(leaks) != 1 || !leaks[0].Removed {
		t.Fatalf("reap: %+v %v", leaks, err)
	}
	if leaks, _ = d.Reap(t.Context(), false); len(leaks) != 0 {
		t.Errorf("a second time: %v", leaks)
	}
	if got := entries(t, d); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

// TestReapRace: creators and collectors at once; nobody loses a live session.
func TestReapRace(t *testing.T) {
	d := open(t)
	ctx, stop := context.WithCancel(t.Context())
	var gc, makers sync.WaitGroup
	for range 3 {
		gc.Go(func() {
			for ctx.Err() == nil {
				if _, err := d.Reap(context.Background(), false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for w := range 4 {
		makers.Go(func() {
			for i := range need.Times(50) {
				s, err := d.Create(Record{ID: fmt.Sprintf("w%d-%d", w, i)})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(filepath.Join(s.Priv, "record.json")); err != nil {
					t.Errorf("a live session was reaped: %v", err)
				}
				if err := s.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	makers.Wait()
	stop()
	gc.Wait()
	if got := entries(t, d); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

func TestReapHalfMade(t *testing.T) {
	d := open(t)
	fresh, old := filepath.Join(d.Path, stagePrefix+"fresh"), filepath.Join(d.Path, stagePrefix+"old")
	os.Mkdir(fresh, 0o700)
	os.Mkdir(old, 0o700)
	past := time.Now().Add(-time.Minute)
	os.Chtimes(old, past, past)
	os.WriteFile(filepath.Join(d.Path, "README"), nil, 0o600) // not ours to touch
	leaks, err := d.Reap(t.Context(), false)
	if err != nil || len(leaks) != 1 || leaks[0].Path != old {
		t.Fatalf("%+v %v", leaks, err)
	}
	if got := entries(t, d); len(got) != 2 {
		t.Errorf("left %v", got)
	}
}

func TestReapRefusesForeignCgroups(t *testing.T) {
	d := open(t)
	precious := t.TempDir()
	s, err := d.Create(Record{ID: "forged", Cgroups: []string{precious}})
	if err != nil {
		t.Fatal(err)
	}
	s.Abandon()
	leaks, err := d.Reap(t.Context(), false)
	if err != nil || len(leaks) != 1 || leaks[0].Removed || leaks[0].Err == "" {
		t.Fatalf("%+v %v", leaks, err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestReapOddRecords(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"a FIFO":   func(p string) error { return unix.Mkfifo(p, 0o600) },
		"a link":   func(p string) error { return os.Symlink("/dev/zero", p) },
		"garbage":  func(p string) error { return os.WriteFile(p, []byte("{"), 0o600) },
		"too long": func(p string) error { return os.WriteFile(p, make([]byte, recordLimit+1), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			if err := os.MkdirAll(filepath.Join(d.Path, "odd", "priv"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := plant(filepath.Join(d.Path, "odd", "priv", "record.json")); err != nil {
				t.Fatal(err)
			}
			leaks, err := d.Reap(t.Context(), false)
			if err != nil || len(leaks) != 1 || !leaks[0].Removed || leaks[0].Record != nil {
				t.Fatalf("%+v %v", leaks, err)
			}
		})
	}
}

func TestCgroupName(t *testing.T) {
	a, b := &Dir{Path: "/tmp/a"}, &Dir{Path: "/tmp/b"}
	if a.CgroupName("x") == b.CgroupName("x") {
		t.Error("two directories name one cgroup")
	}
	if got := (&Dir{Path: rootDir}).CgroupName("x"); got != "x" {
		t.Errorf("root's own: %q", got)
	}
	if CheckID(a.CgroupName("x")) == nil {
		t.Error("an id could be spelled like another directory's cgroup")
	}
}

func TestUIDs(t *testing.T) {
	d := open(t)
	var held []*UID
	seen := map[uint32]bool{}
	for range 4 {
		u, err := d.TakeUID(1900000000, 1900000003, nil)
		if err != nil {
			t.Fatal(err)
		}
		if seen[u.ID] {
			t.Fatalf("%d given twice", u.ID)
		}
		seen[u.ID] = true
		held = append(held, u)
	}
	if _, err := d.TakeUID(1900000000, 1900000003, nil); !errors.Is(err, ErrNoUID) {
		t.Fatalf("a fifth of four: %v", err)
	}
	if err := held[2].Release(); err != nil {
		t.Fatal(err)
	}
	u, err := d.TakeUID(1900000000, 1900000003, nil)
	if err != nil || u.ID != held[2].ID {
		t.Fatalf("%v %v, want the released one", u, err)
	}
	for _, r := range [][2]uint32{{0, 5}, {5, 4}} {
		if _, err := d.TakeUID(r[0], r[1], nil); err == nil {
			t.Errorf("range %v accepted", r)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":"a","cgroups":["/x"]}`))
	f.Add([]byte(`{"v":2}`))
	dir := f.TempDir()
	os.Mkdir(filepath.Join(dir, "priv"), 0o700)
	f.Fuzz(func(t *testing.T, data []byte) {
		os.WriteFile(filepath.Join(dir, "priv", "record.json"), data, 0o600)
		if r, err := readRecord(dir); r != nil && (r.V != 1 || err != nil) {
			t.Errorf("%+v", r)
		}
	})
}
