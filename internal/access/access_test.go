package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/test/need"
)

// script is a program of the policy's.
func script(t testing.TB, body string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "program")
	// A child that is forked meanwhile would have it open for writing (ETXTBSY).
	syscall.ForkLock.RLock()
	err := os.WriteFile(p, []byte("#!/bin/sh\n"+body+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type noted []audit.Event

// gate is one of a policy's text.
func gate(t testing.TB, text string) (*Gate, *noted) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.toml")
	if err := os.WriteFile(file, []byte("version = 1\nextends = \"builtin\"\n"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	var events noted
	return &Gate{Policy: p, UID: os.Getuid(), Note: func(_ context.Context, e audit.Event) error {
		events = append(events, e)
		return nil
	}}, &events
}

func coded(t testing.TB, err error, code jailer.Code) *jailer.Error {
	t.Helper()
	e, ok := errors.AsType[*jailer.Error](err)
	if !ok || e.Code != code {
		t.Fatalf("%v, want %s", err, code)
	}
	return e
}

// Only a clear yes is one.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		body string
		yes  bool
	}{
		"yes":            {`echo '{"allow":true,"by":"ann","reason":"fine"}'`, true},
		"yes, read":      {`cat > /dev/null; echo '{"allow":true}'`, true},
		"no":             {`echo '{"allow":false,"reason":"not today"}'`, false},
		"nothing":        {`:`, false},
		"empty":          {`echo '{}'`, false},
		"garbage":        {`echo yes`, false},
		"null":           {`echo null`, false},
		"word":           {`echo '{"allow":"true"}'`, false},
		"number":         {`echo '{"allow":1}'`, false},
		"other case":     {`echo '{"Allow":true}'`, false},
		"twice":          {`echo '{"allow":false,"allow":true}'`, false},
		"two documents":  {`echo '{"allow":true}{"allow":false}'`, false},
		"more":           {`echo '{"allow":true,"unless":"x"}'`, false},
		"cut":            {`printf '{"allow":true'`, false},
		"exit 1":         {`echo '{"allow":true}'; exit 1`, false},
		"killed":         {`echo '{"allow":true}'; kill -KILL $$`, false},
		"hangs":          {`echo '{"allow":true}'; sleep 1000`, false},
		"hangs, closed":  {`echo '{"allow":true}'; exec >&-; sleep 1000`, false},
		"flood":          {`yes '{"allow":true}'`, false},
		"1 GB of spaces": {`echo '{"allow":true}'; head -c 1G /dev/zero`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := script(t, row.body)
			timeout := 30 * time.Second
			if strings.HasPrefix(name, "hangs") {
				timeout = time.Second
			}
			for _, key := range []string{"approve", "authorize"} {
				text := fmt.Sprintf("[%s]\ncommand = [%q]\ntimeout = %q\n", key, path, min(timeout, 10*time.Second))
				code := jailer.CodeUnauthorized
				if key == "approve" {
					text += "rules = [{ argv = [\"git\"] }]\n"
					code = jailer.CodeApprovalDenied
				}
				g, events := gate(t, text)
				began := time.Now()
				err := g.Check(t.Context(), Operation{Name: "run", Argv: []string{"git", "push"}})
				if took := time.Since(began); took > need.Time(20*time.Second) {
					t.Errorf("%s: %v", key, took)
				}
				if row.yes != (err == nil) {
					t.Fatalf("%s: %v", key, err)
				}
				if err != nil {
					coded(t, err, code)
				}
				if key == "authorize" {
					continue
				}
				if len(*events) != 2 || (*events)[0].Type != audit.ApprovalAsked || (*events)[1].Type != audit.ApprovalAnswered {
					t.Fatalf("%+v", *events)
				}
				if a := (*events)[1].Data.(audit.Answered); a.Approved != row.yes || name == "yes" && (a.By != "ann" || a.Reason != "fine") {
					t.Errorf("%+v", a)
				}
			}
		})
	}
}

