package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

var hostile = []string{
	"a\nb", "a\r\nb", "\x1b[2J\x1b]0;owned\a", "\u009b31m", "\x9b31m", "\xff\xfe", "a\x00b", "\x7f", "\u2028\u2029",
	"\u202egnp.exe", "\u200b", `","type":"session.destroyed","x":"`, `\`, `"`, "\xed\xa0\x80", "<script>&", "\U000e0041",
}

// checkLine holds a line to what every line is.
func checkLine(t *testing.T, b []byte) {
	t.Helper()
	if bytes.Count(b, []byte("\n")) != 1 || b[len(b)-1] != '\n' {
		t.Fatalf("not one line: %q", b)
	}
	line := b[:len(b)-1]
	if !json.Valid(line) || !utf8.Valid(line) || !strings.HasPrefix(string(line), first) || len(b) > maxRecord {
		t.Errorf("no record: %q", line)
	}
	for _, c := range string(line) {
		if !unicode.IsPrint(c) {
			t.Errorf("%U is in %q", c, line)
		}
	}
	if h, ok := parse(line); !ok || h.Seq != 7 {
		t.Errorf("read back as %+v: %q", h, line)
	}
}

func TestLine(t *testing.T) {
	e := Event{Seq: 7, Type: ExecFinished, ExecID: "1\n", Data: map[string]string{"a\nb\x9b": "\x1b\u009b\n\xff"}}
	e.Labels = map[string]string{}
	for i, h := range append(hostile, strings.Repeat("é\x9b", 5<<20)) {
		e.Labels[string(rune('a'+i))+h] = h
	}
	e.SessionID, e.Tenant = hostile[0], hostile[2]+hostile[5]
	b, err := e.line(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	checkLine(t, b)
	var back Event
	if err := json.Unmarshal(b, &back); err != nil || len(back.Labels) != len(e.Labels) {
		t.Fatalf("%d labels became %d: %v", len(e.Labels), len(back.Labels), err)
	}
	if got := back.Labels["a"+hostile[0]]; got != hostile[0] {
		t.Errorf("%q became %q", hostile[0], got)
	}
}

// What encoding/json would make one of stays two.
func TestLineKeysStayApart(t *testing.T) {
	e := Event{Seq: 7, Type: ExecStarted}
	e.Labels = map[string]string{"\xff": "1", "\xfe": "2", "\ufffd": "3"}
	b, err := e.line(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	checkLine(t, b)
	for _, want := range []string{`"\\xff":"1"`, `"\\xfe":"2"`, "\"\ufffd\":\"3\""} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
}

func TestLineTooLong(t *testing.T) {
	e := Event{Type: ExecStarted, Data: strings.Repeat("x", maxRecord)}
	if _, err := e.line(time.Now()); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
	l := open(t)
	if l.Append(t.Context(), event(ExecStarted, "a"), e) == nil || content(t, l) != "" {
		t.Errorf("half of what was to be written: %q", content(t, l))
	}
}

// Members that are no event's own have these shapes: a label is always there.
func TestLineShape(t *testing.T) {
	b, err := Event{Seq: 7, Type: ExecStarted}.line(time.UnixMilli(1).UTC())
	want := `{"v":1,"seq":7,"time":"1970-01-01T00:00:00.001Z","type":"exec.started","labels":{},"uid":0,"data":{}}` + "\n"
	if err != nil || string(b) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, b, want)
	}
}

func FuzzLine(f *testing.F) {
	for _, h := range hostile {
		f.Add(h, h, h)
	}
	f.Fuzz(func(t *testing.T, id, key, value string) {
		e := Event{Seq: 7, Type: ExecStarted, Data: map[string]string{key: value}}
		e.SessionID, e.Tenant, e.ExecID, e.Labels = id, value, key, map[string]string{key: value}
		b, err := e.line(time.Now())
		if err != nil {
			if len(key)+len(value) < maxRecord/16 {
				t.Fatal(err)
			}
			return
		}
		checkLine(t, b)
	})
}
