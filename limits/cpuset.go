package limits

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CPUSet is a list of CPUs by number, as cpuset(7) writes it: "0-1,3". Made by
// ParseCPUSet, so it is sorted and in its shortest form, which is the form in
// which the kernel shows it; "" is "not given".
type CPUSet string

// maxCPU is the highest number of a CPU that is read: the kernel's own ceiling
// is 8192 of them (CONFIG_NR_CPUS).
const maxCPU = 8191

// ParseCPUSet reads a list of CPUs: numbers and ranges, comma-separated, each
// CPU once.
func ParseCPUSet(s string) (CPUSet, error) {
	cpus, err := cpuList(s)
	if err != nil {
		return "", fmt.Errorf("cpuset %q: %w (as in 0-1,3)", clip(s), err)
	}
	return formatCPUs(cpus), nil
}

// Within says whether every CPU of c is one of o's.
func (c CPUSet) Within(o CPUSet) bool {
	all, mine := o.CPUs(), c.CPUs()
	return len(all) > 0 && len(mine) > 0 && !slices.ContainsFunc(mine, func(n int) bool {
		_, found := slices.BinarySearch(all, n)
		return !found
	})
}

// CPUs gives the numbers in order; none for "".
func (c CPUSet) CPUs() []int {
	all, _ := cpuList(string(c))
	return all
}

// cpuList gives the numbers in order.
func cpuList(s string) ([]int, error) {
	if len(s) > 4096 {
		return nil, errors.New("too long")
	}
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := cpuNumber(low)
		if err != nil {
			return nil, err
		}
		last := first
		if isRange {
			if last, err = cpuNumber(high); err != nil {
				return nil, err
			}
		}
		if last < first {
			return nil, errors.New("a range that runs backwards")
		}
		for n := first; n <= last; n++ {
			out = append(out, n)
		}
		if len(out) > maxCPU+1 {
			return nil, errors.New("a CPU is given twice")
		}
	}
	slices.Sort(out)
	if len(slices.Compact(slices.Clone(out))) != len(out) {
		return nil, errors.New("a CPU is given twice")
	}
	return out, nil
}

func cpuNumber(s string) (int, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" || len(s) > 1 && s[0] == '0' {
		return 0, errors.New("not a list of CPUs")
	}
	n, err := strconv.Atoi(s)
	if err != nil || n > maxCPU {
		return 0, fmt.Errorf("a CPU above %d", maxCPU)
	}
	return n, nil
}

func formatCPUs(cpus []int) CPUSet {
	var parts []string
	for i := 0; i < len(cpus); {
		k := i
		for k+1 < len(cpus) && cpus[k+1] == cpus[k]+1 {
			k++
		}
		part := strconv.Itoa(cpus[i])
		if k > i {
			part += "-" + strconv.Itoa(cpus[k])
		}
		parts = append(parts, part)
		i = k + 1
	}
	return CPUSet(strings.Join(parts, ","))
}
