package limits

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a number of bytes: "100", "512K", "64M", "1G", "2T". The
// letters are powers of 1024, in either case, and may be followed by "iB"
// ("10MiB") or stand alone as "B" ("100B"). "KB" and "MB" are refused: half of
// the world reads them as powers of 1000. Fractions are refused too: 1.5G is
// 1536M. The size is positive and fits an int64.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "KMGTkmgtiB")
	n, err := parseDigits(digits)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w (as in 64M or 1G)", clip(s), err)
	}
	shift, ok := sizeShift(s[len(digits):])
	if !ok {
		return 0, fmt.Errorf("size %q: unknown unit %q (K, M, G, T are powers of 1024)", clip(s), clip(s[len(digits):]))
	}
	if n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("size %q: too large", clip(s))
	}
	return n << shift, nil
}

func sizeShift(unit string) (uint, bool) {
	switch unit {
	case "", "B":
		return 0, true
	case "K", "k", "KiB":
		return 10, true
	case "M", "m", "MiB":
		return 20, true
	case "G", "g", "GiB":
		return 30, true
	case "T", "t", "TiB":
		return 40, true
	}
	return 0, false
}

// FormatSize writes n in the largest unit that divides it, so that ParseSize
// gives n again.
func FormatSize(n int64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{40, "T"}, {30, "G"}, {20, "M"}, {10, "K"}} {
		if n > 0 && n&(1<<u.shift-1) == 0 {
			return strconv.FormatInt(n>>u.shift, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
