package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/need"
)

// TestMain is also another holder: it takes a workspace, says so, and keeps it until its
// standard input ends, or it is killed. Or it is a job, in a jail that is watched.
func TestMain(m *testing.M) {
	if name := os.Getenv("WORKSPACE_TEST_JOB"); name != "" {
		jobs[name]()
		time.Sleep(time.Hour) // with what it has open; it is killed
		return
	}
	if path := os.Getenv("WORKSPACE_TEST_STORE"); path != "" {
		hold(path)
		return
	}
	os.Exit(m.Run())
}

var other = Name{"acme", "site"}

func hold(path string) {
	s := &Store{path: path, uids: filepath.Join(path, uids)}
	id := os.Getenv("WORKSPACE_TEST_ID")
	w, err := s.Acquire(context.Background(), other, Options{
		Create: true, ReadOnly: os.Getenv("WORKSPACE_TEST_RO") != "", Holder: Holder{SessionID: id}.Self(),
		Reap: func(_ context.Context, h Holder) error { fmt.Println("reaps", h.SessionID); return nil },
	})
	if err != nil {
		fmt.Println("refused", err)
		return
	}
	fmt.Println("holds")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	if os.Getenv("WORKSPACE_TEST_REMOVE") != "" {
		fmt.Println(w.remove(context.Background()))
		return
	}
	fmt.Println(w.Close())
}

// store is one of the test's own.
func store(t testing.TB) *Store {
	t.Helper()
	path := t.TempDir()
	s := &Store{path: path, uids: filepath.Join(path, uids)}
	for _, d := range []string{workspaces, trash, uids} {
		if err := ownDir(filepath.Join(path, d)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// A process is another holder.
type process struct {
	*exec.Cmd
	out *bufio.Reader
	in  interface{ Close() error }
}

func another(t testing.TB, s *Store, id string, env ...string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(env, "WORKSPACE_TEST_STORE="+s.path, "WORKSPACE_TEST_ID="+id, "GORACE=atexit_sleep_ms=0")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &process{cmd, bufio.NewReader(out), in}
}

// says is its next line.
func (p *process) says(t testing.TB) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(s, "\n")
}

func (s *Store) mine(t testing.TB, o Options) (*Workspace, error) {
	t.Helper()
	if o.Holder.SessionID == "" {
		o.Holder = Holder{SessionID: "mine"}.Self()
	}
	return s.Acquire(t.Context(), other, o)
}

func coded(t testing.TB, err error, code jailer.Code, words ...string) {
	t.Helper()
	e, ok := errors.AsType[*jailer.Error](err)
	if !ok || e.Code != code {
		t.Errorf("%v, want %s", err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(e.Error(), w) {
			t.Errorf("%v, want %q in it", err, w)
		}
	}
}

func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), need.Time(60*time.Second))
	t.Cleanup(cancel)
	return ctx
}
