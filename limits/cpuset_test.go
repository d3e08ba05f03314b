package limits

import (
	"strings"
	"testing"
)

func TestParseCPUSet(t *testing.T) {
	for _, c := range []struct {
		in, want, msg string
	}{
		{in: "0", want: "0"},
		{in: "0-1", want: "0-1"},
		{in: "0,1,2,5", want: "0-2,5"},
		{in: "5,0-2", want: "0-2,5"},
		{in: "8191", want: "8191"},
		{in: "3-3", want: "3"},
		{in: "8192", msg: "above 8191"},
		{in: "0-99999999999999999999", msg: "above 8191"},
		{in: "", msg: "not a list"},
		{in: "0,", msg: "not a list"},
		{in: "-1", msg: "not a list"},
		{in: "1-", msg: "not a list"},
		{in: "0-1-2", msg: "not a list"},
		{in: "00", msg: "not a list"},
		{in: "0 1", msg: "not a list"},
		{in: "0-3:1/2", msg: "not a list"},
		{in: "all", msg: "not a list"},
		{in: "2-1", msg: "backwards"},
		{in: "1,1", msg: "twice"},
		{in: "0-3,2", msg: "twice"},
		{in: strings.Repeat("0-8191,", 500) + "0", msg: "twice"},
		{in: strings.Repeat("0,", 1<<20) + "0", msg: "too long"},
	} {
		got, err := ParseCPUSet(c.in)
		if c.msg != "" {
			if err == nil || !strings.Contains(err.Error(), c.msg) || len(err.Error()) > 300 {
				t.Errorf("%.20q: %q, %v, want an error with %q", c.in, got, err, c.msg)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.in, got, err, c.want)
		}
	}
}

func TestCPUSetWithin(t *testing.T) {
	for _, c := range []struct {
		a, b CPUSet
		want bool
	}{
		{"0", "0-3", true},
		{"0-3", "0-3", true},
		{"1,3", "0-3", true},
		{"0-4", "0-3", false},
		{"4", "0-3", false},
		{"0", "", false},
		{"", "0-3", false},
	} {
		if got := c.a.Within(c.b); got != c.want {
			t.Errorf("%q within %q: %v", c.a, c.b, got)
		}
	}
}
