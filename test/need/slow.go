package need

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// scale is how many times slower than an ordinary machine this one is: 1 or
// more. An emulated machine is an order of magnitude slower.
var scale = func() int {
	n, err := parseScale(os.Getenv("JAILER_TIME_SCALE"))
	if err != nil {
		panic(err) // at the start of a test process: nothing ran yet
	}
	return n
}()

func parseScale(s string) (int, error) {
	if s == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 1000 {
		return 0, fmt.Errorf("JAILER_TIME_SCALE=%q is no number from 1 to 1000", s)
	}
	return n, nil
}

// Slow says whether the test bed is slower than an ordinary machine.
func Slow() bool { return scale > 1 }

// Time is d on an ordinary machine, for what a test waits at most. The limits
// under test, and what something must take at least, are no such times.
func Time(d time.Duration) time.Duration { return d * time.Duration(scale) }

// Pace is d on an ordinary machine, for a limit under test within which the test's own
// steps have to come: on a slow one these take longer.
func Pace(d time.Duration) time.Duration { return d * time.Duration((scale+2)/3) }

// Times is how often a test repeats what would prove the same if it were done
// less often: n on an ordinary machine, and less, but at least once, on a slow one.
func Times(n int) int { return max(n/scale, 1) }

// RaceTime is how long a race is run for: RACETIME says, else two seconds.
func RaceTime() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("RACETIME")); err == nil {
		return d
	}
	return 2 * time.Second
}
