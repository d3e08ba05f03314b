package limits

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// MaxCPUs is the largest number of CPUs, in thousandths: 4096 CPUs.
const MaxCPUs CPUs = 4096 * 1000

// ParseCPUs reads a number of CPUs: "1", "0.2", "2.5", at most three decimals
// (no rounding is done), above 0 and at most 4096.
func ParseCPUs(s string) (CPUs, error) {
	n, err := parseMilli(s)
	if err == nil && n > int64(MaxCPUs) {
		err = errors.New("more than 4096")
	}
	if err == nil && n == 0 {
		err = errors.New("must be positive")
	}
	if err != nil {
		return 0, fmt.Errorf("cpus %q: %w (as in 1 or 0.5)", clip(s), err)
	}
	return CPUs(n), nil
}

func parseMilli(s string) (int64, error) {
	whole, frac, dot := strings.Cut(s, ".")
	if whole == "" || dot && frac == "" || strings.Trim(whole+frac, "0123456789") != "" {
		return 0, errors.New("not a number of CPUs")
	}
	if len(whole) > 1 && whole[0] == '0' {
		return 0, errors.New("leading zero")
	}
	if len(frac) > 3 {
		return 0, errors.New("more than three decimals")
	}
	if len(whole) > 9 {
		return 0, errors.New("more than 4096")
	}
	// At most twelve digits: no overflow.
	return strconv.ParseInt(whole+(frac + "000")[:3], 10, 64)
}

// String writes c so that ParseCPUs gives c again: "0.2", "2".
func (c CPUs) String() string {
	s := strconv.FormatInt(int64(c)/1000, 10)
	frac := int64(c) % 1000
	if frac < 0 {
		return strconv.FormatInt(int64(c), 10) + "m"
	}
	if frac == 0 {
		return s
	}
	return s + "." + strings.TrimRight(fmt.Sprintf("%03d", frac), "0")
}

// Ceil is the number of whole CPUs that c needs, at least 1: what a program is
// told that asks how many workers to start.
func (c CPUs) Ceil() int {
	return max(1, int((int64(c)+999)/1000))
}

// Time is the CPU time that c CPUs use in d, at most MaxDuration. It is never 0
// for a real c and d, however small: 0 would read as "not given".
func (c CPUs) Time(d time.Duration) time.Duration {
	if c <= 0 || d <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(c), uint64(d))
	if hi >= 1000 {
		return MaxDuration
	}
	q, _ := bits.Div64(hi, lo, 1000)
	return time.Duration(max(1, min(q, uint64(MaxDuration))))
}