// What can't be run safely, or at all, is a no; so is a rule with nobody to ask.
func TestPrograms(t *testing.T) {
	yes := script(t, `echo '{"allow":true}'`)
	shared := script(t, `echo '{"allow":true}'`)
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	gone := script(t, "")
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"writable by others": shared, "gone": gone, "a directory": filepath.Dir(yes)} {
		g, _ := gate(t, fmt.Sprintf("[approve]\ncommand = [%q]\nrules = [{ capabilities = [\"exec\"] }]\n", path))
		e := coded(t, g.Check(t.Context(), Operation{Name: "run", Argv: []string{"true"}, Capabilities: []string{"exec"}}), jailer.CodeApprovalDenied)
		if e.Path != "approve.rules[0]" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	g, events := gate(t, "[approve]\nrules = [{ argv = [\"git\"] }]\n")
	coded(t, g.Check(t.Context(), Operation{Name: "run", Argv: []string{"git"}}), jailer.CodeApprovalDenied)
	if err := g.Check(t.Context(), Operation{Name: "run", Argv: []string{"true"}}); err != nil || len(*events) != 0 {
		t.Errorf("%v %v", err, *events)
	}
	// Whoever gives up gets no yes.
	g, events = gate(t, fmt.Sprintf("[approve]\ncommand = [%q]\nrules = [{ argv = [\"git\"] }]\n", script(t, "sleep 1000")))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	coded(t, g.Check(ctx, Operation{Name: "run", Argv: []string{"git"}}), jailer.CodeApprovalDenied)
	if len(*events) != 2 {
		t.Errorf("%+v", *events)
	}
	// What can't be written down is not asked.
	g.Note = func(context.Context, audit.Event) error { return errors.New("full") }
	if err := g.Check(t.Context(), Operation{Name: "run", Argv: []string{"git"}}); err == nil || err.Error() != "full" {
		t.Error(err)
	}
}

// The question has all that is known, in one line of JSON whatever the words are, and the
// program has nothing of the caller's.
func TestQuestion(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	t.Setenv("SECRET", "x")
	g, _ := gate(t, fmt.Sprintf("[authorize]\ncommand = [%q, %q]\n", script(t, `cat > "$1"; env >> "$1"; pwd >> "$1"; echo '{"allow":true}'`), out))
	op := Operation{
		Name: "run", SessionID: "s1", Profile: "default", Tenant: "acme", Workspace: "acme/x", Labels: map[string]string{"job": "42"},
		Capabilities: []string{"exec"}, Argv: []string{"echo", "a\nb", "\x1b[2J"}, Paths: []string{"a", "\xff"},
	}
	if err := g.Check(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	want := fmt.Sprintf(`{"v":1,"operation":"run","uid":%d,"sessionId":"s1","profile":"default","tenant":"acme","workspace":"acme/x","labels":{"job":"42"},`+
		`"capabilities":["exec"],"argv":["echo","a\nb","\u001b[2J"],"paths":["YQ==","/w=="],"pathsEncoding":"base64"}`, os.Getuid())
	if lines[0] != want {
		t.Errorf("%s, want\n%s", lines[0], want)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &doc); err != nil {
		t.Error(err)
	}
	if rest := strings.Join(lines[1:], "\n"); strings.Contains(rest, "SECRET") || !strings.HasSuffix(rest, "\n/\n") {
		t.Errorf("it has\n%s", rest)
	}
}

// Owners: who is not listed, for another tenant or in another profile, does nothing.
func TestOwners(t *testing.T) {
	g, _ := gate(t, fmt.Sprintf("[[owners]]\nuid = %d\ntenants = [\"acme\"]\nprofiles = [\"default\"]\n", os.Getuid()))
	if err := g.Check(t.Context(), Operation{Name: "run", Tenant: "acme", Profile: "default"}); err != nil {
		t.Error(err)
	}
	coded(t, g.Check(t.Context(), Operation{Name: "run", Tenant: "other", Profile: "default"}), jailer.CodeUnauthorized)
	coded(t, g.Check(t.Context(), Operation{Name: "run", Profile: "default"}), jailer.CodeUnauthorized)
	g.UID++
	coded(t, g.Check(t.Context(), Operation{Name: "run", Tenant: "acme", Profile: "default"}), jailer.CodeUnauthorized)
}

// FuzzAnswer: no bytes are a yes but those of a document that says so.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"allow":true}`, `{"allow":false}`, `{"allow":true,"by":"x","reason":"y"}`, `{"allow":true}x`, `{"allow":true,"allow":false}`, "", "null", "[true]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parse(b)
		if err != nil && a.Allow {
			t.Fatal("an error that allows")
		}
		if err != nil || !a.Allow {
			return
		}
		var doc map[string]any
		if err := json.Unmarshal(b, &doc); err != nil || doc["allow"] != true {
			t.Fatalf("%q is taken for a yes: %v", b, err)
		}
	})
}
