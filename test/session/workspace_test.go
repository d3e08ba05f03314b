package session

import (
	"bytes"
	"encoding/json"
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
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

type workspace struct {
	Name   string
	Busy   bool
	Token  bool
	Holder *struct{ SessionID string }
}

func workspaces(t testing.TB, c *jail.Caller, dir string) (all []workspace) {
	t.Helper()
	o := do(t, c, "workspace", "list", "--json", "--data-dir", dir)
	if o.Code != 0 || json.Unmarshal([]byte(o.Stdout), &all) != nil {
		t.Fatal(o)
	}
	return all
}

// A workspace outlives its jails, and a run as well as a session has it.
func TestWorkspace(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		dir := c.DataDir(t)
		flags := []string{"--workspace", "acme/site", "--data-dir", dir}
		o := c.Run(t, jail.Job{Flags: flags, Sh: "id -u; pwd; echo one >> log; ls -n | tail -n 1 | cut -d' ' -f3"})
		o.Said(t, "1000\n/workspace\n1000\n")
		if o.Result.Isolation.Limits["workspace"] != "watch" || o.Result.Tenant != "acme" {
			t.Errorf("%+v", o.Result)
		}
		create(t, c, "has", flags...)
		in(t, c, "has", jail.Job{Sh: "echo two >> log; cat log"}).Said(t, "one\ntwo\n")
		if o := ok(t, fsVerb(t, c, "", "cat", "has", "log")); o.Stdout != "one\ntwo\n" {
			t.Errorf("%q", o.Stdout)
		}
		for _, w := range workspaces(t, c, dir) {
			if w.Name != "acme/site" || !w.Busy || w.Holder == nil || w.Holder.SessionID != "has" {
				t.Errorf("%+v", w)
			}
		}
		busy := c.Run(t, jail.Job{Flags: flags, Argv: []string{"true"}})
		if busy.Code != 125 || busy.Err == nil || busy.Err.Code != jailer.CodeWorkspaceBusy || !busy.Err.Retryable || !strings.Contains(busy.Err.Message, "session has ") {
			t.Errorf("%s", busy)
		}
		fails(t, do(t, c, "workspace", "rm", "acme/site", "--data-dir", dir), 1, "in use by session has")
		ok(t, do(t, c, "delete", "has"))
		c.Run(t, jail.Job{Flags: flags, Sh: "cat log"}).Said(t, "one\ntwo\n")
		c.Run(t, jail.Job{Flags: []string{"--workspace", "acme/other", "--data-dir", dir}, Sh: "ls -A"}).Said(t, "")
		ok(t, do(t, c, "workspace", "rm", "acme/site", "--data-dir", dir))
		fails(t, do(t, c, "workspace", "rm", "acme/site", "--data-dir", dir), 1, "no workspace")
		if w := workspaces(t, c, dir); len(w) != 1 || w[0].Name != "acme/other" || w[0].Busy {
			t.Errorf("%+v", w)
		}
	})
}

// A file verb that has outlived its session writes nothing into the workspace, which
// nobody else has before it is over.
func TestWorkspaceLateVerb(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		flags := []string{"--workspace", "acme/late", "--data-dir", c.DataDir(t)}
		begin := func(id string) (put *exec.Cmd, in *os.File, said *bytes.Buffer) {
			t.Helper()
			create(t, c, id, flags...)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { w.Close() })
			put, said = c.Command(t.Context(), "fs", "put", id, "stale"), new(bytes.Buffer)
			put.Stdin, put.Stderr = r, said
			if err := put.Start(); err != nil {
				t.Fatal(err)
			}
			r.Close()
			t.Cleanup(func() { put.Process.Kill(); put.Wait() })
			fmt.Fprint(w, "begun")
			// It holds the workspace once it has read of its input.
			if !jail.Eventually(prompt, func() bool {
				n, err := unix.IoctlGetInt(int(w.Fd()), unix.TIOCINQ)
				return err == nil && n == 0
			}) {
				t.Fatal("the put doesn't read")
			}
			return put, w, said
		}

		put, _, said := begin("one")
		ok(t, do(t, c, "delete", "one"))
		create(t, c, "two", flags...) // at once
		if err := put.Wait(); err == nil || !strings.Contains(said.String(), "the session has ended") {
			t.Errorf("%v: %s", err, said)
		}
		in(t, c, "two", jail.Job{Sh: "ls -A"}).Said(t, "")
		ok(t, do(t, c, "delete", "two"))

		put, w, said := begin("three")
		syscall.Kill(put.Process.Pid, syscall.SIGSTOP)
		syscall.Kill(supervisor(t, c, "three"), syscall.SIGKILL)
		if !jail.Eventually(prompt, func() bool { return strings.Contains(do(t, c, "state", "three").Stdout, `"stopped"`) }) {
			t.Fatal("the supervisor lives")
		}
		busy := c.Run(t, jail.Job{Flags: flags, Argv: []string{"true"}})
		if busy.Code != 125 || busy.Err == nil || busy.Err.Code != jailer.CodeWorkspaceBusy || !strings.Contains(busy.Err.Message, "a file command of it") {
			t.Errorf("%s", busy)
		}
		fmt.Fprint(w, " and ended")
		w.Close()
		syscall.Kill(put.Process.Pid, syscall.SIGCONT)
		if err := put.Wait(); err == nil || !strings.Contains(said.String(), "the session has ended") {
			t.Errorf("%v: %s", err, said)
		}
		c.Run(t, jail.Job{Flags: flags, Sh: "ls -A"}).Said(t, "")
	})
}

