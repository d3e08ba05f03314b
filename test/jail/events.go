package jail

import (
	"encoding/json"
	"strings"
	"testing"
)

// Event is one record of the event log.
type Event struct {
	V         int
	Seq       int64
	Time      string
	Type      string
	SessionID string
	ExecID    string
	Tenant    string
	Labels    map[string]string
	UID       int

	TraceParent string

	Data map[string]any

	Line string // as it was printed
}

// Events are those of `jailer events`, whose seq must rise.
func (c *Caller) Events(t testing.TB, flags ...string) []Event {
	t.Helper()
	o := c.Do(t, Job{Raw: true}, append([]string{"events"}, flags...)...)
	if o.Code != 0 {
		t.Fatal(o)
	}
	var out []Event
	for line := range strings.Lines(o.Stdout) {
		e := Event{Line: line}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.V != 1 || e.Time == "" || e.Labels == nil || e.Data == nil {
			t.Fatalf("no event: %v: %q", err, line)
		}
		if n := len(out); n > 0 && out[n-1].Seq >= e.Seq {
			t.Errorf("seq %d after %d", e.Seq, out[n-1].Seq)
		}
		out = append(out, e)
	}
	return out
}
