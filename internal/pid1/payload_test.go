package pid1

import (
	"io"
	"strings"
	"testing"
)

func TestEncodeRefuses(t *testing.T) {
	ok := Payload{Cwd: "/", Args: []string{"true"}, Env: []string{"A=b"}}
	if _, err := ok.encode(0); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Payload){
		"no command":      func(p *Payload) { p.Args = nil },
		"NUL in argument": func(p *Payload) { p.Args = []string{"a\x00b"} },
		"NUL in env":      func(p *Payload) { p.Env = []string{"A=\x00"} },
		"NUL in a label":  func(p *Payload) { p.AppArmor.JobLabel = "a\x00b" },
		"NUL in cwd":      func(p *Payload) { p.Cwd = "/\x00/x" },
		"too large":       func(p *Payload) { p.Args = []string{strings.Repeat("x", bodyMax)} },
	} {
		t.Run(name, func(t *testing.T) {
			p := ok
			change(&p)
			if _, err := p.encode(0); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// What can't be said to PID 1 is refused before anything is sent.
func TestOrdersRefused(t *testing.T) {
	conn, child, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := Payload{Cwd: "/", Args: []string{"true"}}
	for name, err := range map[string]error{
		"two of three":   conn.Exec(1, &p, Files{Stdin: child, Stdout: child}),
		"no command":     conn.Exec(1, &Payload{}, Files{}),
		"signal 0":       conn.Signal(1, 0),
		"signal 65":      conn.SignalGroup(1, 65),
		"a long label":   conn.Setup(&Setup{Label: strings.Repeat("x", setupMax)}),
		"NUL in a label": conn.Setup(&Setup{Label: "a\x00b"}),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	child.Close()
	if _, err := conn.Next(); err != io.EOF {
		t.Errorf("something was sent: %v", err)
	}
}