// Names that could be another's, or a path.
func TestWorkspaceNames(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		for _, name := range []string{
			"a", "/", "a/", "/b", "a/b/c", "../a", "a/..", "A/b", "a/B", "a/b ", "a/\u0430", "\u0430/b", "a/b\n", "a/.b", "a.b/c", strings.Repeat("x", 150) + "/" + strings.Repeat("y", 150),
		} {
			o := c.Run(t, jail.Job{Flags: []string{"--workspace", name, "--data-dir", filepath.Join(c.Home, "none")}, Argv: []string{"true"}})
			if o.Code != 125 || o.Err == nil || o.Err.Code != jailer.CodeInvalidRequest {
				t.Errorf("%q: %s", name, o)
			}
		}
		if _, err := os.Lstat(filepath.Join(c.Home, "none")); err == nil {
			t.Error("a directory was made for a name that is none")
		}
	})
}

// Of two that want one workspace one has it, and the other is told who. Whose holder is
// killed is free at once, and nothing of the jail before writes any more.
func TestTwoWriters(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		dir := c.DataDir(t)
		run := func(id, sh string) *jail.Outcome {
			return c.Run(t, jail.Job{Flags: []string{"--id", id, "--workspace", "acme/one", "--data-dir", dir}, Sh: sh})
		}
		run("first", "true").Exited(t, 0)
		for n := range need.Times(30) {
			var out [2]*jail.Outcome
			var both sync.WaitGroup
			for i := range out {
				both.Go(func() { out[i] = run(fmt.Sprintf("w%d-%d", n, i), "mkdir mine && sleep 0.3 && rmdir mine") })
			}
			both.Wait()
			won := 0
			for i, o := range out {
				switch {
				case o.Code == 0:
					won++
				case o.Err == nil || o.Err.Code != jailer.CodeWorkspaceBusy || !strings.Contains(o.Err.Message, fmt.Sprintf("session w%d-%d ", n, 1-i)):
					t.Errorf("%s", o)
				}
			}
			if won == 0 {
				t.Errorf("nobody had it: %s\n%s", out[0], out[1])
			}
		}
		for n := range need.Times(10) {
			id := fmt.Sprint("dies", n)
			create(t, c, id, "--workspace", "acme/one", "--data-dir", dir)
			background(t, c, "exec", id, "--", "sh", "-c", "while :; do date +%s%N > beat; done")
			running(t, c, id, 1)
			if err := syscall.Kill(supervisor(t, c, id), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			o := run(fmt.Sprint("heir", n), "cat beat > a; sleep 0.1; cat beat > b; cmp a b")
			if o.Code != 0 {
				t.Errorf("the jail before still writes, or it is not free: %s", o)
			}
		}
	})
}

