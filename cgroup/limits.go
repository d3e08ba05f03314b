package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cpuQuota turns thousandths of a CPU into quota and period in µs. The period
// is the kernel's default, 100 ms: a shorter one stalls a job for less at a
// time, but the kernel hands out quota in slices of 5 ms, and a quota near that
// is kept badly. The quota must be 1 ms at least, so below 1 % of a CPU the
// period is 1 s, the longest there is.
func cpuQuota(milli int64) (quota int64, period uint64) {
	if milli < 10 {
		return milli * 1000, 1_000_000
	}
	return milli * 100, 100_000
}

// limitFiles is what a job's limit files must say when they are read back.
type limitFiles struct {
	order []string
	want  map[string]string
}

func (f *limitFiles) add(file, value string) {
	if f.want == nil {
		f.want = map[string]string{}
	}
	f.order = append(f.order, file)
	f.want[file] = value
}

// written dresses up an error of the library, which knows the file and the
// errno, but not the value.
func (f *limitFiles) written(err error) error {
	if err == nil {
		return nil
	}
	file := "limits"
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		file = p.Path
	}
	return fail("write", file, f.want[file], err)
}

// readBack compares each file with what was asked for. The kernel rounds bytes
// down to pages; any other difference means that the limit is not ours.
func (f *limitFiles) readBack() error {
	for _, file := range f.order {
		got, err := readString(file)
		if err != nil {
			return fail("read back", file, "", err)
		}
		if want := f.want[file]; !sameLimit(filepath.Base(file), want, got) {
			return fail("read back", file, want, fmt.Errorf("the kernel says %q", got))
		}
	}
	return nil
}

func sameLimit(name, want, got string) bool {
	if want == got {
		return true
	}
	switch name {
	case "memory.max", "memory.swap.max", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
		"memory.kmem.tcp.limit_in_bytes":
	default:
		return false
	}
	w, err := strconv.ParseInt(want, 10, 64)
	if err != nil {
		return false
	}
	g, err := strconv.ParseInt(got, 10, 64)
	return err == nil && g > 0 && g <= w && w-g < int64(os.Getpagesize())
}

// lacking says that a limit is asked for whose controller this jail has not.
func (o *Job) lacking(l Limits) error {
	for _, c := range []struct {
		ctl   string
		asked bool
	}{{"memory", l.Memory > 0}, {"pids", l.Pids > 0}, {"cpu", l.CPUMilli > 0}, {"cpuset", l.CPUSet != ""}, {"io", l.IORead > 0 || l.IOWrite > 0}} {
		if _, ok := o.dir(c.ctl); c.asked && !ok {
			return &Unavailable{
				Controller: c.ctl, File: o.places[0].dir, ID: "cgroup.controller." + c.ctl,
				Reason: "a limit is asked for, but the controller is not in use here", Hint: o.jail.base.o.hintDelegate(),
			}
		}
	}
	return nil
}

// SwapOn tells whether this host has swap, which a job may fill that no cgroup
// keeps from it. If that can't be read, it has.
func SwapOn() bool { return Options{}.withDefaults().swapOn() }

// swapOn tells whether this host has swap. If that can't be read, it has.
func (o Options) swapOn() bool {
	data, err := os.ReadFile(o.swaps)
	return err != nil || len(slices.Collect(strings.Lines(strings.TrimSpace(string(data))))) > 1
}

// noSwapFile decides what the lack of swap accounting means. Without swap there
// is nothing to account. With it, pages beyond the memory limit would go there
// unbounded.
func (o *Job) noSwapFile(file string, l Limits) error {
	if l.Swap == 0 && !o.jail.base.o.swapOn() {
		return nil
	}
	return &Unavailable{
		Controller: "memory", File: file, ID: "cgroup.swap",
		Reason: "the kernel doesn't account swap, so the memory limit would not bind", Hint: hintSwap,
	}
}
