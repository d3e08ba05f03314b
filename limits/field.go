package limits

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Kind is the unit of a field, which decides its three notations.
type Kind int

// The kinds of fields.
const (
	KindDuration Kind = iota // nanoseconds here, ms in JSON, "30s" in text
	KindSize                 // bytes, "64M" in text
	KindCPUs                 // thousandths, "0.2" in text
	KindCount                // a plain number
)

// Field is one limit. All values pass through int64 in the unit that Limits
// keeps (nanoseconds, bytes, thousandths of a CPU, a count); 0 is "not given".
type Field struct {
	Name string // in policy files and messages: "memory"
	JSON string // in documents, with its unit: "memoryBytes"
	Flag string // on the command line, without dashes; "" where there is none
	Kind Kind
	ref  func(*Limits) *int64
}

// Fields lists every field of Limits, in the order in which they are shown.
func Fields() []Field { return fields[:] }

var fields = [...]Field{
	{"timeout", "timeoutMs", "timeout", KindDuration, func(l *Limits) *int64 { return (*int64)(&l.Timeout) }},
	{"cpu_time", "cpuTimeMs", "cpu-time", KindDuration, func(l *Limits) *int64 { return (*int64)(&l.CPUTime) }},
	{"ttl", "ttlMs", "ttl", KindDuration, func(l *Limits) *int64 { return (*int64)(&l.TTL) }},
	{"idle", "idleMs", "idle", KindDuration, func(l *Limits) *int64 { return (*int64)(&l.Idle) }},
	{"memory", "memoryBytes", "memory", KindSize, func(l *Limits) *int64 { return &l.Memory }},
	{"cpus", "cpuMilli", "cpus", KindCPUs, func(l *Limits) *int64 { return (*int64)(&l.CPUs) }},
	{"pids", "pids", "pids", KindCount, func(l *Limits) *int64 { return &l.PIDs }},
	{"workspace", "workspaceBytes", "", KindSize, func(l *Limits) *int64 { return &l.Workspace }},
	{"workspace_inodes", "workspaceInodes", "", KindCount, func(l *Limits) *int64 { return &l.WorkspaceInodes }},
	{"tmp_size", "tmpBytes", "tmp-size", KindSize, func(l *Limits) *int64 { return &l.TmpSize }},
	{"tmp_inodes", "tmpInodes", "", KindCount, func(l *Limits) *int64 { return &l.TmpInodes }},
	{"output", "outputBytes", "max-output", KindSize, func(l *Limits) *int64 { return &l.MaxOutput }},
	{"file", "fileBytes", "max-file", KindSize, func(l *Limits) *int64 { return &l.MaxFile }},
	{"swap", "swapBytes", "swap", KindSize, func(l *Limits) *int64 { return &l.Swap }},
	{"io_read", "ioReadBytesPerSecond", "io-read", KindSize, func(l *Limits) *int64 { return &l.IORead }},
	{"io_write", "ioWriteBytesPerSecond", "io-write", KindSize, func(l *Limits) *int64 { return &l.IOWrite }},
}

// ByName finds a field by its name in policy files.
func ByName(name string) (Field, bool) {
	for _, f := range fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// Optional says that 0, "not given", is a value of its own: what an IO limit
// doesn't bound, and no swap.
func (f Field) Optional() bool { return f.Name == "swap" || f.unbounded() }

// unbounded fields bound nothing where they are not given.
func (f Field) unbounded() bool { return f.Name == "io_read" || f.Name == "io_write" }

// Narrow gives the value of a run for which asked was asked (0: nothing), def is
// the profile's default and top its ceiling; ok is false if asked is over the
// ceiling. Where 0 is no limit, a ceiling of 0 is none either, and one that is
// given holds a run that asks for nothing too.
func (f Field) Narrow(asked, def, top int64) (v int64, ok bool) {
	if f.unbounded() && top == 0 {
		top = math.MaxInt64
	}
	switch {
	case asked > top:
		return 0, false
	case asked != 0:
		return asked, true
	case f.unbounded() && def == 0 && top != math.MaxInt64:
		return top, true
	}
	return min(def, top), true
}

// Get reads the field from l.
func (f Field) Get(l Limits) int64 { return *f.ref(&l) }

// Set writes the field in l.
func (f Field) Set(l *Limits, v int64) { *f.ref(l) = v }

// Parse reads the text form, as in a policy or a flag.
func (f Field) Parse(s string) (int64, error) {
	switch f.Kind {
	case KindDuration:
		d, err := ParseDuration(s)
		return int64(d), err
	case KindSize:
		return ParseSize(s)
	case KindCPUs:
		c, err := ParseCPUs(s)
		return int64(c), err
	default:
		return ParseCount(s)
	}
}

// Format writes v in the text form, so that Parse gives v again.
func (f Field) Format(v int64) string {
	switch f.Kind {
	case KindDuration:
		return time.Duration(v).String()
	case KindSize:
		return FormatSize(v)
	case KindCPUs:
		return CPUs(v).String()
	default:
		return strconv.FormatInt(v, 10)
	}
}

// FromJSON turns the number of a document into the field's unit. It refuses
// what is not positive and what does not fit; milliseconds become nanoseconds.
func (f Field) FromJSON(v int64) (int64, error) {
	if v <= 0 {
		return 0, fmt.Errorf("%d given, must be positive", v)
	}
	switch f.Kind {
	case KindDuration:
		if v > int64(MaxDuration/time.Millisecond) {
			return 0, fmt.Errorf("%d ms given, at most %d are possible", v, int64(MaxDuration/time.Millisecond))
		}
		return v * int64(time.Millisecond), nil
	case KindCPUs:
		if v > int64(MaxCPUs) {
			return 0, fmt.Errorf("%d given, at most %d are possible", v, int64(MaxCPUs))
		}
	case KindCount:
		if v > MaxCount {
			return 0, fmt.Errorf("%d given, at most %d are possible", v, int64(MaxCount))
		}
	}
	return v, nil
}

// ToJSON is the reverse of FromJSON. A part of a millisecond counts as a whole
// one, so that a short limit never reads as 0, which is "not given".
func (f Field) ToJSON(v int64) int64 {
	if f.Kind != KindDuration || v <= 0 {
		return v
	}
	ms := v / int64(time.Millisecond)
	if v%int64(time.Millisecond) != 0 && ms < math.MaxInt64 {
		ms++
	}
	return ms
}

// Check tells whether every given field of l is one that Parse or FromJSON
// could have made; it is for values that came neither way, from a Go caller.
func (l Limits) Check() error {
	for _, f := range fields {
		v := f.Get(l)
		top := int64(math.MaxInt64)
		switch f.Kind {
		case KindDuration:
			top = int64(MaxDuration)
		case KindCPUs:
			top = int64(MaxCPUs)
		case KindCount:
			top = MaxCount
		}
		if v < 0 || v > top {
			return fmt.Errorf("%s: %d is out of range", f.Name, v)
		}
	}
	return nil
}