// Past the quota by data, by files, by one that has no name, or that nobody can look at:
// ended, with little more than was allowed.
func TestWorkspaceQuota(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		dir := c.DataDir(t)
		for name, sh := range map[string]string{
			"data":         `i=0; while :; do head -c 4M /dev/zero > f$i || exit 9; i=$((i+1)); done`,
			"many writers": `for w in 0 1 2 3 4 5 6 7; do (i=0; while :; do head -c 1M /dev/zero > f$w-$i; i=$((i+1)); done) & done; wait`,
			"files": `mkdir d; cd d; python3 -c 'import itertools
for i in itertools.count(): open(str(i), "w")'`,
			"no name": `exec 3> f; exec 4> g; exec 5> h; rm f g h; while :; do head -c 1M /dev/zero >&3; head -c 1M /dev/zero >&4; head -c 1M /dev/zero >&5; done`,
			"undumpable": `python3 -c 'import ctypes, os
assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0
f = [os.open(str(i), os.O_WRONLY | os.O_CREAT) for i in range(8)]
for i in range(8): os.unlink(str(i))
while True:
    for fd in f: os.write(fd, b"x" * (1 << 20))'`,
			"hidden": `mkdir -m 300 shut; cd shut; i=0; while :; do head -c 4M /dev/zero > f$i; i=$((i+1)); done`,
		} {
			t.Run(name, func(t *testing.T) {
				request := fmt.Sprintf(`{"argv":["sh","-c",%q],"workspace":"acme/%s","limits":{"workspaceBytes":33554432,"workspaceInodes":1000,"timeoutMs":%d}}`,
					sh, strings.ReplaceAll(name, " ", "-"), need.Time(20*time.Second).Milliseconds())
				o := c.Do(t, jail.Job{Input: request}, "run", "--json", "--data-dir", dir, "--request", "-")
				r := o.Ended(t, jailer.StatusSignaled, jailer.LimitWorkspace, 137)
				if r.Signal == nil || *r.Signal != "SIGKILL" || r.ExitCode != nil || fmt.Sprint(r.LimitsHit) != "[workspace]" {
					t.Errorf("%s", o)
				}
				used := *r.Usage.WorkspaceBytes
				t.Logf("%d bytes at the end, of 32 MiB allowed", used)
				// A slow machine sees later what was written meanwhile, as long as it is scaled.
				if most := 33554432 + int64(need.Time(200<<20)); used > most {
					t.Errorf("%d bytes", used)
				}
			})
		}
		// And in a session, which ends with it.
		f := c.File(t, "request", `{"workspace":"acme/all","limits":{"workspaceBytes":16777216}}`)
		create(t, c, "full", "--request", f, "--data-dir", dir)
		in(t, c, "full", jail.Job{Sh: `i=0; while :; do head -c 4M /dev/zero > f$i; i=$((i+1)); done`}).Ended(t, jailer.StatusSignaled, jailer.LimitWorkspace, 137)
		gone(t, c, "full", time.Now(), 0)
		destroyed(t, c, "full", "limit")
	})
}

// A job that ends before the watch has looked is over its quota all the same, and the
// next one is refused until there is room: with a larger limit, or by its removal.
func TestWorkspaceFull(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		dir := c.DataDir(t)
		run := func(megabytes int, sh string) *jail.Outcome {
			request := fmt.Sprintf(`{"argv":["sh","-c",%q],"workspace":"acme/full","limits":{"workspaceBytes":%d}}`, sh, megabytes<<20)
			return c.Do(t, jail.Job{Input: request}, "run", "--json", "--data-dir", dir, "--request", "-")
		}
		o := run(8, "for i in 1 2 3; do head -c 4M /dev/zero > $i; done; echo x > small")
		if o.Result == nil || o.Result.Status == jailer.StatusExited && o.Code != 0 {
			t.Fatal(o)
		}
		if used := o.Result.Usage.WorkspaceBytes; fmt.Sprint(o.Result.LimitsHit) != "[workspace]" || used == nil || *used <= 8<<20 {
			t.Errorf("%s", o)
		}
		o = run(8, "rm -f ?; echo not reached")
		if o.Code != 125 || o.Err == nil || o.Err.Code != jailer.CodeNoSpace || !strings.Contains(o.Err.Hint, "workspace rm acme/full") || o.Out() != "" {
			t.Errorf("%s", o)
		}
		run(64, "rm ?").Exited(t, 0)
		if o := run(8, "echo reached"); o.Exited(t, 0) != nil && (o.Out() != "reached\n" || len(o.Result.LimitsHit) != 0) {
			t.Errorf("%s", o)
		}
	})
}

