package cgroup

import (
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// load1 gives the library's view of a job on cgroup v1. The library joins
// ROOT/controller/PATH; mounts need not be called like their controller, so the
// path is taken relative to the name it assumes.
func (o *Job) load1() (cgroup1.Cgroup, error) {
	const root = "/"
	path := func(n cgroup1.Name) (string, error) {
		dir, ok := o.dir(string(n))
		if !ok {
			return "", cgroup1.ErrControllerNotActive
		}
		return filepath.Rel(root+string(n), dir)
	}
	return cgroup1.Load(path, cgroup1.WithHierarchy(func() ([]cgroup1.Subsystem, error) {
		return []cgroup1.Subsystem{cgroup1.NewMemory(root), cgroup1.NewPids(root), cgroup1.NewCpu(root)}, nil
	}))
}

// setV1 sets the limits of a job on cgroup v1. There is no oom.group: the
// caller kills the job at the first event of Watch.
func (o *Job) setV1(l Limits) error {
	if err := o.lacking(l); err != nil {
		return err
	}
	var r specs.LinuxResources
	var files limitFiles
	if dir, _ := o.dir("memory"); l.Memory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &l.Memory}
		files.add(filepath.Join(dir, "memory.limit_in_bytes"), strconv.FormatInt(l.Memory, 10))
		if l.Swap == 0 {
			// memsw bounds memory and swap together, so a job could still trade
			// one for the other; swappiness 0 keeps a v1 cgroup from swapping when
			// it meets its limit, even where memsw is missing.
			zero := uint64(0)
			r.Memory.Swappiness = &zero
			files.add(filepath.Join(dir, "memory.swappiness"), "0")
		}
		both := l.Memory + l.Swap
		if memsw := filepath.Join(dir, "memory.memsw.limit_in_bytes"); exists(memsw) && both > 0 {
			r.Memory.Swap = &both
			files.add(memsw, strconv.FormatInt(both, 10))
		} else if l.Swap > 0 {
			return o.noSwapFile(memsw, l)
		}
		// v1 doesn't charge TCP and UDP buffers to memory, and bounds them only
		// where this limit is set; a loopback is enough to fill them. Kernels
		// without networking lack the file.
		if tcp := filepath.Join(dir, "memory.kmem.tcp.limit_in_bytes"); exists(tcp) {
			sockets := max(l.Memory/4, int64(os.Getpagesize()))
			r.Memory.KernelTCP = &sockets
			files.add(tcp, strconv.FormatInt(sockets, 10))
		}
	}
	if dir, _ := o.dir("pids"); l.Pids > 0 {
		r.Pids = &specs.LinuxPids{Limit: &l.Pids}
		files.add(filepath.Join(dir, "pids.max"), strconv.FormatInt(l.Pids, 10))
	}
	if dir, _ := o.dir("cpu"); l.CPUMilli > 0 {
		q, period := cpuQuota(l.CPUMilli)
		r.CPU = &specs.LinuxCPU{Quota: &q, Period: &period}
		files.add(filepath.Join(dir, "cpu.cfs_period_us"), strconv.FormatUint(period, 10))
		files.add(filepath.Join(dir, "cpu.cfs_quota_us"), strconv.FormatInt(q, 10))
	}
	c, err := o.load1()
	if err != nil {
		return fail("load", o.places[0].dir, "", err)
	}
	if err := c.Update(&r); err != nil {
		return files.written(err)
	}
	return files.readBack()
}
