package run

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/test/jail"
	"github.com/jailer-project/jailer/test/need"
)

func TestOutput(t *testing.T) {
	each(t, []row{
		{
			"29 cut between characters",
			jail.Job{Flags: []string{"--max-output", "11"}, Argv: []string{"printf", "ééééééé"}},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Exited(t, 0)
				if o.Out() != "ééééé" || !utf8.ValidString(o.Out()) || r.StdoutBytes != 14 || !r.StdoutTruncated || r.StdoutEncoding != "utf-8" {
					t.Error(o)
				}
			},
		},
		{
			"bytes that are no UTF-8",
			jail.Job{Argv: []string{"printf", `\377\000a`}},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Exited(t, 0)
				if *r.Stdout != base64.StdEncoding.EncodeToString([]byte("\xff\x00a")) || r.StdoutEncoding != "base64" || r.StdoutBytes != 3 || r.StdoutTruncated {
					t.Error(o)
				}
			},
		},
		{
			"each stream has its own limit",
			jail.Job{Flags: []string{"--max-output", "4"}, Sh: `printf 123456; printf abcde >&2`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Exited(t, 0)
				if o.Out() != "1234" || o.ErrOut() != "abcd" || r.StdoutBytes != 6 || r.StderrBytes != 5 || !r.StdoutTruncated || !r.StderrTruncated {
					t.Error(o)
				}
			},
		},
		{
			"exactly the limit is no cut",
			jail.Job{Flags: []string{"--max-output", "6"}, Sh: `printf 123456`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				if r := o.Exited(t, 0); o.Out() != "123456" || r.StdoutTruncated || len(r.LimitsHit) != 0 {
					t.Error(o)
				}
			},
		},
		{
			"keep the tail",
			jail.Job{Flags: []string{"--max-output", "4", "--output-keep", "tail"}, Sh: `printf 123456789`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				if r := o.Exited(t, 0); o.Out() != "6789" || r.StdoutBytes != 9 || !r.StdoutTruncated {
					t.Error(o)
				}
			},
		},
		{
			"keep both ends",
			jail.Job{Flags: []string{"--max-output", "1K", "--output-keep", "both"}, Sh: `printf first; head -c 10K /dev/zero | tr '\0' x; printf last`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Exited(t, 0)
				if !strings.HasPrefix(o.Out(), "first") || !strings.HasSuffix(o.Out(), "last") || r.StdoutBytes != 10<<10+9 || !r.StdoutTruncated {
					t.Error(o)
				}
			},
		},
		{
			"kill at the limit",
			jail.Job{Flags: []string{"--max-output", "1M", "--on-output-limit", "kill"}, Sh: `tr '\0' x </dev/zero`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Ended(t, jailer.StatusOutputLimitExceeded, jailer.LimitOutput, 137)
				o.Within(t, prompt)
				if len(o.Out()) != 1<<20 || !r.StdoutTruncated || r.StdoutBytes <= 1<<20 {
					t.Errorf("%d bytes kept of %d", len(o.Out()), r.StdoutBytes)
				}
			},
		},
		{
			"30 a line without an end",
			jail.Job{Flags: []string{"--max-output", "1M", "--timeout", "5s"}, Sh: `tr "\0" x </dev/zero`},
			func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
				r := o.Ended(t, jailer.StatusTimedOut, jailer.LimitWall, 124)
				if len(o.Out()) != 1<<20 || !r.StdoutTruncated || r.StdoutBytes <= 1<<20 {
					t.Errorf("%d bytes kept of %d", len(o.Out()), r.StdoutBytes)
				}
			},
		},
	})
}

func TestOutputRaw(t *testing.T) {
	each(t, []row{
		{"bytes pass as they are", jail.Job{Raw: true, Sh: `printf '\377\000a\n'; printf '\376' >&2`}, raw(0, "\xff\x00a\n", "\xfe")},
		{
			"a cut is said",
			jail.Job{Raw: true, Flags: []string{"--max-output", "4"}, Sh: `printf 123456`},
			raw(0, "1234", "jailer: warning: stdout cut after 4 of 6 bytes\n"),
		},
		{"nothing is added", jail.Job{Raw: true, Argv: []string{"printf", ""}}, raw(0, "", "")},
	})
}

// --ndjson streams the output while the job runs, and ends with the result.
func TestOutputEvents(t *testing.T) {
	each(t, []row{{
		"events",
		jail.Job{Raw: true, Flags: []string{"--ndjson"}, Sh: `echo out; sleep 0.3; printf '\377' >&2; exit 3`},
		func(t *testing.T, _ *jail.Caller, o *jail.Outcome) {
			if o.Code != 3 || o.Stderr != "" {
				t.Fatal(o)
			}
			var types []string
			text := map[string]string{}
			last := -1
			for s := bufio.NewScanner(strings.NewReader(o.Stdout)); s.Scan(); {
				var e struct {
					V, Seq                 *int
					Type, Stream, Encoding string
					Data                   string
					Result                 *jailer.Result
				}
				if err := json.Unmarshal(s.Bytes(), &e); err != nil || e.V == nil || *e.V != 1 || e.Seq == nil || *e.Seq <= last {
					t.Fatalf("%v in %s", err, s.Text())
				}
				last = *e.Seq
				types = append(types, e.Type)
				b, err := jailer.DecodeText(e.Data, e.Encoding)
				if err != nil {
					t.Fatalf("%v in %s", err, s.Text())
				}
				text[e.Stream] += string(b)
				if e.Type == "result" && (e.Result == nil || e.Result.Status != jailer.StatusExited || *e.Result.ExitCode != 3 || e.Result.StdoutBytes != 4) {
					t.Errorf("result: %s", s.Text())
				}
			}
			if len(types) < 4 || types[0] != "started" || types[len(types)-1] != "result" || text["stdout"] != "out\n" || text["stderr"] != "\xff" {
				t.Error(o)
			}
		},
	}})
}

