package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/stream"
	"github.com/jailer-project/jailer/internal/terminal"
)

type outputFlags struct {
	json, ndjson bool
	result       string
	resultFD     int
}

func (f *outputFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.json, "json", false, "capture the output and print one result document")
	fs.BoolVar(&f.ndjson, "ndjson", false, "print output and result as a stream of JSON lines")
	fs.StringVar(&f.result, "result", "", "write the result document to `FILE`")
	fs.IntVar(&f.resultFD, "result-fd", 0, "write it to the inherited descriptor `N` (3 or more)")
}

// A sink is where output and result go.
type sink struct {
	a              *app
	stdout, stderr io.Writer // nil: captured
	lines          *stream.Lines
	begun          chan struct{} // closed when the event "started" is out
	json           bool
	tty            *launch.TTY // nil: pipes
	result         *os.File
}

// openSink opens every destination before anything runs.
func (a *app) openSink(f *outputFlags) (*sink, error) {
	s := &sink{a: a, json: f.json}
	switch {
	case f.json && f.ndjson:
		return nil, usagef("--json and --ndjson: choose one")
	case f.result != "" && f.resultFD != 0:
		return nil, usagef("--result and --result-fd: choose one")
	case f.ndjson:
		s.lines = stream.NewLines(a.out)
		s.begun = make(chan struct{})
		s.stdout, s.stderr = gate{s.begun, s.lines.Framer("stdout")}, gate{s.begun, s.lines.Framer("stderr")}
	case !f.json:
		s.stdout, s.stderr = a.out, a.err
	}
	var err error
	switch {
	case f.result != "":
		s.result, err = os.OpenFile(f.result, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return nil, &jailer.Error{Code: jailer.CodeInvalidPath, Op: "result", Err: err}
		}
	case f.resultFD != 0:
		s.result, err = inherited(f.resultFD)
	}
	return s, err
}

// inherited takes over a descriptor of the caller's. The Go runtime's own are
// close-on-exec and an inherited one never is: that tells a descriptor that
// was really passed from one that happens to have the number.
func inherited(n int) (*os.File, error) {
	if n < 3 {
		return nil, usagef("--result-fd %d: must be 3 or more", n)
	}
	flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil, usagef("--result-fd %d: no such descriptor was inherited", n)
	}
	mode, err := unix.FcntlInt(uintptr(n), unix.F_GETFL, 0)
	if err != nil || mode&unix.O_PATH != 0 || mode&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, usagef("--result-fd %d: can't be written to", n)
	}
	unix.CloseOnExec(n)
	return os.NewFile(uintptr(n), "result-fd"), nil
}

func (s *sink) started(st launch.Started) {
	if s.lines == nil {
		return
	}
	defer close(s.begun)
	s.emit("started", struct {
		SessionID string `json:"sessionId"`
		ExecID    string `json:"execId"`
		StartedAt string `json:"startedAt"`
		SetupMs   int64  `json:"setupMs"`
		Terminal  *size  `json:"terminal,omitempty"`
	}{st.SessionID, st.ExecID, st.At.UTC().Format("2006-01-02T15:04:05.000Z"), st.SetupMs, s.size()})
}

// size is a terminal's, in characters.
type size struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// size is that of the job's terminal at the start, nil without one.
func (s *sink) size() *size {
	if s.tty == nil {
		return nil
	}
	return &size{s.tty.Size.Cols, s.tty.Size.Rows}
}

func (s *sink) resized(to terminal.Size) {
	if s.lines != nil {
		_ = s.emit("resize", size{to.Cols, to.Rows}) // a write error sticks until the result
	}
}

// A gate holds output back until the event "started" is out: a job may print
// before PID 1's report of its start has been read. If it never starts there is
// nothing to hold back.
type gate struct {
	open <-chan struct{}
	*stream.Framer
}

func (g gate) Write(b []byte) (int, error) {
	<-g.open
	return g.Framer.Write(b)
}

