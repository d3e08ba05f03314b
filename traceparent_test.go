package jailer_test

import (
	"strings"
	"testing"

	"github.com/jailer-project/jailer"
)

// The cases of www.w3.org/TR/trace-context.
func TestTraceParent(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for s, valid := range map[string]bool{
		good:                                   true,
		good[:53] + "00":                       true,
		"cc" + good[2:]:                        true,
		"cc" + good[2:] + "-what-the-future-h": true,
		good + "-00":                           false, // version 00 has no more
		"cc" + good[2:] + ".what":              false,
		"cc" + good[2:] + "-a b":               false,
		"cc" + good[2:] + "-\x1b[2J":           false,
		"cc" + good[2:] + "-" + strings.Repeat("x", 300): false,
		"ff" + good[2:]:           false,
		strings.ToUpper(good):     false,
		good[:54]:                 false,
		"":                        false,
		" " + good:                false,
		good + "\n":               false,
		good[:2] + "_" + good[3:]: false,
		good[:3] + strings.Repeat("0", 32) + good[35:]:  false,
		good[:36] + strings.Repeat("0", 16) + good[52:]: false,
		good[:3] + "g" + good[4:]:                       false,
	} {
		if jailer.ValidTraceParent(s) != valid {
			t.Errorf("%q: want %v", s, valid)
		}
	}
}
