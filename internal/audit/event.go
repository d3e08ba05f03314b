// Package audit is the event log: what was done, one JSON object in one line
// each (NDJSON), appended to one file by every launcher and collector.
//
// Nothing that a caller or a job chose can end a line or drive the terminal that
// shows it. Arguments, variables, output and contents of files are in no event.
// Who may write to the file may forge it: it is its owner's alone.
package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jailer-project/jailer/internal/stream"
)

// A Type says what happened.
type Type string

// The types.
const (
	SessionCreated   Type = "session.created"
	SessionDestroyed Type = "session.destroyed"
	SessionLeaked    Type = "session.leaked"
	ExecStarted      Type = "exec.started"
	ExecFinished     Type = "exec.finished"
	ProcessStarted   Type = "process.started" // a managed process
	ProcessExited    Type = "process.exited"
	LimitExceeded    Type = "limit.exceeded"
	FileWritten      Type = "file.written" // by a verb of jailer's, as file.removed; not by a command
	FileRemoved      Type = "file.removed"
	ArtifactExported Type = "artifact.exported"
	ArtifactImported Type = "artifact.imported"
	PolicyDenied     Type = "policy.denied"
	ApprovalAsked    Type = "approval.asked"
	ApprovalAnswered Type = "approval.answered"
	GCReaped         Type = "gc.reaped"
)

// Types lists them.
func Types() []Type {
	return []Type{
		SessionCreated, SessionDestroyed, SessionLeaked, ExecStarted, ExecFinished,
		ProcessStarted, ProcessExited, LimitExceeded, FileWritten, FileRemoved, ArtifactExported, ArtifactImported,
		PolicyDenied, ApprovalAsked, ApprovalAnswered, GCReaped,
	}
}

// A Subject is whom an event is about.
type Subject struct {
	SessionID string            `json:"sessionId,omitempty"` // absent where there never was a session
	Tenant    string            `json:"tenant,omitempty"`
	Labels    map[string]string `json:"labels"` // never null
	UID       int               `json:"uid"`    // of the caller, on the host
	// TraceParent is the span that asked, of W3C Trace Context; absent where none did.
	TraceParent string `json:"traceparent,omitempty"`
}

// An Event is one line of the log.
type Event struct {
	V    int    `json:"v"`    // set by Append
	Seq  int64  `json:"seq"`  // set by Append: one more than that of the record before it in the file
	Time string `json:"time"` // set by Append: RFC 3339, UTC, ms
	Type Type   `json:"type"`
	Subject
	ExecID string `json:"execId,omitempty"`
	Data   any    `json:"data"` // never null
}

// stampForm is RFC 3339 with three digits always, so that stamps sort as text.
const stampForm = "2006-01-02T15:04:05.000Z"

// Version of the records.
const Version = 1

const (
	// maxRecord is the longest line, in bytes, its end included. All labels that a
	// request may have fit, with every byte of them escaped.
	maxRecord = 128 << 10
	maxString = 1 << 10 // bytes of a label's value, an id or a tenant
)

// line is the event as one line. Labels and ids were checked where they came in;
// that one line stays one line, and valid, doesn't rest on it.
func (e Event) line(now time.Time) ([]byte, error) {
	e.V, e.Time = Version, now.UTC().Format(stampForm)
	e.SessionID, e.ExecID, e.Tenant = visible(e.SessionID), visible(e.ExecID), visible(e.Tenant)
	e.TraceParent = visible(e.TraceParent)
	labels := make(map[string]string, len(e.Labels))
	for k, v := range e.Labels {
		labels[visible(k)] = visible(v)
	}
	e.Labels = labels
	if e.Data == nil {
		e.Data = struct{}{}
	}
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	b = append(stream.EscapeJSON(b), '\n')
	if len(b) > maxRecord {
		return nil, fmt.Errorf("a record of %d bytes, more than the %d allowed", len(b), maxRecord)
	}
	return b, nil
}

// visible is s with each byte that is no UTF-8 spelt out: encoding/json makes the
// same character of all of them, so that two keys could become one. It is cut at
// maxString.
func visible(s string) string {
	if len(s) > maxString {
		n := maxString
		for n > maxString-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + "…"
	}
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[0])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// A Head is what a reader looks at in a record.
type Head struct {
	V         int    `json:"v"`
	Seq       int64  `json:"seq"`
	Type      Type   `json:"type"`
	SessionID string `json:"sessionId"`
	ExecID    string `json:"execId"`
}

// parse tells a record from anything else: half a line, another program's.
func parse(line []byte) (Head, bool) {
	var h Head
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &h) != nil {
		return h, false
	}
	return h, h.V >= Version && h.Seq > 0 && h.Type != ""
}
