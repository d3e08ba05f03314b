package run

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
)

// inHome makes files of the caller's by a shell script that starts in its home.
func inHome(t *testing.T, c *jail.Caller, script string) {
	t.Helper()
	cmd := c.Exec(t.Context(), "/bin/sh", "-ec", "umask 022; cd \"$HOME\"\n"+script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// seedRow is a run with files of a caller's home. $H in a flag stands for that.
type seedRow struct {
	name, make string
	flags      []string
	request    map[string]any // beside argv
	sh         string
	check      func(t *testing.T, c *jail.Caller, o *jail.Outcome)
}

func (r seedRow) job(t *testing.T, c *jail.Caller) jail.Job {
	t.Helper()
	j := jail.Job{Sh: r.sh}
	for _, f := range r.flags {
		j.Flags = append(j.Flags, strings.ReplaceAll(f, "$H", c.Home))
	}
	if r.request != nil {
		doc := map[string]any{"argv": []string{"sh", "-c", r.sh}}
		for k, v := range r.request {
			doc[k] = v
		}
		b, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		j.Sh, j.Input, j.Flags = "", string(b), append(j.Flags, "--request", "-")
	}
	return j
}

// seeded runs every row for every caller. Whatever comes of it, nothing is left.
func seeded(t *testing.T, rows []seedRow) {
	t.Helper()
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for _, r := range rows {
			if r.make != "" {
				inHome(t, c, r.make)
			}
		}
		t.Run("rows", func(t *testing.T) {
			for i, r := range rows {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					id := fmt.Sprintf("seed-%d-%d-%d", os.Getpid(), c.UID, i)
					j := r.job(t, c)
					j.Flags = append(j.Flags, "--id", id)
					o := c.Run(t, j)
					r.check(t, c, o)
					if cg := jail.Cgroups(t, id); len(cg) > 0 {
						t.Errorf("left cgroups: %v", cg)
					}
				})
			}
		})
		c.NothingLeft(t, fmt.Sprintf("seed-%d-%d-", os.Getpid(), c.UID))
	})
}

// What was named is there, as the job's own, before the command starts.
func TestSeed(t *testing.T) {
	type files = []map[string]any
	seeded(t, []seedRow{
		{
			name: "files", make: "printf one >one; chmod 640 one; printf '#!/bin/sh\\necho ran\\n' >two; chmod 4755 two",
			flags: []string{"--file", "a/b/one=$H/one", "--file", "/tmp/two=$H/two", "--file", "/home/jail/.config/three=$H/one"},
			sh:    "cat a/b/one ~/.config/three; echo; /tmp/two; stat -c '%a %U' a/b/one a /tmp/two ~/.config",
			check: says("oneone\nran\n640 jail\n755 jail\n755 jail\n755 jail\n"),
		},
		{
			name: "a tree", make: `mkdir -p tree/sub/hollow; printf x >tree/sub/x; printf y >"tree/$(printf 'new\nline\377')"; printf 'echo s' >tree/run; chmod 755 tree/run`,
			flags: []string{"--dir", "t=$H/tree"},
			sh:    `cat t/sub/x t/new*; echo; ls -a t/sub/hollow | wc -l; t/run; find t -type f -print0 | tr -cd '\0' | wc -c`,
			check: says("xy\n2\ns\n3\n"),
		},
		{
			name: "the workspace itself", flags: []string{"--dir", ".=$H/tree", "--dir", "out/deep"},
			sh:    "cat sub/x; echo new >out/deep/f; cat out/deep/f; stat -c %a out out/deep",
			check: says("xnew\n755\n755\n"),
		},
		{
			name: "of a request",
			request: map[string]any{
				"files": files{
					{"path": "src/main.sh", "content": "echo main", "mode": "0755"},
					{"path": "/tmp/bin", "content": "AP8=", "encoding": "base64", "mode": "000"},
					{"path": "empty"},
				},
				"directories": []string{"/home/jail/d/e"},
			},
			sh:    "sh src/main.sh; od -An -tx1 /tmp/bin; stat -c '%a %s' src/main.sh /tmp/bin empty ~/d/e",
			check: says("main\n 00 ff\n755 9\n400 2\n644 0\n755 40\n"),
		},
		{
			name: "by flags and a request", flags: []string{"--dir", "d=$H/tree", "--file", "d/more=$H/one"},
			request: map[string]any{"files": files{{"path": "d/sub/z", "content": "z"}}},
			sh:      "cat d/sub/x d/sub/z d/more", check: says("xzone"),
		},
		{
			name: "the host's stay as they are", make: "printf kept >kept", flags: []string{"--file", "kept=$H/kept"},
			sh: "echo changed >kept; cat kept; rm kept",
			check: func(t *testing.T, c *jail.Caller, o *jail.Outcome) {
				o.Said(t, "changed\n")
				if b, err := os.ReadFile(filepath.Join(c.Home, "kept")); err != nil || string(b) != "kept" {
					t.Errorf("the host's file is %q, %v", b, err)
				}
			},
		},
		{
			name: "beside stdin", flags: []string{"--file", "one=$H/one", "--stdin", "$H/one"}, sh: "cat; cat one",
			check: says("oneone"),
		},
		{
			name: "nothing of it counts", flags: []string{"--file", "one=$H/one", "--pids", "2"}, sh: "echo here",
			check: func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Said(t, "here\n")
				if len(r.LimitsHit) > 0 || r.LeftoverKilled != nil && *r.LeftoverKilled > 0 || r.ExecID != "1" {
					t.Error(o)
				}
			},
		},
		{
			name: "ten thousand", make: "mkdir many; cd many; seq 10000 | split -l 1 -a 4 -; ls | wc -l | grep -qx 10000",
			flags: []string{"--dir", "many=$H/many"}, sh: "find many -type f | wc -l; cat many/* | wc -l",
			check: says("10000\n10000\n"),
		},
		{
			name: "a large one", make: "head -c 50000000 /dev/zero | tr '\\0' x >large", flags: []string{"--file", "large=$H/large"},
			sh: "wc -c <large; tr -d x <large | wc -c", check: says("50000000\n0\n"),
		},
		{
			name: "variables of a file", make: "printf '# of the test\\nA=hunter2 \\nB=\"q\"\\n' >vars; chmod 600 vars",
			flags: []string{"--env-file", "$H/vars", "--env", "C=3"}, sh: `echo "$A|$B|$C"`, check: says("hunter2 |\"q\"|3\n"),
		},
	})
}

