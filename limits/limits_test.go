package limits

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64 // 0: refused
		msg  string
	}{
		{in: "100", want: 100},
		{in: "100B", want: 100},
		{in: "512K", want: 512 << 10},
		{in: "64M", want: 64 << 20},
		{in: "64m", want: 64 << 20},
		{in: "10MiB", want: 10 << 20},
		{in: "1G", want: 1 << 30},
		{in: "2T", want: 2 << 40},
		{in: "9223372036854775807", want: math.MaxInt64},
		{in: "8388607T", want: 8388607 << 40},
		{in: "8388608T", msg: "too large"},
		{in: "9223372036854775808", msg: "too large"},
		{in: "99999999999999999999999999G", msg: "too large"},
		{in: "", msg: "no number"},
		{in: "M", msg: "no number"},
		{in: "0", msg: "positive"},
		{in: "0M", msg: "positive"},
		{in: "010", msg: "leading zero"},
		{in: "-1", msg: "not a whole"},
		{in: "+1", msg: "not a whole"},
		{in: "1_000", msg: "not a whole"},
		{in: "0x10", msg: "not a whole"},
		{in: "1.5G", msg: "not a whole"},
		{in: "1e9", msg: "not a whole"},
		{in: "1 G", msg: "not a whole"},
		{in: " 1G", msg: "not a whole"},
		{in: "1G ", msg: "not a whole"},
		{in: "NaN", msg: "not a whole"},
		{in: "١", msg: "not a whole"},
		{in: "10MB", msg: "unknown unit"},
		{in: "10KB", msg: "unknown unit"},
		{in: "10MM", msg: "unknown unit"},
		{in: "10mib", msg: "not a whole"},
		{in: "10MiBi", msg: "unknown unit"},
		{in: "1P", msg: "not a whole"},
	} {
		t.Run(c.in, func(t *testing.T) { check(t, c.want, c.msg)(ParseSize(c.in)) })
	}
}

func TestParseDuration(t *testing.T) {
	for _, c := range []struct {
		in   string
		want time.Duration
		msg  string
	}{
		{in: "30s", want: 30 * time.Second},
		{in: "1m30s", want: 90 * time.Second},
		{in: "500ms", want: 500 * time.Millisecond},
		{in: "1.5h", want: 90 * time.Minute},
		{in: "87600h", want: MaxDuration},
		{in: "87600h1ns", msg: "ten years"},
		{in: "9999999999999h", msg: "not a duration"},
		{in: "30", msg: "write 30s"},
		{in: "0", msg: "write 30s"},
		{in: "1.5", msg: "write 30s"},
		{in: "", msg: "not a duration"},
		{in: "0s", msg: "positive"},
		{in: "-1s", msg: "positive"},
		{in: "+1s", msg: "not a duration"},
		{in: "1 s", msg: "not a duration"},
		{in: "1d", msg: "not a duration"},
		{in: "inf", msg: "not a duration"},
	} {
		t.Run(c.in, func(t *testing.T) { check(t, c.want, c.msg)(ParseDuration(c.in)) })
	}
}

func TestParseCPUs(t *testing.T) {
	for _, c := range []struct {
		in   string
		want CPUs
		msg  string
	}{
		{in: "1", want: 1000},
		{in: "0.2", want: 200},
		{in: "2.5", want: 2500},
		{in: "0.001", want: 1},
		{in: "1.010", want: 1010},
		{in: "4096", want: MaxCPUs},
		{in: "4096.001", msg: "more than 4096"},
		{in: "99999999999999999999", msg: "more than 4096"},
		{in: "0", msg: "positive"},
		{in: "0.000", msg: "positive"},
		{in: "0.0001", msg: "three decimals"},
		{in: "1.", msg: "not a number"},
		{in: ".5", msg: "not a number"},
		{in: "1.2.3", msg: "not a number"},
		{in: "-1", msg: "not a number"},
		{in: "1e3", msg: "not a number"},
		{in: "Inf", msg: "not a number"},
		{in: "", msg: "not a number"},
		{in: "01", msg: "leading zero"},
	} {
		t.Run(c.in, func(t *testing.T) { check(t, c.want, c.msg)(ParseCPUs(c.in)) })
	}
}

// check makes the comparison of one parser's answer.
func check[T ~int64](t *testing.T, want T, msg string) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		if msg != "" {
			if err == nil || !strings.Contains(err.Error(), msg) {
				t.Fatalf("got %v, error %v, want an error with %q", got, err, msg)
			}
			return
		}
		if err != nil || got != want {
			t.Fatalf("got %v, error %v, want %v", got, err, want)
		}
	}
}

func TestMessagesStayShort(t *testing.T) {
	long := strings.Repeat("9", 1<<20)
	for name, parse := range map[string]func(string) error{
		"size":     func(s string) error { _, err := ParseSize(s); return err },
		"duration": func(s string) error { _, err := ParseDuration(s); return err },
		"cpus":     func(s string) error { _, err := ParseCPUs(s); return err },
		"count":    func(s string) error { _, err := ParseCount(s); return err },
	} {
		if err := parse(long); err == nil || len(err.Error()) > 300 {
			t.Errorf("%s: error of %d bytes", name, len(err.Error()))
		}
	}
}