// emit writes one event line whose members are those of v.
func (s *sink) emit(typ string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	body = stream.EscapeJSON(body)
	return s.lines.Emit(func(dst []byte, seq int64) []byte {
		dst = fmt.Appendf(dst, `{"v":1,"type":%q,"seq":%d`, typ, seq)
		if rest := bytes.TrimPrefix(body, []byte("{")); len(rest) > 1 {
			dst = append(append(dst, ','), rest...)
		} else {
			dst = append(dst, '}')
		}
		return dst
	})
}

// done writes the result, last of all.
func (s *sink) done(o *launch.Outcome) error {
	r := o.Result
	var errs []error
	switch {
	case s.json:
		errs = append(errs, writeResult(s.a.out, r))
	case s.lines != nil:
		errs = append(errs, s.emit("result", map[string]any{"result": r}))
	default:
		s.comment(o)
	}
	return s.finish(func(w io.Writer) error { return writeResult(w, r) }, errs)
}

// failed writes the error of a command that never ran.
func (s *sink) failed(err error) error {
	e := s.a.told(err)
	var errs []error
	doc := struct {
		V     int           `json:"v"`
		Error *jailer.Error `json:"error"`
	}{jailer.ProtocolVersion, e}
	switch {
	case s.json:
		errs = append(errs, writeJSON(s.a.out, doc))
	case s.lines != nil:
		errs = append(errs, s.emit("error", map[string]any{"error": e}))
	}
	return s.finish(func(w io.Writer) error { return writeJSON(w, doc) }, errs)
}

func (s *sink) finish(write func(io.Writer) error, errs []error) error {
	if s.result != nil {
		errs = append(errs, write(s.result), s.result.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return &jailer.Error{Code: jailer.CodeInternal, Op: "result", Message: "the result could not be written", Err: err}
	}
	return nil
}

// writeResult writes r as one line, as writeJSON would, but for the order of
// members: the captured output comes last, piece by piece. encoding/json would
// hold it several times, escaped, and jailer's memory must not follow what a job
// prints.
func writeResult(w io.Writer, r *jailer.Result) error {
	small := *r
	small.Stdout, small.Stderr = nil, nil
	b, err := json.Marshal(small)
	if err != nil {
		return err
	}
	b = stream.EscapeJSON(b)
	out := bufio.NewWriter(w)
	out.Write(b[:len(b)-1]) // a failed write is reported by Flush
	for _, o := range []struct {
		name string
		text *string
	}{{"stdout", r.Stdout}, {"stderr", r.Stderr}} {
		if o.text == nil {
			continue
		}
		fmt.Fprintf(out, ",%q:", o.name)
		if err := stream.WriteString(out, *o.text); err != nil {
			return err
		}
	}
	out.WriteString("}\n")
	return out.Flush()
}

// comment tells a person, in raw mode, what the exit status can't.
func (s *sink) comment(o *launch.Outcome) {
	r := o.Result
	if r.StdoutTruncated {
		s.a.warn("stdout cut after %d of %d bytes", o.StdoutKept, r.StdoutBytes)
	}
	if r.StderrTruncated {
		s.a.warn("stderr cut after %d of %d bytes", o.StderrKept, r.StderrBytes)
	}
	switch r.Status {
	case jailer.StatusTimedOut:
		s.a.warn("ended by the %s clock after %d ms", *r.Limit, r.DurationMs)
	case jailer.StatusExpired:
		s.a.warn("ended at the end of its time to live")
	case jailer.StatusOOMKilled:
		s.a.warn("ended for exceeding its memory limit")
	case jailer.StatusOutputLimitExceeded:
		s.a.warn("ended for exceeding its output limit")
	case jailer.StatusAborted:
		s.a.warn("aborted")
	}
	if r.InitLost {
		s.a.warn("PID 1 of the jail was lost; how the command ended is not known")
	}
}

func asJailerError(err error) *jailer.Error {
	var e *jailer.Error
	if errors.As(err, &e) {
		return e
	}
	code := jailer.CodeInternal
	var ue *usageError
	if errors.As(err, &ue) {
		code = jailer.CodeInvalidRequest
	}
	return &jailer.Error{Code: code, Err: err}
}