// The filter of the profile is the command's; what puts files in is jailer's own
// code, which a filter without openat2 and without executable files must not stop.
func TestSeedStrict(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		inHome(t, c, "printf 'echo ran' >script; chmod 755 script")
		strict := c.WithPolicy(t, "strict.toml", strictPolicy)
		strict.Run(t, jail.Job{Flags: []string{"--file", "script=" + c.Home + "/script"}, Sh: "./script"}).Said(t, "ran\n")
	})
}

// What can't be put in as it was named ends the run before the command starts.
func TestSeedRefused(t *testing.T) {
	refused := func(status int, code jailer.Code, words ...string) func(*testing.T, *jail.Caller, *jail.Outcome) {
		return func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
			t.Helper()
			o.Refused(t, status, code, words...)
			if strings.Contains(o.Stdout+o.Stderr, "RAN") {
				t.Errorf("the command ran:\n%s", o)
			}
		}
	}
	type files = []map[string]any
	few := func(n int) (out files) {
		for i := range n {
			out = append(out, map[string]any{"path": fmt.Sprint("f", i), "content": "x"})
		}
		return out
	}
	const sh = "echo RAN"
	seeded(t, []seedRow{
		{
			name: "a link in a tree", make: "mkdir -p links/a; ln -s /etc/passwd links/a/link", flags: []string{"--dir", "d=$H/links"}, sh: sh,
			check: refused(125, jailer.CodeInvalidPath, "links/a/link", "symbolic link"),
		},
		{
			name: "a FIFO in a tree", make: "mkdir fifos; mkfifo fifos/f", flags: []string{"--dir", "d=$H/fifos"}, sh: sh,
			check: refused(125, jailer.CodeNotRegular, "fifos/f", "FIFO"),
		},
		{
			name: "a file without a size", flags: []string{"--file", "f=/proc/version"}, sh: sh,
			check: refused(125, jailer.CodeInvalidState, "/proc/version", "had 0 bytes, and more"),
		},
		{
			name: "a link", make: "ln -s /etc/passwd link", flags: []string{"--file", "f=$H/link"}, sh: sh,
			check: refused(125, jailer.CodeInvalidPath, "/link", "symbolic link", "readlink"),
		},
		{
			name: "both in a flag and a request", make: "printf x >f", flags: []string{"--file", "f=$H/f"}, request: map[string]any{"files": files{{"path": "f"}}}, sh: sh,
			check: refused(125, jailer.CodeInvalidPath, "/workspace/f", "twice"),
		},
		{
			name: "without fs.write", request: map[string]any{"files": files{{"path": "f"}}, "capabilities": []string{"exec"}}, sh: sh,
			check: refused(126, jailer.CodePolicyDenied, "files", "fs.write"),
		},
		{
			name: "more bytes than the workspace", make: "head -c 200000 /dev/zero >big", flags: []string{"--file", "f=$H/big"},
			request: map[string]any{"limits": map[string]any{"workspaceBytes": 100000}}, sh: sh,
			check: refused(125, jailer.CodeNoSpace, "/workspace/f", "workspaceBytes"),
		},
		{
			// 17 bytes, and 17 pages: only the kernel can tell.
			name: "more pages than the workspace", request: map[string]any{"files": few(17), "limits": map[string]any{"workspaceBytes": 16 * os.Getpagesize()}}, sh: sh,
			check: refused(125, jailer.CodeNoSpace, "/workspace/f", "workspaceBytes"),
		},
		{
			name: "more files than the workspace", request: map[string]any{"files": few(17), "limits": map[string]any{"workspaceInodes": 17}}, sh: sh,
			check: refused(125, jailer.CodeNoSpace, "/workspace/f", "workspaceInodes"),
		},
		{
			name: "as many as the workspace", request: map[string]any{"files": few(16), "limits": map[string]any{"workspaceInodes": 17}}, sh: "ls | wc -l",
			check: says("16\n"),
		},
		{
			name: "more than tmp", make: "head -c 200000 /dev/zero >big", flags: []string{"--file", "/tmp/f=$H/big", "--tmp-size", "100000"}, sh: sh,
			check: refused(125, jailer.CodeNoSpace, "/tmp/f", "--tmp-size"),
		},
		{
			name: "what the caller can't read", flags: []string{"--file", "f=/etc/shadow"}, sh: "echo SEEN",
			check: func(t *testing.T, c *jail.Caller, o *jail.Outcome) {
				if c.UID == 0 {
					o.Said(t, "SEEN\n")
					return
				}
				o.Refused(t, 125, jailer.CodePermissionDenied, "/etc/shadow")
			},
		},
	})
}

