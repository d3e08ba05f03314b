package tty

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

// From a script: a terminal for the job, though there is none on our side.
func TestScripts(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for _, tc := range []struct {
			name string
			job  jail.Job
			out  string
		}{
			{"size", jail.Job{Sh: "stty size; echo $TERM"}, "24 80\r\nxterm\r\n"},
			{"size given", jail.Job{Sh: "stty size", Flags: []string{"--tty-size", "132x50"}}, "50 132\r\n"},
			{"kind", jail.Job{Sh: "echo $TERM", Env: []string{"TERM=vt220"}}, "vt220\r\n"},
			{"kind by flag", jail.Job{Sh: "echo $TERM", Env: []string{"TERM=vt220"}, Flags: []string{"--env", "TERM=dumb"}}, "dumb\r\n"},
			{"no kind", jail.Job{Sh: "echo $TERM", Env: []string{"TERM=../../tmp/x"}}, "xterm\r\n"},
			{"nothing typed", jail.Job{Sh: "cat; echo 1; cat; echo 2"}, "1\r\n2\r\n"},
			{"not asked for", jail.Job{Sh: "stty -echo; cat; echo over", Input: "hello\n"}, "over\r\n"},
			{"typed", jail.Job{Sh: "stty -echo; cat; echo over", Input: "hello\n", Flags: []string{"--stdin", "-"}}, "hello\r\nover\r\n"},
			{"typed, no line end", jail.Job{Sh: "cat; echo over", Input: "hello", Flags: []string{"--stdin", "-"}}, "hellohelloover\r\n"},
			{"shell", jail.Job{Argv: []string{"bash", "--norc"}, Input: "stty -echo\nexec 2>/dev/null\necho $((6*7))\n", Flags: []string{"--stdin", "-"}}, "42\r\n"},
			{"both streams in order", jail.Job{Sh: "echo 1; echo 2 >&2; echo 3"}, "1\r\n2\r\n3\r\n"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				tc.job.Flags = append(tc.job.Flags, "--tty")
				o := c.Run(t, tc.job)
				r := o.Exited(t, 0)
				// What is typed is echoed too, unless the job has switched that off.
				if got := o.Out(); got != tc.out && (tc.job.Input == "" || !strings.HasSuffix(got, tc.out)) {
					t.Errorf("%q, want %q", got, tc.out)
				}
				if !r.Terminal || r.Stderr != nil || r.StderrBytes != 0 || r.StderrTruncated || strings.Contains(o.Stdout, `"stderr":`) {
					t.Errorf("the result tells of a second stream: %s", o.Stdout)
				}
			})
		}
	})
}

// What a request has for stdin is typed, whatever jailer's own stdin is.
func TestRequest(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		doc := c.File(t, "request.json", `{"argv":["sh","-c","stty -echo; cat; tty"],"stdin":"hello\n"}`)
		d := sit(t)
		args := []string{"run", "--tty", "--request", doc}
		d.run(c.Command(t.Context(), args...))
		if !jail.Eventually(prompt, func() bool { return strings.HasSuffix(d.text(), "hello\r\r\n/dev/pts/0\r\r\n") }) {
			t.Errorf("%q", d.text()) // \r\r: the caller's terminal isn't raw
		}
		if got := d.wait(); got != 0 {
			t.Errorf("exit status %d", got)
		}
		o := c.Run(t, jail.Job{Flags: []string{"--tty", "--request", "-"}, Input: `{"argv":["tty"]}`})
		o.Said(t, "/dev/pts/0\r\n")
		for _, member := range []string{"tty", "terminal"} {
			o := c.Run(t, jail.Job{Flags: []string{"--request", "-"}, Input: `{"argv":["tty"],"` + member + `":true}`})
			o.Refused(t, 125, jailer.CodeInvalidRequest, member)
		}
	})
}

