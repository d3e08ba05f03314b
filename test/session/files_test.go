package session

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// fsVerb runs a file verb, with input.
func fsVerb(t testing.TB, c *jail.Caller, input string, args ...string) *jail.Outcome {
	t.Helper()
	return c.Do(t, jail.Job{Raw: true, Input: input}, append([]string{"fs"}, args...)...)
}

// What is put in the command finds as its own, what it writes is read from outside, and
// each change is in the event log.
func TestFiles(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "files")
		ok(t, fsVerb(t, c, "hello\n", "put", "files", "a/b.txt", "--parents", "--mode", "0640"))
		in(t, c, "files", jail.Job{Sh: `stat -c '%u:%g %a' a/b.txt a; cat a/b.txt; echo more >> a/b.txt; seq 3000 > n; printf '\377' > odd; mkdir -m 000 shut`}).Said(t, "1000:1000 640\n1000:1000 755\nhello\n")
		for _, p := range []string{"a/b.txt", "/workspace/a/b.txt", "./a//b.txt"} {
			if o := ok(t, fsVerb(t, c, "", "cat", "files", p)); o.Stdout != "hello\nmore\n" {
				t.Errorf("%q", o.Stdout)
			}
		}
		if o := ok(t, fsVerb(t, c, "", "page", "files", "n", "--line", "2999")); o.Stdout != "2999\n3000\n" {
			t.Errorf("%q", o.Stdout)
		}
		var page struct{ Text, Cursor string }
		document(t, ok(t, fsVerb(t, c, "", "page", "files", "n", "--lines", "2", "--json")), &page)
		document(t, ok(t, fsVerb(t, c, "", "page", "files", "n", "--lines", "2", "--json", "--cursor", page.Cursor)), &page)
		if page.Text != "3\n4\n" {
			t.Errorf("%+v", page)
		}
		var list struct{ Entries []struct{ Name, Type string } }
		document(t, ok(t, fsVerb(t, c, "", "ls", "files", "--json")), &list)
		if fmt.Sprint(list.Entries) != "[{a directory} {n file} {odd file} {shut directory}]" {
			t.Errorf("%v", list.Entries)
		}
		ok(t, fsVerb(t, c, "", "mkdir", "files", "x/y", "-p"))
		ok(t, fsVerb(t, c, "", "rm", "files", "a", "-r"))
		fails(t, fsVerb(t, c, "", "cat", "files", "a/b.txt"), 1, "no such file")
		fails(t, fsVerb(t, c, "x", "put", "files", "no/such"), 1, "no such file", "--parents")
		fails(t, fsVerb(t, c, "", "rm", "files", "x"), 1, "not empty", "--recursive")
		fails(t, fsVerb(t, c, "", "stat", "files", "../up"), 1, `".."`)
		fails(t, fsVerb(t, c, "", "cat", "files", "/etc/passwd"), 1, "absolute")
		fails(t, fsVerb(t, c, strings.Repeat("x", 100), "put", "files", "big", "--max", "99"), 1, "99 bytes")
		for _, args := range [][]string{
			{"put", "files", "big", "--mode", "4755"},
			{"mkdir", "files", "d", "--mode", "rwx"},
			{"ls", "files", "--limit", "0"},
			{"ls", "files", "--limit", "-1"},
			{"ls", "files", "--limit", "1000000"},
			{"ls", "files", "--cursor", "x"},
			{"page", "files", "n", "--lines", "0"},
			{"page", "files", "n", "--line", "-1"},
			{"page", "files", "n", "--bytes", "1"},
			{"page", "files", "n", "--bytes", "1G"},
			{"page", "files", "n", "--cursor", "l1.YQ"},
		} {
			fails(t, fsVerb(t, c, "", args...), 2, args[len(args)-2])
		}
		var got []string
		for _, e := range c.Events(t, "--session", "files") {
			if strings.HasPrefix(e.Type, "file.") {
				got = append(got, fmt.Sprint(e.Type, " ", e.Data["verb"], " ", e.Data["path"], " ", e.Data["bytes"]))
			}
		}
		want := "[file.written put a/b.txt 6 file.written mkdir x/y <nil> file.removed rm a <nil>]"
		if fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
		ok(t, do(t, c, "delete", "files"))
		fails(t, fsVerb(t, c, "", "ls", "files"), 1, "no session")
	})
}

