package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// setIO bounds the bytes per second from and to every block device of the host
// that has a size, each by itself, and reads that back. What the page cache holds
// is not read from a device and not bounded; what is written is charged when it
// is written back (cgroup-v2.rst, "IO"). A device that appears later is not
// bounded.
func (o *Job) setIO(l Limits) error {
	if l.IORead == 0 && l.IOWrite == 0 {
		return nil
	}
	p := o.places[0]
	file := filepath.Join(p.dir, "io.max")
	devices, err := o.jail.base.o.devices()
	if err != nil {
		return &Unavailable{
			Controller: "io", File: o.jail.base.o.blocks, ID: "cgroup.io.device", Err: err,
			Reason: "the block devices can't be listed", Hint: hintIO,
		}
	}
	rate := func(n int64) string {
		if n == 0 {
			return "max"
		}
		return strconv.FormatInt(n, 10)
	}
	read, write := "rbps="+rate(l.IORead), "wbps="+rate(l.IOWrite)
	for _, dev := range devices {
		if err := writeFile(file, dev+" "+read+" "+write); err != nil {
			return &Unavailable{
				Controller: "io", File: file, ID: "cgroup.io.device", Err: err,
				Reason: "the kernel takes no limit for device " + dev, Hint: hintIO,
			}
		}
	}
	got, err := readString(file)
	if err != nil {
		return fail("read back", file, "", err)
	}
	for _, dev := range devices {
		if !slices.ContainsFunc(strings.Split(got, "\n"), func(line string) bool {
			f := strings.Fields(line)
			return len(f) > 0 && f[0] == dev && slices.Contains(f, read) && slices.Contains(f, write)
		}) {
			return fail("read back", file, dev+" "+read+" "+write, fmt.Errorf("the kernel says %q", got))
		}
	}
	return nil
}

const hintIO = "leave the IO limits out of the policy, where this kernel has none (CONFIG_BLK_DEV_THROTTLING)"

// devices lists the block devices as major:minor: whole ones, as io.max wants
// them. Those without a size (unused loop devices) can't be read or written.
func (o Options) devices() ([]string, error) {
	es, err := os.ReadDir(o.blocks)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range es {
		size, err := readString(filepath.Join(o.blocks, e.Name(), "size"))
		if gone(err) {
			continue // unplugged
		}
		if err != nil {
			return nil, err
		}
		if size == "0" {
			continue
		}
		dev, err := readString(filepath.Join(o.blocks, e.Name(), "dev"))
		if err != nil && !gone(err) {
			return nil, err
		}
		if err == nil {
			out = append(out, dev)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("none is there")
	}
	return out, nil
}
