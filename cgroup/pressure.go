package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Stall is for how long at least one process (Some), or all of them (Full), had
// to wait for a resource.
type Stall struct{ Some, Full time.Duration }

// Pressure is pressure stall information, Documentation/accounting/psi.rst. A
// resource that the kernel doesn't measure is nil.
type Pressure struct{ CPU, Memory, IO *Stall }

// pressure reads the totals of a v2 cgroup, which it keeps without any
// controller; nil where the kernel keeps none (CONFIG_PSI, psi=0).
func (o *Job) pressure() (*Pressure, error) {
	dir, ok := o.v2dir()
	if !ok {
		return nil, nil
	}
	var p Pressure
	for _, x := range []struct {
		name string
		into **Stall
	}{{"cpu", &p.CPU}, {"memory", &p.Memory}, {"io", &p.IO}} {
		file := filepath.Join(dir, x.name+".pressure")
		text, err := readString(file)
		if gone(err) || errors.Is(err, unix.EOPNOTSUPP) {
			continue
		}
		if err != nil {
			return nil, fail("read", file, "", err)
		}
		s, err := parseStall(text)
		if err != nil {
			return nil, fail("read", file, "", err)
		}
		*x.into = s
	}
	if p == (Pressure{}) {
		return nil, nil
	}
	return &p, nil
}

// parseStall reads lines as "some avg10=0.00 avg60=0.00 avg300=0.00 total=0",
// the total in microseconds. Before 5.13 cpu.pressure has no line full.
func parseStall(text string) (*Stall, error) {
	s := new(Stall)
	seen := false
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			return nil, fmt.Errorf("bad line %q", line)
		}
		total, ok := strings.CutPrefix(f[len(f)-1], "total=")
		n, err := strconv.ParseInt(total, 10, 64)
		if !ok || err != nil || n < 0 {
			return nil, fmt.Errorf("bad line %q", line)
		}
		switch f[0] {
		case "some":
			s.Some, seen = micros(n), true
		case "full":
			s.Full = micros(n)
		}
	}
	if !seen {
		return nil, fmt.Errorf("no line some in %q", text)
	}
	return s, nil
}