// A command that puts everything in the way that it can: no verb gives a byte of the
// host's, makes anything there, or waits.
func TestFilesHostile(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "hostile", "--pids", "100")
		canary := c.File(t, "canary", "SECRET\n")
		in(t, c, "hostile", jail.Job{Sh: `ln -s /etc/hostname abs; ln -s ../../../../etc/hostname up; ln -s /proc/self/root root; ln -s /proc/self/fd/3 fd
			ln -s /etc/new dangling; ln -s ` + canary + ` canary; ln -s "$(dirname ` + canary + `)" dir; mkfifo fifo; truncate -s 1T sparse
			ln -s l1 l0; i=1; while [ $i -lt 45 ]; do ln -s l$((i+1)) l$i; i=$((i+1)); done; ln -s /etc/hostname l45
			python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'`}).Exited(t, 0)
		in(t, c, "hostile", jail.Job{Sh: `mkdir swap other; echo mine > swap/hostname; ln -s /etc other2`}).Exited(t, 0)
		ok(t, do(t, c, "start", "hostile", "--name", "racer", "--", "python3", "-c", `
import ctypes
libc = ctypes.CDLL(None)
while True:
    libc.renameat2(-100, b"swap", -100, b"other2", 2)  # RENAME_EXCHANGE`))
		planted := planting(t)
		host, err := os.ReadFile("/etc/hostname")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range need.Times(20) {
			for _, p := range []string{"abs", "up", "root/etc/hostname", "fd", "dangling", "canary", "dir/canary", "fifo", "socket", "sparse", "l0", "swap/hostname", "other2/hostname"} {
				for _, o := range []*jail.Outcome{
					fsVerb(t, c, "", "cat", "hostile", p),
					fsVerb(t, c, "", "page", "hostile", p, "--bytes", "16"),
				} {
					if strings.Contains(o.Stdout, "SECRET") || len(host) > 1 && strings.Contains(o.Stdout, strings.TrimSpace(string(host))) {
						t.Fatalf("%s: a byte of the host's:\n%s", p, o)
					}
					if p != "swap/hostname" && p != "other2/hostname" && p != "sparse" && o.Code == 0 {
						t.Errorf("%s:\n%s", p, o)
					}
				}
				if p != "swap/hostname" && p != "other2/hostname" && p != "sparse" {
					if o := fsVerb(t, c, "evil\n", "put", "hostile", p); o.Code == 0 {
						t.Errorf("put %s:\n%s", p, o)
					}
				}
			}
			for _, p := range []string{"swap/planted", "swap/planted/deep/er", "other2/planted"} {
				fsVerb(t, c, "evil\n", "put", "hostile", p, "--parents")
				fsVerb(t, c, "", "mkdir", "hostile", p, "-p")
			}
			for _, name := range []string{"hostname", "passwd", "planted"} {
				fsVerb(t, c, "", "rm", "hostile", "swap/"+name, "--recursive")
				fsVerb(t, c, "evil\n", "put", "hostile", "swap/"+name)
			}
			if o := fsVerb(t, c, "", "stat", "hostile", "swap/passwd"); o.Code == 0 && !strings.Contains(o.Stdout, " 5 ") { // "evil\n"
				t.Fatalf("told of:\n%s", o)
			}
			c.Do(t, jail.Job{Raw: true, Input: planted}, "import", "hostile")
			out := c.Do(t, jail.Job{Raw: true}, "export", "hostile", "swap/**", "other2/**", "dir", "root", "abs")
			if strings.Contains(out.Stdout, "SECRET") || strings.Contains(out.Stdout, "root:x:") {
				t.Fatal("a byte of the host's was exported")
			}
			if o := fsVerb(t, c, "", "ls", "hostile", "swap"); strings.Contains(o.Stdout, "shadow") {
				t.Fatalf("listed:\n%s", o)
			}
		}
		if per := time.Since(began) / time.Duration(need.Times(20)) / 50; per > need.Time(2*time.Second) {
			t.Errorf("%v a verb", per)
		}
		if st, err := os.Stat("/etc/passwd"); err != nil || st.Size() < 6 {
			t.Error("the host's /etc/passwd was written to")
		}
		for _, p := range []string{"/etc/new", "/etc/planted", "/etc/imported"} {
			if _, err := os.Lstat(p); err == nil {
				t.Errorf("%s was made on the host", p)
			}
		}
		if b, err := os.ReadFile(canary); err != nil || string(b) != "SECRET\n" {
			t.Errorf("%q %v", b, err)
		}
	})
}

