package cgroup

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/cgroups/v3/cgroup2"
)

// setV2 sets the limits of a job on cgroup v2. memory.oom.group makes the
// kernel end the job as one: without it a child dies and the main process goes
// on, to report success.
func (o *Job) setV2(l Limits) error {
	if err := o.lacking(l); err != nil {
		return err
	}
	p := o.places[0]
	var r cgroup2.Resources
	var files limitFiles
	add := func(name, value string) { files.add(filepath.Join(p.dir, name), value) }
	if l.Memory > 0 {
		group := true
		r.Memory = &cgroup2.Memory{Max: &l.Memory, OOMGroup: &group}
		if swap := filepath.Join(p.dir, "memory.swap.max"); exists(swap) {
			r.Memory.Swap = &l.Swap
			add("memory.swap.max", strconv.FormatInt(l.Swap, 10))
		} else if err := o.noSwapFile(swap, l); err != nil {
			return err
		}
		add("memory.max", strconv.FormatInt(l.Memory, 10))
		add("memory.oom.group", "1")
	}
	if l.Pids > 0 {
		r.Pids = &cgroup2.Pids{Max: l.Pids}
		add("pids.max", strconv.FormatInt(l.Pids, 10))
	}
	if l.CPUMilli > 0 {
		q, period := cpuQuota(l.CPUMilli)
		r.CPU = cpuOf(r.CPU)
		r.CPU.Max = cgroup2.NewCPUMax(&q, &period)
		add("cpu.max", string(r.CPU.Max))
	}
	if l.CPUSet != "" {
		r.CPU = cpuOf(r.CPU)
		r.CPU.Cpus = l.CPUSet
		add("cpuset.cpus", l.CPUSet)
		// Of CPUs that this cgroup has not, the kernel takes the others, or, where
		// none is left, all that the parent has (cgroup-v2.rst, "cpuset.cpus").
		add("cpuset.cpus.effective", l.CPUSet)
	}
	group := "/" + strings.TrimPrefix(strings.TrimPrefix(p.dir, p.mount.Point), "/")
	m, err := cgroup2.Load(group, cgroup2.WithMountpoint(p.mount.Point))
	if err != nil {
		return fail("load", p.dir, "", err)
	}
	if err := m.Update(&r); err != nil {
		return files.written(err)
	}
	if err := files.readBack(); err != nil {
		return err
	}
	return o.setIO(l)
}

func cpuOf(c *cgroup2.CPU) *cgroup2.CPU {
	if c == nil {
		return new(cgroup2.CPU)
	}
	return c
}
