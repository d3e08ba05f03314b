package boottime

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// ended waits for the timer and gives the time that it took since begin.
func ended(t *testing.T, tm *Timer, begin time.Duration) time.Duration {
	t.Helper()
	select {
	case <-tm.C:
	case <-time.After(need.Time(20 * time.Second)):
		t.Fatal("never ended")
	}
	return Now() - begin
}

// silent: nothing comes for d.
func silent(t *testing.T, tm *Timer, d time.Duration) {
	t.Helper()
	select {
	case <-tm.C:
		t.Fatal("ended")
	case <-time.After(d):
	}
}

func TestNow(t *testing.T) {
	var mono unix.Timespec
	a := Now()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond)
	if d := Now() - a; d < 5*time.Millisecond || a <= 0 {
		t.Errorf("%v passed since %v", d, a)
	}
}

func TestTimerEnds(t *testing.T) {
	for _, d := range []time.Duration{-time.Hour, 0, 1, 30 * time.Millisecond} {
		begin := Now()
		tm := NewTimer(d)
		if took := ended(t, tm, begin); took < d {
			t.Errorf("%v ended after %v", d, took)
		}
		silent(t, tm, 10*time.Millisecond) // once
		if tm.Stop() {
			t.Errorf("%v: there was something left to stop", d)
		}
	}
}

func TestTimerReset(t *testing.T) {
	begin := Now()
	tm := NewTimer(time.Hour)
	if !tm.Reset(20 * time.Millisecond) {
		t.Error("nothing to come")
	}
	if took := ended(t, tm, begin); took < 20*time.Millisecond {
		t.Errorf("ended after %v", took)
	}
	if tm.Reset(0) {
		t.Error("ended, and something to come")
	}
	time.Sleep(20 * time.Millisecond) // now its end waits to be received
	if !tm.Reset(time.Hour) {
		t.Error("its end was not seen")
	}
	silent(t, tm, 30*time.Millisecond)
	if !tm.Stop() {
		t.Error("nothing to stop")
	}
}

func TestTimerStop(t *testing.T) {
	tm := NewTimer(20 * time.Millisecond)
	if !tm.Stop() || tm.Stop() {
		t.Error("stopped never or twice")
	}
	silent(t, tm, 60*time.Millisecond)
	tm.Reset(0)
	time.Sleep(20 * time.Millisecond)
	if !tm.Stop() {
		t.Error("an end that was not received")
	}
	silent(t, tm, 10*time.Millisecond)
}

// The longest duration is no overflow that ends at once.
func TestTimerForever(t *testing.T) {
	tm := NewTimer(math.MaxInt64)
	silent(t, tm, 30*time.Millisecond)
	if !tm.Stop() {
		t.Error("not running")
	}
}

// timers lists the clocks of this process' timerfds (proc(5), fdinfo).
func timers(t *testing.T) (clocks []string) {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fdinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		b, _ := os.ReadFile("/proc/self/fdinfo/" + e.Name())
		for line := range strings.Lines(string(b)) {
			if id, ok := strings.CutPrefix(line, "clockid: "); ok {
				clocks = append(clocks, strings.TrimSpace(id))
			}
		}
	}
	return clocks
}

// It is the clock that counts a suspend, with one descriptor each and none when
// it is over.
func TestTimerDescriptor(t *testing.T) {
	a, b := NewTimer(time.Hour), NewTimer(time.Hour)
	for range 10 {
		a.Reset(time.Hour)
	}
	want := fmt.Sprint(unix.CLOCK_BOOTTIME)
	if got := timers(t); len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("clocks %v, want two of %s", got, want)
	}
	a.Stop()
	b.Reset(0)
	ended(t, b, 0)
	if got := timers(t); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestManyTimers(t *testing.T) {
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			d := time.Duration(i%50) * time.Millisecond
			begin := Now()
			tm := NewTimer(time.Hour)
			if i%2 == 0 {
				tm.Stop()
			}
			tm.Reset(d)
			if took := ended(t, tm, begin); took < d {
				t.Errorf("%v ended after %v", d, took)
			}
		})
	}
	all.Wait()
	end := time.Now().Add(need.Time(10 * time.Second))
	for runtime.NumGoroutine() > before && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before || len(timers(t)) > 0 {
		t.Errorf("%d goroutines became %d, timers %v", before, n, timers(t))
	}
}

// Whoever resets and stops while the timer ends: after the last Stop nothing
// comes, and after the last Reset exactly one.
func TestTimerRace(t *testing.T) {
	tm := NewTimer(0)
	for range need.Times(20) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range 50 {
					switch i % 3 {
					case 0:
						tm.Reset(time.Duration(i) * time.Microsecond)
					case 1:
						tm.Stop()
					default:
						select {
						case <-tm.C:
						default:
						}
					}
				}
			})
		}
		all.Wait()
		tm.Stop()
		silent(t, tm, time.Millisecond)
		tm.Reset(time.Microsecond)
		ended(t, tm, 0)
		silent(t, tm, time.Millisecond)
	}
}

// A process that may open no more descriptors keeps its deadlines.
func TestTimerWithoutDescriptor(t *testing.T) {
	old := create
	create = func(time.Duration) (*os.File, error) { return nil, unix.EMFILE }
	defer func() { create = old }()
	begin := Now()
	tm := NewTimer(30 * time.Millisecond)
	if took := ended(t, tm, begin); took < 30*time.Millisecond {
		t.Errorf("ended after %v", took)
	}
	tm.Reset(20 * time.Millisecond)
	tm.Stop()
	silent(t, tm, 50*time.Millisecond)
}

// In a time namespace whose boottime is far ahead, and whose monotonic clock is
// not, both the clock and the timers are that boottime's.
func TestTimeNamespace(t *testing.T) {
	const ahead = 1_000_000 * time.Second
	if begin := os.Getenv("BOOTTIME_TEST_BEGIN"); begin != "" {
		outside, err := time.ParseDuration(begin)
		if err != nil {
			t.Fatal(err)
		}
		now := Now()
		if d := now - outside; d < ahead || d > ahead+time.Hour {
			t.Fatalf("%v ahead of the outside, want %v", d, ahead)
		}
		tm := NewTimer(50 * time.Millisecond)
		if took := ended(t, tm, now); took < 50*time.Millisecond || took > need.Time(10*time.Second) {
			t.Fatalf("50ms took %v", took)
		}
		return
	}
	need.Root(t)
	unshare := need.Program(t, "unshare")
	_, err := os.Stat("/proc/self/ns/time")
	need.Feature(t, "timens", err == nil, "this kernel has no time namespaces")
	cmd := exec.Command(unshare, "--time", "--fork", "--boottime", fmt.Sprint(int64(ahead/time.Second)), os.Args[0], "-test.run=^TestTimeNamespace$")
	cmd.Env = append(os.Environ(), "BOOTTIME_TEST_BEGIN="+Now().String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