// What would fill a file system in one call is no way around a watch; programs that ask
// for it have the errno of a file system that lacks it, and do without. Where nothing is
// watched it is there.
func TestWorkspacePreallocation(t *testing.T) {
	need.Program(t, "fallocate")
	each(t, func(t *testing.T, c *jail.Caller) {
		const sh = `fallocate -l 4M f; echo $?; python3 -c 'import os
fd = os.open("g", os.O_RDWR | os.O_CREAT)
os.posix_fallocate(fd, 0, 1 << 20)
print(os.fstat(fd).st_size)'`
		o := c.Run(t, jail.Job{Flags: []string{"--workspace", "acme/pre", "--data-dir", c.DataDir(t)}, Sh: sh})
		o.Exited(t, 0)
		if o.Out() != "1\n1048576\n" || !strings.Contains(o.ErrOut(), "not supported") {
			t.Errorf("%s", o)
		}
		c.Run(t, jail.Job{Sh: sh}).Said(t, "0\n1048576\n")
	})
}

// A workspace's token is asked for when it is opened again, and another tenant's is
// none.
func TestWorkspaceToken(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		dir := c.DataDir(t)
		right, wrong := c.File(t, "token", "0123456789abcdef\n"), c.File(t, "guess", "0123456789abcdeg\n")
		for _, f := range []string{right, wrong} {
			if err := os.Chmod(f, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		flags := []string{"--workspace", "acme/locked", "--data-dir", dir}
		c.Run(t, jail.Job{Flags: append(flags, "--token-file", right), Sh: "echo mine > f"}).Exited(t, 0)
		for _, more := range [][]string{nil, {"--token-file", wrong}} {
			o := c.Run(t, jail.Job{Flags: append(flags, more...), Argv: []string{"cat", "f"}})
			if o.Code != 126 || o.Err == nil || o.Err.Code != jailer.CodeUnauthorized || strings.Contains(o.Stdout, "mine") {
				t.Errorf("%s", o)
			}
			fails(t, do(t, c, append([]string{"workspace", "rm", "acme/locked", "--data-dir", dir}, more...)...), 1, "token")
		}
		denied := 0
		for _, e := range c.Events(t, "--type", "policy.denied") {
			if e.Data["code"] == "unauthorized" {
				denied++
			}
		}
		if denied != 4 {
			t.Errorf("%d refusals in the event log", denied)
		}
		c.Run(t, jail.Job{Flags: append(flags, "--token-file", right), Argv: []string{"cat", "f"}}).Said(t, "mine\n")
		ok(t, do(t, c, "workspace", "rm", "acme/locked", "--data-dir", dir, "--token-file", right))
	})
}

// Where the policy says so it is only read, by many at once.
func TestWorkspaceReadOnly(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		dir := c.DataDir(t)
		c.Run(t, jail.Job{Flags: []string{"--workspace", "acme/ro", "--data-dir", dir}, Sh: "echo there > f"}).Exited(t, 0)
		r := c.WithPolicy(t, "ro.toml", "version = 1\nextends = \"builtin\"\n[profiles.default]\nworkspace = { access = \"read\" }\nrequire = [\"workspace\"]\n")
		flags := []string{"--workspace", "acme/ro", "--data-dir", dir}
		create(t, r, "reader", flags...)
		o := r.Run(t, jail.Job{Flags: flags, Sh: "cat f; (echo x > f) 2>/dev/null || echo refused"})
		o.Said(t, "there\nrefused\n")
		if _, there := o.Result.Isolation.Limits["workspace"]; there {
			t.Errorf("%+v", o.Result.Isolation)
		}
		if o := c.Run(t, jail.Job{Flags: flags, Argv: []string{"true"}}); o.Err == nil || o.Err.Code != jailer.CodeWorkspaceBusy {
			t.Errorf("a writer beside a reader: %s", o)
		}
		if o := r.Run(t, jail.Job{Flags: []string{"--workspace", "acme/none", "--data-dir", dir}, Argv: []string{"true"}}); o.Err == nil || o.Err.Code != jailer.CodeWorkspaceNotFound {
			t.Errorf("%s", o)
		}
		n := c.WithPolicy(t, "no.toml", "version = 1\nextends = \"builtin\"\n[profiles.default]\nworkspace = { access = \"none\" }\n")
		if o := n.Run(t, jail.Job{Flags: flags, Argv: []string{"true"}}); o.Code != 126 {
			t.Errorf("%s", o)
		}
		h := c.WithPolicy(t, "hard.toml", "version = 1\nextends = \"builtin\"\n[profiles.default]\nrequire = [\"workspace\"]\n")
		if o := h.Run(t, jail.Job{Flags: []string{"--workspace", "acme/hard", "--data-dir", dir}, Argv: []string{"true"}}); o.Code != 125 || o.Err.Reason != "require.workspace" {
			t.Errorf("a watch is not what require asks for: %s", o)
		}
		ok(t, do(t, c, "delete", "reader"))
	})
}