// Names that look like secrets are told once, and nothing that is in a file or a
// variable is: not in a command line of the host, not in the event log.
func TestSeedSecrets(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		inHome(t, c, "mkdir -p app/a app/b; for f in app/a/.env app/b/.env app/x.pem app/main; do printf hunter2 >$f; done; echo V=hunter3 >vars")
		o := c.Run(t, jail.Job{
			Flags: []string{"--dir", "app=" + c.Home + "/app", "--env-file", c.Home + "/vars", "--request", "-"},
			Input: `{"argv":["sh","-c","cat app/b/.env; sleep 1; echo $V"],"files":[{"path":"deploy-token","content":"hunter4"}]}`,
		})
		o.Said(t, "hunter2hunter3\n")
		for _, w := range []string{`".env" looks like a secret`, `"x.pem" looks`, `"deploy-token" looks`} {
			if strings.Count(o.Stderr, w) != 1 {
				t.Errorf("not once %q:\n%s", w, o.Stderr)
			}
		}
		if strings.Contains(o.Stderr, "hunter") || strings.Contains(o.Stderr, "main") {
			t.Errorf("too much is said:\n%s", o.Stderr)
		}
		for _, e := range c.Events(t) {
			if strings.Contains(e.Line, "hunter") || strings.Contains(e.Line, ".env") {
				t.Errorf("in the event log: %s", e.Line)
			}
		}
	})
}

// While it runs, no command line of the host's has what a file or a variable holds.
func TestSeedIsInNoArgument(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		const mark = "hunter5-in-a-file"
		inHome(t, c, "echo "+mark+" >f; echo W="+mark+" >vars")
		flags := []string{"--file", "f=" + c.Home + "/f", "--env-file", c.Home + "/vars", "--stdin", "-"}
		cmd := c.Command(t.Context(), append(append([]string{"run"}, flags...), "--", "sh", "-c", "echo begun; read x; cat f")...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, len("begun\n"))); err != nil {
			t.Fatal(err)
		}
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil || len(lines) == 0 {
			t.Fatalf("no processes: %v", err)
		}
		for _, l := range lines {
			// The shell that made the files is gone; whoever else has the mark is ours.
			if b, err := os.ReadFile(l); err == nil && strings.Contains(string(b), mark) {
				t.Errorf("%s: %q", l, b)
			}
		}
		in.Close()
		if b, err := io.ReadAll(out); err != nil || string(b) != mark+"\n" {
			t.Errorf("%q, %v", b, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}
