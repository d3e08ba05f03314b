package jail

import (
	"slices"
	"strings"
	"time"

	"github.com/jailer-project/jailer/test/need"
)

// Timeout is the value of --timeout for a job that takes d at most on an
// ordinary machine and is not about its end. The built-in policy's ceiling stays.
func Timeout(d time.Duration) string {
	return min(need.Time(d), 5*time.Minute).String()
}

// Patient gives `jailer run` the time that a slow test bed needs, unless the
// test says how much it is to have. A request may say it, and must not twice.
func Patient(args []string) []string {
	if !need.Slow() {
		return slices.Clone(args)
	}
	return withTimeout(args)
}

func withTimeout(args []string) []string {
	args = slices.Clone(args)
	if args[0] != "run" {
		return args
	}
	for _, a := range args {
		if a == "--" {
			break
		}
		if a == "--request" || strings.HasPrefix(a, "--timeout") || strings.HasPrefix(a, "--request=") {
			return args
		}
	}
	return slices.Insert(args, 1, "--timeout", Timeout(30*time.Second)) // the built-in default
}