// TestFieldsAreComplete: a member of Limits that is not in the table would be
// compared with no ceiling.
func TestFieldsAreComplete(t *testing.T) {
	typ := reflect.TypeFor[Limits]()
	if typ.NumField() != len(Fields()) {
		t.Fatalf("Limits has %d members, the table %d", typ.NumField(), len(Fields()))
	}
	var l Limits
	names := map[string]bool{}
	for i, f := range Fields() {
		f.Set(&l, int64(i)+1)
		for _, n := range []string{"name " + f.Name, "json " + f.JSON, "flag " + f.Flag} {
			if names[n] && n != "flag " {
				t.Errorf("%s is there twice", n)
			}
			names[n] = true
		}
		if got, ok := ByName(f.Name); !ok || got.JSON != f.JSON {
			t.Errorf("ByName(%q) finds %v", f.Name, got.JSON)
		}
	}
	v := reflect.ValueOf(l)
	for i := range typ.NumField() {
		if v.Field(i).Int() == 0 {
			t.Errorf("no field of the table sets %s", typ.Field(i).Name)
		}
	}
	for i, f := range Fields() {
		if f.Get(l) != int64(i)+1 {
			t.Errorf("%s shares its place with another field", f.Name)
		}
	}
}

func TestFieldJSON(t *testing.T) {
	timeout, _ := ByName("timeout")
	pids, _ := ByName("pids")
	memory, _ := ByName("memory")
	cpus, _ := ByName("cpus")
	for _, c := range []struct {
		name string
		f    Field
		in   int64
		want int64
		msg  string
	}{
		{"ms", timeout, 1500, int64(1500 * time.Millisecond), ""},
		{"ms too many", timeout, math.MaxInt64, 0, "at most"},
		{"ms wraps round", timeout, math.MaxInt64/1_000_000 + 2, 0, "at most"},
		{"zero", timeout, 0, 0, "positive"},
		{"negative", memory, -1, 0, "positive"},
		{"bytes", memory, math.MaxInt64, math.MaxInt64, ""},
		{"count", pids, MaxCount + 1, 0, "at most"},
		{"cpus", cpus, int64(MaxCPUs) + 1, 0, "at most"},
	} {
		t.Run(c.name, func(t *testing.T) { check(t, c.want, c.msg)(c.f.FromJSON(c.in)) })
	}
	if got := timeout.ToJSON(1); got != 1 {
		t.Errorf("1 ns is %d ms, want 1: 0 would be \"not given\"", got)
	}
}

func TestMarshal(t *testing.T) {
	b, err := json.Marshal(Limits{Timeout: 30 * time.Second, Memory: 1 << 30, CPUs: 200})
	if want := `{"timeoutMs":30000,"memoryBytes":1073741824,"cpuMilli":200}`; err != nil || string(b) != want {
		t.Fatalf("got %s, %v, want %s", b, err, want)
	}
	if b, err = json.Marshal(Limits{}); err != nil || string(b) != "{}" {
		t.Fatalf("got %s, %v", b, err)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		l    Limits
		ok   bool
	}{
		{"empty", Limits{}, true},
		{"given", Limits{Memory: 1, PIDs: MaxCount, Timeout: MaxDuration, CPUs: MaxCPUs}, true},
		{"negative", Limits{Memory: -1}, false},
		{"long", Limits{Idle: MaxDuration + 1}, false},
		{"many", Limits{PIDs: MaxCount + 1}, false},
		{"cpus", Limits{CPUs: MaxCPUs + 1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.l.Check(); (err == nil) != c.ok {
				t.Fatalf("error %v", err)
			}
		})
	}
}

func TestCPUs(t *testing.T) {
	for _, c := range []struct {
		c    CPUs
		d    time.Duration
		want time.Duration
	}{
		{1000, 30 * time.Second, 30 * time.Second},
		{200, 10 * time.Second, 2 * time.Second},
		{2500, time.Second, 2500 * time.Millisecond},
		{MaxCPUs, MaxDuration, MaxDuration},
		{1, time.Nanosecond, 1},
		{0, time.Second, 0},
	} {
		if got := c.c.Time(c.d); got != c.want {
			t.Errorf("%v CPUs in %v: %v, want %v", c.c, c.d, got, c.want)
		}
	}
	for c, want := range map[CPUs]int{1: 1, 200: 1, 1000: 1, 1001: 2, 2500: 3} {
		if got := c.Ceil(); got != want {
			t.Errorf("%v.Ceil() = %d, want %d", c, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1", "64M", "10MiB", "30s", "1m30s", "0.2", "2.5", "-1", "1e400", "9223372036854775807", "8388608T", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, x := range Fields() {
			v, err := x.Parse(s)
			if err != nil {
				if v != 0 {
					t.Fatalf("%s: %q is refused, but gives %d", x.Name, s, v)
				}
				continue
			}
			if v <= 0 {
				t.Fatalf("%s: %q gives %d", x.Name, s, v)
			}
			var l Limits
			x.Set(&l, v)
			if err := l.Check(); err != nil {
				t.Fatalf("%s: %q: %v", x.Name, s, err)
			}
			again, err := x.Parse(x.Format(v))
			if err != nil || again != v {
				t.Fatalf("%s: %q gives %d, its form %q gives %d, %v", x.Name, s, v, x.Format(v), again, err)
			}
			if ms := x.ToJSON(v); ms <= 0 {
				t.Fatalf("%s: %q is %d in a document", x.Name, s, ms)
			}
		}
	})
}