// Output is counted to the end and kept to the cap, as that of pipes.
func TestOutput(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		const n = 5 << 20
		flood := "head -c 5M /dev/zero | tr '\\0' x"
		t.Run("under the cap", func(t *testing.T) {
			o := c.Run(t, jail.Job{Sh: flood, Flags: []string{"--tty", "--max-output", "6M"}})
			if r := o.Exited(t, 0); r.StdoutBytes != n || r.StdoutTruncated || o.Out() != strings.Repeat("x", n) {
				t.Errorf("%d bytes, %d kept, truncated %v", r.StdoutBytes, len(o.Out()), r.StdoutTruncated)
			}
		})
		t.Run("over the cap", func(t *testing.T) {
			o := c.Run(t, jail.Job{Sh: flood + "; echo; echo end", Flags: []string{"--tty", "--max-output", "1K", "--output-keep", "tail"}})
			if r := o.Exited(t, 0); r.StdoutBytes != n+7 || !r.StdoutTruncated || len(o.Out()) != 1024 || !strings.HasSuffix(o.Out(), "x\r\nend\r\n") {
				t.Errorf("%d bytes, %d kept, truncated %v", r.StdoutBytes, len(o.Out()), r.StdoutTruncated)
			}
		})
		t.Run("lines", func(t *testing.T) {
			o := c.Run(t, jail.Job{Sh: "seq 100000", Flags: []string{"--tty"}})
			if r := o.Exited(t, 0); r.StdoutBytes != 688895 || !strings.HasSuffix(o.Out(), "\r\n100000\r\n") {
				t.Errorf("%d bytes", r.StdoutBytes)
			}
		})
	})
}

// What was written just before the end is there, however the end comes.
func TestLastWords(t *testing.T) {
	t.Parallel()
	c := jail.User(t)
	for range 40 {
		o := c.Run(t, jail.Job{Sh: "seq 500; kill -KILL $$", Flags: []string{"--tty"}})
		if o.Signaled(t, "SIGKILL", 137); o.Result.StdoutBytes != 2392 {
			t.Fatalf("%d bytes of 2392", o.Result.StdoutBytes)
		}
	}
}

// 5: an NDJSON stream of a session, with its size; and nothing in it that a
// terminal would act on.
func TestEvents(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		d := sit(t)
		r, w := pipe(t)
		defer r.Close()
		cmd := d.command(c, `trap 'stty size; r=1' WINCH; printf '\033[31mred\033]0;title\a'; read x; printf "got $x"; while [ -z "$r" ]; do sleep 0.05; done; echo '\377'; exit 3`, "--ndjson")
		cmd.Stdout = w
		d.run(cmd)
		w.Close()
		var text strings.Builder
		var types []string
		seq := int64(0)
		dec := json.NewDecoder(r)
		for {
			var ev struct {
				V        int
				Type     string
				Seq      int64
				Stream   string
				Data     string
				Encoding string
				Cols     int
				Rows     int
				Terminal *struct{ Cols, Rows int }
				Result   json.RawMessage
			}
			if err := dec.Decode(&ev); err != nil {
				break
			}
			if seq++; ev.Seq != seq || ev.V != 1 {
				t.Errorf("%+v, want seq %d", ev, seq)
			}
			if len(types) == 0 || types[len(types)-1] != ev.Type {
				types = append(types, ev.Type)
			}
			switch ev.Type {
			case "started":
				if ev.Terminal == nil || ev.Terminal.Cols != 100 || ev.Terminal.Rows != 40 {
					t.Errorf("%+v", ev.Terminal)
				}
			case "output":
				b, err := jailer.DecodeText(ev.Data, ev.Encoding)
				if err != nil || ev.Stream != "stdout" {
					t.Errorf("%v %+v", err, ev)
				}
				was := text.String()
				text.Write(b)
				if !strings.Contains(was, "title\a") && strings.Contains(text.String(), "title\a") {
					d.press("hello\r")
				}
				if !strings.Contains(was, "got hello") && strings.Contains(text.String(), "got hello") {
					d.resize(90, 30)
				}
			case "resize":
				if ev.Cols != 90 || ev.Rows != 30 {
					t.Errorf("%+v", ev)
				}
			case "result":
				res, err := jailer.ParseResult(ev.Result)
				if err != nil || !res.Terminal || res.ExitCode == nil || *res.ExitCode != 3 || res.StdoutBytes != int64(text.Len()) {
					t.Errorf("%v %+v, %d bytes", err, res, text.Len())
				}
			}
		}
		d.ends(3, "")
		if d.text() != "" {
			t.Errorf("on the terminal: %q", d.text())
		}
		if got := strings.Join(types, " "); !strings.HasPrefix(got, "started output resize output") || !strings.HasSuffix(got, "output result") {
			t.Errorf("events %s", got)
		}
		if got := text.String(); !strings.HasPrefix(got, "\x1b[31mred\x1b]0;title\ahello\r\ngot hello") || !strings.Contains(got, "30 90\r\n") || !strings.Contains(got, "\xff\r\n") {
			t.Errorf("%q", got)
		}
	})
}