// planting is a tar with files where the racer may have put a link out.
func planting(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"swap/imported", "other2/imported", "swap/planted/imported"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A tar out and in again, and what neither takes.
func TestExportImport(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "out")
		create(t, c, "in")
		in(t, c, "out", jail.Job{Sh: `mkdir -p d/e; echo one > d/e/one; echo two > two.txt; ln -s /etc/passwd d/link; chmod 4755 two.txt; truncate -s 1T huge`}).Exited(t, 0)
		o := ok(t, do(t, c, "export", "out", "d", "*.txt"))
		r := tar.NewReader(strings.NewReader(o.Stdout))
		var names []string
		for {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, fmt.Sprintf("%s %o", h.Name, h.Mode))
		}
		if fmt.Sprint(names) != "[d/ 755 d/e/ 755 d/e/one 644 two.txt 755 .jailer-manifest.json 644]" {
			t.Errorf("%q", names)
		}
		var m struct {
			Files []struct{ Path, SHA256 string }
		}
		document(t, ok(t, c.Do(t, jail.Job{Raw: true, Input: o.Stdout}, "import", "in", "--json")), &m)
		if len(m.Files) != 2 || len(m.Files[0].SHA256) != 64 {
			t.Errorf("%+v", m)
		}
		in(t, c, "in", jail.Job{Sh: `find . -type f | sort; stat -c %u d/e/one; cat d/e/one`}).Said(t, "./d/e/one\n./two.txt\n1000\none\n")
		began := time.Now()
		fails(t, do(t, c, "export", "out", "huge"), 1, "huge")
		fails(t, do(t, c, "export", "out", "none*"), 1, "nothing matches")
		fails(t, do(t, c, "export", "out", "../.."), 1, `".."`)
		fails(t, do(t, c, "export", "out"), 2, "takes 2")
		if took := time.Since(began); took > need.Time(20*time.Second) {
			t.Errorf("refused after %v", took)
		}
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Name: "../evil", Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		w.Close()
		fails(t, c.Do(t, jail.Job{Raw: true, Input: b.String()}, "import", "in"), 1, `".."`)
		got := map[string]int{}
		for _, e := range c.Events(t) {
			got[e.Type]++
		}
		if got["artifact.exported"] != 1 || got["artifact.imported"] != 1 {
			t.Errorf("%v", got)
		}
	})
}

// A session that was made without a capability has none of its verbs, and the refusal is
// an event.
func TestFileCapabilities(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		for i, cap := range []string{"fs.read", "fs.write", "fs.list", "export", "import"} {
			id := "cap" + strconv.Itoa(i)
			create(t, c, id, "--cap", "exec,"+cap)
			in(t, c, id, jail.Job{Sh: "echo x > f"}).Exited(t, 0)
			for name, o := range map[string]*jail.Outcome{
				"fs.read": fsVerb(t, c, "", "cat", id, "f"), "fs.write": fsVerb(t, c, "y", "put", id, "g"), "fs.list": fsVerb(t, c, "", "ls", id),
				"export": do(t, c, "export", id, "f"),
			} {
				if name == cap {
					ok(t, o)
				} else {
					fails(t, o, 1, name)
				}
			}
			fails(t, do(t, c, "start", id, "--", "true"), 1, `"process"`)
			o := c.Do(t, jail.Job{Raw: true, Input: "not a tar"}, "import", id)
			if cap == "import" {
				fails(t, o, 1, "damaged")
			} else {
				fails(t, o, 1, `"import"`)
			}
			denied := 0
			for _, e := range c.Events(t, "--session", id, "--type", "policy.denied") {
				if e.Data["code"] == "policy_denied" {
					denied++
				}
			}
			if denied != 5 {
				t.Errorf("%s: %d refusals in the event log, want 5", cap, denied)
			}
			ok(t, do(t, c, "delete", id))
		}
	})
}

