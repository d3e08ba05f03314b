package limits

import (
	"fmt"
	"strings"
	"time"
)

// MaxDuration bounds every duration: ten years, so that sums and products with
// a number of CPUs stay far from an overflow, and a deadline far from the end
// of time_t arithmetic.
const MaxDuration = 10 * 365 * 24 * time.Hour

// ParseDuration reads a positive duration in Go's syntax: "30s", "1m30s",
// "500ms", at most MaxDuration. A plain number is refused, since a reader can't
// tell seconds from milliseconds.
func ParseDuration(s string) (time.Duration, error) {
	if s != "" && strings.Trim(s, "0123456789.") == "" {
		return 0, fmt.Errorf("duration %q: no unit (write 30s, 500ms, 1m30s)", clip(s))
	}
	if strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("duration %q: not a duration (write 30s, 500ms, 1m30s)", clip(s))
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("duration %q: not a duration (write 30s, 500ms, 1m30s)", clip(s))
	}
	if d <= 0 {
		return 0, fmt.Errorf("duration %q: must be positive", clip(s))
	}
	if d > MaxDuration {
		return 0, fmt.Errorf("duration %q: more than ten years", clip(s))
	}
	return d, nil
}