func TestNoSequenceInJSON(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		for _, form := range []string{"--json", "--ndjson"} {
			o := c.Run(t, jail.Job{Raw: true, Flags: []string{"--tty", form}, Sh: `i=0; while [ $i -lt 256 ]; do printf "\\$(printf %o $i)"; i=$((i+1)); done; printf '\302\233c\342\200\256'`})
			for i := range o.Stdout {
				if b := o.Stdout[i]; b < ' ' && b != '\n' || b >= 0x7f {
					t.Errorf("%s: byte %#x in %q", form, b, o.Stdout)
					break
				}
			}
		}
	})
}

// With a range the job has an id of its own: the terminal, which PID 1 opens, is
// the job's and not PID 1's.
func TestRange(t *testing.T) {
	t.Parallel()
	need.Root(t)
	need.Program(t, "newuidmap")
	for _, f := range []string{"/etc/subuid", "/etc/subgid"} {
		_, err := os.Stat(f)
		need.Feature(t, "subuid", err == nil, "no "+f+" to cover")
	}
	c := jail.User(t)
	c = c.WithPolicy(t, "range.toml", jail.BestEffort+"[profiles.wide]\nextends = \"default\"\nids = \"range\"\n")
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	id := strconv.Itoa(c.UID)
	pw := c.File(t, "passwd", string(passwd)+"jailertest:x:"+id+":"+id+"::/:/bin/sh\n")
	sub := c.File(t, "subid", "jailertest:1650000000:65536\n")
	for _, f := range []string{pw, sub} {
		if err := os.Chmod(f, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	user := c.Command(t.Context(), "run", "--profile", "wide", "--json", "--tty", "--", "sh", "-c",
		"stat -c '%u %a' /dev/pts/0; echo a >/dev/stdout; echo b >/dev/tty; chmod 666 /dev/pts/0 2>/dev/null || echo c")
	root := jail.Root(t)
	cmd := root.Exec(t.Context(), "unshare", append([]string{
		"-m", "sh", "-c",
		`mount --bind $1 /etc/passwd && mount --bind $2 /etc/subuid && mount --bind $2 /etc/subgid && u=$3 && shift 3 && exec setpriv --reuid $u --regid $u --clear-groups "$@"`,
		"sh", pw, sub, id,
	}, user.Args...)...)
	o := jail.Finish(t, jail.Job{}, cmd)
	if o.Exited(t, 0); o.Out() != "1000 620\r\na\r\nb\r\nc\r\n" {
		t.Errorf("%v", o)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	c := jail.User(t)
	for _, tc := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--tty-size", "80x24"}, "only with --tty"},
		{[]string{"--tty", "--tty-size", "80"}, "COLSxROWS"},
		{[]string{"--tty", "--tty-size", "0x24"}, "COLSxROWS"},
		{[]string{"--tty", "--tty-size", "80x65536"}, "COLSxROWS"},
		{[]string{"--tty", "--tty-size", "+80x24"}, "COLSxROWS"},
	} {
		o := c.Run(t, jail.Job{Raw: true, Flags: tc.flags, Sh: "echo ran"})
		if o.Code != 125 || o.Stdout != "" || !strings.Contains(o.Stderr, tc.want) {
			t.Errorf("%v: %v", tc.flags, o)
		}
	}
}