// A session with a token: each verb wants it, and notes who came without.
func TestToken(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		right, wrong := c.File(t, "token", "0123456789abcdef\n"), c.File(t, "guess", "0123456789abcdeg\n")
		for _, f := range []string{right, wrong} {
			if err := os.Chmod(f, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		create1 := ok(t, do(t, c, "create", "--id", "tok", "--token-file", right))
		t.Cleanup(func() { _ = c.Command(t.Context(), "delete", "tok", "--token-file", right).Run() })
		if strings.Contains(create1.Stdout, "0123456789abcdef") {
			t.Error("the token is told")
		}
		ok(t, c.Do(t, jail.Job{Raw: true}, "start", "tok", "--token-file", right, "--", "sleep", "1000"))
		verbs := [][]string{
			{"exec", "tok", "--", "true"},
			{"state", "tok"},
			{"delete", "tok"},
			{"start", "tok", "--", "true"},
			{"ps", "tok"},
			{"logs", "tok", "p1"},
			{"stop", "tok", "p1"},
			{"kill", "tok", "p1"},
			{"fs", "ls", "tok"},
			{"fs", "cat", "tok", "f"},
			{"fs", "put", "tok", "f"},
			{"fs", "rm", "tok", "f"},
			{"fs", "mkdir", "tok", "d"},
			{"fs", "stat", "tok", "f"},
			{"fs", "page", "tok", "f"},
			{"export", "tok", "f"},
			{"import", "tok"},
		}
		for _, v := range verbs {
			for name, flags := range map[string][]string{"none": nil, "another": {"--token-file", wrong}} {
				at := 1
				if v[0] == "fs" {
					at = 2
				}
				o := do(t, c, slices.Insert(slices.Clone(v), at, flags...)...)
				want := 1
				if v[0] == "exec" {
					want = 126
				}
				fails(t, o, want, "token")
				if o.Stdout != "" {
					t.Errorf("%v with %s token:\n%s", v, name, o)
				}
			}
		}
		denied := 0
		for _, e := range c.Events(t, "--session", "tok", "--type", "policy.denied") {
			if e.Data["code"] == "unauthorized" && e.Data["op"] == "session.token" {
				denied++
			}
		}
		if denied != 2*len(verbs) {
			t.Errorf("%d refusals in the event log, want %d", denied, 2*len(verbs))
		}
		// A list asks nobody who would refuse, and tells what all may know.
		if o := ok(t, do(t, c, "list")); !strings.Contains(o.Stdout, "tok  running") && !strings.Contains(o.Stdout, "tok ") {
			t.Error(o)
		}
		b, err := os.ReadFile(filepath.Join(c.StateDir(), "tok", "priv", "record.json"))
		if err != nil || strings.Contains(string(b), "0123456789abcdef") || !strings.Contains(string(b), "tokenSha256") {
			t.Errorf("%s %v", b, err)
		}
		in(t, c, "tok", jail.Job{Flags: []string{"--token-file", right}, Argv: []string{"echo", "in"}}).Said(t, "in\n")
		// By a descriptor, which no path leads to.
		o := c.Do(t, jail.Job{Raw: true, Setup: func(cmd *exec.Cmd) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = w.WriteString("0123456789abcdef")
			w.Close()
			t.Cleanup(func() { r.Close() })
			cmd.ExtraFiles = []*os.File{r}
		}}, "fs", "ls", "tok", "--token-file", "/dev/fd/3")
		ok(t, o)
		for text, word := range map[string]string{"short": "5 bytes", strings.Repeat("x", 1025): "bytes given"} {
			f := c.File(t, "bad", text)
			if err := os.Chmod(f, 0o600); err != nil {
				t.Fatal(err)
			}
			fails(t, do(t, c, "state", "tok", "--token-file", f), 1, word)
		}
		if err := os.Chmod(right, 0o644); err != nil {
			t.Fatal(err)
		}
		fails(t, do(t, c, "state", "tok", "--token-file", right), 1, "chmod 600")
		if err := os.Chmod(right, 0o600); err != nil {
			t.Fatal(err)
		}
		ok(t, do(t, c, "delete", "tok", "--token-file", right))
	})
}

// page of a large file takes little memory.
func TestPageMemory(t *testing.T) {
	each(t, func(t *testing.T, c *jail.Caller) {
		create(t, c, "large", "--memory", "4G")
		size := need.Times(200) // MiB
		in(t, c, "large", jail.Job{Sh: fmt.Sprintf("yes 0123456789abcde | head -c %dM > f", size), Flags: []string{"--timeout", "200s"}}).Exited(t, 0)
		// The kernel counts as a program's what its parent had at the exec: this one has
		// more than is allowed, and an interpreter has little.
		const measure = `import os, subprocess, sys
p = subprocess.Popen(sys.argv[1:])
_, status, usage = os.wait4(p.pid, 0)
print(status, usage.ru_maxrss)`
		out, err := c.Exec(t.Context(), need.Program(t, "python3"), "-c", measure,
			jail.Program(), "--state-dir", c.StateDir(), "fs", "page", "large", "f", "--line", strconv.Itoa(size<<16)).Output()
		if err != nil {
			t.Fatal(err)
		}
		var line string
		var status, peak int
		if n, err := fmt.Sscanf(string(out), "%s\n%d %d", &line, &status, &peak); n != 3 || line != "0123456789abcde" || status != 0 {
			t.Fatalf("%q %v", out, err)
		}
		if peak > 30<<10 {
			t.Errorf("%d KiB", peak)
		}
	})
}
