package pid1

import (
	"strings"
	"testing"
)

func TestEncodeRefuses(t *testing.T) {
	ok := Payload{Cwd: "/", Args: []string{"true"}, Env: []string{"A=b"}}
	if _, err := ok.Encode(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Payload){
		"no command":      func(p *Payload) { p.Args = nil },
		"NUL in argument": func(p *Payload) { p.Args = []string{"a\x00b"} },
		"NUL in env":      func(p *Payload) { p.Env = []string{"A=\x00"} },
		"NUL in cwd":      func(p *Payload) { p.Cwd = "/\x00/x" },
		"too large":       func(p *Payload) { p.Args = []string{strings.Repeat("x", bodyMax)} },
	} {
		t.Run(name, func(t *testing.T) {
			p := ok
			change(&p)
			if _, err := p.Encode(); err == nil {
				t.Error("accepted")
			}
		})
	}
}