// --result and --result-fd go with raw output, and tell of errors too.
func TestResultElsewhere(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		read := func(t *testing.T, name string) (*jailer.Result, error) {
			t.Helper()
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Count(b, []byte("\n")) != 1 {
				t.Errorf("not one line: %q", b)
			}
			return jailer.ParseResult(b)
		}
		t.Run("result", func(t *testing.T) {
			f := filepath.Join(c.Home, "r1")
			raw(5, "out\n", "")(t, c, c.Run(t, jail.Job{Raw: true, Flags: []string{"--result", f}, Sh: "echo out; exit 5"}))
			r, err := read(t, f)
			if err != nil || *r.ExitCode != 5 || r.Stdout != nil || r.StdoutBytes != 4 {
				t.Errorf("%+v, %v", r, err)
			}
		})
		t.Run("result-fd", func(t *testing.T) {
			f, err := os.OpenFile(filepath.Join(c.Home, "r2"), os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			o := c.Run(t, jail.Job{
				Raw: true, Flags: []string{"--result-fd", "3"}, Argv: []string{"nosuch"},
				Setup: func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{f} },
			})
			rawError(127, "nosuch")(t, c, o)
			if r, err := read(t, f.Name()); r != nil || err == nil || !strings.Contains(err.Error(), "nosuch") {
				t.Errorf("%+v, %v", r, err)
			}
		})
		t.Run("result-fd that can't be written to", func(t *testing.T) {
			f, err := os.Open("/dev/null")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			rawError(125, "--result-fd 3")(t, c, c.Run(t, jail.Job{
				Raw: true, Flags: []string{"--result-fd", "3"}, Sh: "echo RAN",
				Setup: func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{f} },
			}))
		})
		t.Run("pid-file that is a FIFO without a reader", func(t *testing.T) {
			fifo := filepath.Join(c.Home, "fifo")
			if err := syscall.Mkfifo(fifo, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(fifo, c.UID, c.UID); err != nil && os.Geteuid() == 0 {
				t.Fatal(err)
			}
			o := c.Run(t, jail.Job{Raw: true, Flags: []string{"--pid-file", fifo}, Sh: "echo RAN"})
			rawError(125, fifo)(t, c, o)
			o.Within(t, prompt)
		})
		t.Run("result-fd that nobody passed", func(t *testing.T) {
			for _, n := range []string{"1", "4", "7", "999", "-1"} {
				rawError(125, "--result-fd "+n)(t, c, c.Run(t, jail.Job{Raw: true, Flags: []string{"--result-fd", n}, Sh: "echo RAN"}))
			}
		})
	})
}

// 30: two gigabytes (on a slow machine fewer) go by, and jailer stays small.
func TestOutputFlood(t *testing.T) {
	t.Parallel()
	jail.Each(t, func(t *testing.T, c *jail.Caller) {
		produced := int64(need.Times(2<<10)) << 20
		ctx, cancel := context.WithTimeout(t.Context(), jail.Deadline)
		defer cancel()
		cmd := c.Command(ctx, "run", "--max-output", "1M", "--timeout", "150s", "--json", "--", "sh", "-c", fmt.Sprintf("head -c %d /dev/zero", produced))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		peak, done := make(chan int, 1), make(chan struct{})
		go func() { peak <- highWater(cmd.Process.Pid, done) }()
		err := cmd.Wait()
		close(done)
		rss := <-peak
		if err != nil {
			t.Fatalf("%v\n%.2000s", err, &out)
		}
		r, err := jailer.ParseResult(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if !r.StdoutTruncated || r.StdoutBytes != produced || r.Status != jailer.StatusExited || *r.ExitCode != 0 {
			t.Errorf("truncated %v, %d bytes, %s", r.StdoutTruncated, r.StdoutBytes, r.Status)
		}
		if b, err := r.StdoutData(); err != nil || len(b) != 1<<20 {
			t.Errorf("%d bytes kept, %v", len(b), err)
		}
		t.Logf("jailer's RSS peaked at %d KiB", rss)
		if rss == 0 || rss >= 40<<10 {
			t.Errorf("jailer's RSS peaked at %d KiB, want less than 40 MiB", rss)
		}
	})
}

// highWater follows VmHWM (KiB) of a process until done. The peak in its rusage
// would hold the test's own, from between fork and exec, and the job's.
func highWater(pid int, done <-chan struct{}) int {
	peak := 0
	for {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if i := bytes.Index(b, []byte("VmHWM:")); i >= 0 && bytes.HasPrefix(b, []byte("Name:\tjailer\n")) {
			var kib int
			fmt.Sscan(string(b[i+len("VmHWM:"):]), &kib)
			peak = max(peak, kib)
		}
		select {
		case <-done:
			return peak
		case <-tick():
		}
	}
}
