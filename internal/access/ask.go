package access

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/strictjson"
	"github.com/jailer-project/jailer/internal/trust"
	"github.com/jailer-project/jailer/policy"
)

// maxAnswer bounds an answer, in bytes; more is none.
const maxAnswer = 16 << 10

// An answer is what a program writes.
type answer struct {
	Allow  bool   `json:"allow"`
	By     string `json:"by"`     // who decided
	Reason string `json:"reason"` // for people
}

func (a answer) refusal(who string, err error) string {
	switch {
	case err != nil:
		return who + " gave no answer that could be used, which is a no"
	case a.Reason != "":
		return fmt.Sprintf("%s says no: %.200q", who, a.Reason)
	}
	return who + " says no"
}

// parse is strict: an answer that two readers could take for different ones is none.
func parse(b []byte) (a answer, err error) {
	if err := strictjson.Decode(b, &a, strictjson.Options{MaxBytes: maxAnswer, MaxDepth: 4}); err != nil {
		return answer{}, err
	}
	return a, nil
}

// words are strings that need be no UTF-8: if one is none, all are in base64.
type words struct {
	list     []string
	encoding string
}

func encode(list []string) (w words) {
	if slices.ContainsFunc(list, func(s string) bool { return !utf8.ValidString(s) }) {
		w.encoding = jailer.EncodingBase64
	}
	if w.list = list; w.encoding == "" {
		return w
	}
	w.list = make([]string, len(list))
	for i, s := range list {
		w.list[i] = base64.StdEncoding.EncodeToString([]byte(s))
	}
	return w
}

// question is the document.
func question(op Operation, uid int, rule *int) ([]byte, error) {
	argv, paths := encode(op.Argv), encode(op.Paths)
	return json.Marshal(struct {
		V             int               `json:"v"`
		Operation     string            `json:"operation"`
		UID           int               `json:"uid"`
		SessionID     string            `json:"sessionId,omitempty"`
		Profile       string            `json:"profile,omitempty"`
		Tenant        string            `json:"tenant,omitempty"`
		Workspace     string            `json:"workspace,omitempty"`
		Labels        map[string]string `json:"labels,omitempty"`
		Capabilities  []string          `json:"capabilities,omitempty"`
		Argv          []string          `json:"argv,omitempty"`
		ArgvEncoding  string            `json:"argvEncoding,omitempty"`
		Paths         []string          `json:"paths,omitempty"`
		PathsEncoding string            `json:"pathsEncoding,omitempty"`
		AnyPath       bool              `json:"anyPath,omitempty"`
		Rule          *int              `json:"rule,omitempty"`
	}{
		jailer.ProtocolVersion, op.Name, uid, op.SessionID, op.Profile, op.Tenant, op.Workspace, op.Labels, op.Capabilities,
		argv.list, argv.encoding, paths.list, paths.encoding, op.AnyPath, rule,
	})
}

// ask runs a program of the policy's with the question on its standard input. An answer
// counts if the program has exited with 0 in time.
func (g *Gate) ask(ctx context.Context, p policy.Program, op Operation, rule *int) (answer, error) {
	q, err := question(op, g.UID, rule)
	if err != nil {
		return answer{}, err
	}
	owners := []int{0}
	if o := int(g.Policy.FileOwner()); o != 0 {
		owners = append(owners, o)
	}
	if err := (trust.Rules{Owners: owners, Links: true, Sticky: true, Userns: true}).Path(p.Command[0]); err != nil {
		return answer{}, err
	}
	if g.Asking != nil {
		g.Asking(p.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	// Of the caller's environment it has nothing: he must not lead it astray.
	cmd.Env, cmd.Dir = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}, "/"
	cmd.Stdin = bytes.NewReader(append(q, '\n'))
	// A group of its own, so that what it has started ends with it when the time is over.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = drain
	out := &bounded{left: maxAnswer, full: cancel}
	cmd.Stdout = out
	err = cmd.Run()
	switch {
	case out.over:
		return answer{}, fmt.Errorf("%s: more than %d bytes of an answer", p.Command[0], maxAnswer)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return answer{}, fmt.Errorf("%s: no answer in %v", p.Command[0], p.Timeout)
	case err != nil && !errors.Is(err, unix.EPIPE): // it need not read the question
		return answer{}, fmt.Errorf("%s: %w", p.Command[0], err)
	case ctx.Err() != nil:
		return answer{}, context.Cause(ctx)
	}
	a, err := parse(out.b)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", p.Command[0], err)
	}
	return a, nil
}

// drain is how long the output of what a program left behind is waited for.
const drain = time.Second

// bounded keeps what fits and ends the program at more.
type bounded struct {
	b    []byte
	left int
	over bool
	full func()
}

func (w *bounded) Write(b []byte) (int, error) {
	if len(b) > w.left {
		w.over = true
		w.full()
		return 0, io.ErrShortWrite
	}
	w.left -= len(b)
	w.b = append(w.b, b...)
	return len(b), nil
}
