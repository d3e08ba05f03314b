package limits

import (
	"errors"
	"fmt"
	"strconv"
)

// MaxCount is the largest count: the kernel keeps pids.max and the inodes of a
// tmpfs in wider types, but no host has more of either.
const MaxCount = 1<<31 - 1

// ParseCount reads a positive whole number.
func ParseCount(s string) (int64, error) {
	n, err := parseDigits(s)
	if err == nil && n > MaxCount {
		err = errors.New("too large")
	}
	if err != nil {
		return 0, fmt.Errorf("number %q: %w", clip(s), err)
	}
	return n, nil
}

// parseDigits takes decimal digits and nothing else: strconv alone would take a
// sign, and other readers take underscores, 0x and a leading 0 as octal. Two
// readers that disagree about "010" are a way around a limit.
func parseDigits(s string) (int64, error) {
	if s == "" {
		return 0, errors.New("no number")
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, errors.New("not a whole positive number")
		}
	}
	if s[0] == '0' {
		if len(s) == 1 {
			return 0, errors.New("must be positive")
		}
		return 0, errors.New("leading zero")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, errors.New("too large")
	}
	return n, nil
}

// clip keeps a quoted value in a message short, whatever was given.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
