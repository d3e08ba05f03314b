package jail

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
)

// Ran ends the test unless the command ran.
func (o *Outcome) Ran(t testing.TB) *jailer.Result {
	t.Helper()
	if o.Result == nil {
		t.Fatalf("the command did not run:\n%s", o)
	}
	if o.Result.Error != nil {
		t.Errorf("the run ended with an error: %v\n%s", o.Result.Error, o)
	}
	return o.Result
}

// Exited wants the command's own exit with this code, and jailer's the same.
func (o *Outcome) Exited(t testing.TB, code int) *jailer.Result {
	t.Helper()
	r := o.Ran(t)
	if r.Status != jailer.StatusExited || r.ExitCode == nil || *r.ExitCode != code || r.Signal != nil || r.Limit != nil || o.Code != code {
		t.Fatalf("want an exit with %d, got:\n%s", code, o)
	}
	return r
}

// Said wants an exit with 0 and exactly this output.
func (o *Outcome) Said(t testing.TB, want string) *jailer.Result {
	t.Helper()
	r := o.Exited(t, 0)
	if o.Out() != want || o.ErrOut() != "" {
		t.Fatalf("want the output %q and nothing else, got:\n%s", want, o)
	}
	return r
}

// Signaled wants the end by a signal of the job's own.
func (o *Outcome) Signaled(t testing.TB, name string, code int) {
	t.Helper()
	r := o.Ran(t)
	if r.Status != jailer.StatusSignaled || r.Signal == nil || *r.Signal != name || r.ExitCode != nil || o.Code != code || r.InitLost {
		t.Fatalf("want the end by %s and exit status %d, got:\n%s", name, code, o)
	}
}

// Ended wants a status that jailer brought about, with its limit ("" for none).
func (o *Outcome) Ended(t testing.TB, status jailer.Status, limit jailer.Limit, code int) *jailer.Result {
	t.Helper()
	r := o.Ran(t)
	var got jailer.Limit
	if r.Limit != nil {
		got = *r.Limit
	}
	if r.Status != status || got != limit || o.Code != code {
		t.Fatalf("want %s/%s and exit status %d, got:\n%s", status, limit, code, o)
	}
	if limit != "" && !slices.Contains(r.LimitsHit, string(limit)) {
		t.Errorf("limitsHit %v is without %s", r.LimitsHit, limit)
	}
	return r
}

// Refused wants an error before the command started, with exit status code, and
// each of words in message, hint or reason.
func (o *Outcome) Refused(t testing.TB, status int, code jailer.Code, words ...string) {
	t.Helper()
	if o.Err == nil {
		t.Fatalf("want a refusal with %s, got:\n%s", code, o)
	}
	if o.Code != status || o.Err.Code != code {
		t.Errorf("want exit status %d and code %s, got:\n%s", status, code, o)
	}
	text := o.Err.Error() + "\n" + o.Err.Hint + "\n" + o.Err.Reason
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("the error is without %q:\n%s", w, o)
		}
	}
	// What a program reads, a person must see too.
	for _, s := range []string{"jailer: error: ", o.Err.Hint} {
		if !strings.Contains(o.Stderr, s) {
			t.Errorf("standard error is without %q:\n%s", s, o)
		}
	}
	if strings.Contains(o.Stderr, "Usage:") {
		t.Errorf("usage text after an error:\n%s", o)
	}
}

// Within wants an answer in a time that only a hang exceeds.
func (o *Outcome) Within(t testing.TB, d time.Duration) {
	t.Helper()
	if o.Took > d {
		t.Errorf("took %v, want at most %v:\n%s", o.Took, d, o)
	}
}

// LimitedBy says what enforced a limit: "cgroup2", "cgroup1", "rlimit" or "".
func (o *Outcome) LimitedBy(limit string) string {
	if o.Result == nil {
		return ""
	}
	return o.Result.Isolation.Limits[limit]
}

// Cgroup says whether a cgroup enforced a limit.
func (o *Outcome) Cgroup(limit string) bool {
	return strings.HasPrefix(o.LimitedBy(limit), "cgroup")
}