// Prune removes what was not used for long, and what nobody has alone.
func TestWorkspacePrune(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		dir := c.DataDir(t)
		for _, n := range []string{"old", "new", "held"} {
			c.Run(t, jail.Job{Flags: []string{"--workspace", "acme/" + n, "--data-dir", dir}, Sh: "mkdir -m 0 shut; echo x > f"}).Exited(t, 0)
		}
		create(t, c, "holder", "--workspace", "acme/held", "--data-dir", dir)
		locks, err := filepath.Glob(filepath.Join(dir, "workspaces", "*", "lock"))
		if err != nil || len(locks) != 3 {
			t.Fatal(locks, err)
		}
		long := time.Now().Add(-100 * time.Hour)
		for _, l := range locks {
			b, err := os.ReadFile(filepath.Join(filepath.Dir(l), "record.json"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(b), `"new"`) {
				if err := os.Chtimes(l, long, long); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, dry := range []bool{true, false} {
			args := []string{"workspace", "prune", "--older-than", "99h", "--data-dir", dir}
			if dry {
				args = append(args, "--dry-run")
			}
			if o := ok(t, do(t, c, args...)); !strings.Contains(o.Stdout, "acme/old ") || strings.Contains(o.Stdout, "acme/new") || strings.Contains(o.Stdout, "acme/held") {
				t.Errorf("%s", o)
			}
			if n := len(workspaces(t, c, dir)); dry != (n == 3) {
				t.Errorf("%d left", n)
			}
		}
		ok(t, do(t, c, "delete", "holder"))

		// A damaged one is shown as that, and is in nobody's way.
		damaged := filepath.Join(dir, "workspaces", "damaged")
		if err := errors.Join(os.Mkdir(damaged, 0o700), os.WriteFile(filepath.Join(damaged, "record.json"), []byte("{\x1b"), 0o600), os.Chown(filepath.Join(damaged, "record.json"), c.UID, -1), os.Chown(damaged, c.UID, -1)); err != nil {
			t.Fatal(err)
		}
		if o := ok(t, do(t, c, "workspace", "list", "--data-dir", dir)); !strings.Contains(o.Stdout, "damaged: ") || strings.Contains(o.Stdout, "\x1b") {
			t.Errorf("%s", o)
		}
		if o := ok(t, do(t, c, "workspace", "list", "--json", "--data-dir", dir)); !strings.Contains(o.Stdout, `"directory":"damaged"`) {
			t.Errorf("%s", o)
		}
	})
}

// Where the file system has project quotas the kernel holds the size: what is too much
// fails, and nothing is killed.
func TestWorkspaceHard(t *testing.T) {
	need.Root(t)
	t.Parallel()
	c := jail.Root(t)
	for _, p := range []string{"mke2fs", "mount"} {
		need.Program(t, p)
	}
	image, dir := filepath.Join(c.Home, "image"), filepath.Join(c.Home, "hard")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 128<<20), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-O", "quota,project", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command("mount", "-o", "loop,prjquota", image, dir).CombinedOutput()
	need.Feature(t, "prjquota", err == nil, fmt.Sprintf("a loop device with prjquota can't be mounted: %s", bytes.TrimSpace(out)))
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 2 /* MNT_DETACH */); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := c.WithPolicy(t, "hard.toml", "version = 1\nextends = \"builtin\"\n[profiles.default]\nrequire = [\"workspace\"]\n")
	request := `{"argv":["sh","-c","head -c 64M /dev/zero > f; echo $?; rm f; fallocate -l 1M p; echo $?; rm p; mkdir d; i=0; while mkdir d/$i 2>/dev/null; do i=$((i+1)); done; ls d | wc -l"],
		"workspace":"acme/hard","limits":{"workspaceBytes":16777216,"workspaceInodes":100}}`
	o := p.Do(t, jail.Job{Input: request}, "run", "--json", "--data-dir", dir, "--request", "-")
	r := o.Exited(t, 0)
	if o.Out() != "1\n0\n98\n" || r.Isolation.Limits["workspace"] != "quota" || fmt.Sprint(r.LimitsHit) != "[workspace]" {
		t.Errorf("%s", o)
	}
	if used := r.Usage.WorkspaceBytes; used == nil || *used > 16<<20 {
		t.Errorf("%s", o)
	}
	ok(t, do(t, p, "workspace", "rm", "acme/hard", "--data-dir", dir))
}
