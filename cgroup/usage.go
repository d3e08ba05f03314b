package cgroup

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"
)

// Usage is what a job used. What this kernel doesn't measure is nil, never 0.
type Usage struct {
	CPUUser, CPUSystem time.Duration
	MemoryPeak         *int64 // bytes
	PidsPeak           *int64
	OOMKills           int64 // > 0: the kernel killed for memory. No process count: a group kill counts its victim twice
	PidsMaxHits        int64 // forks refused by the pids limit
	Throttled          *time.Duration
	Pressure           *Pressure
}

// Usage reads the job's counters; they last until Remove.
func (o *Job) Usage() (Usage, error) {
	read := o.usageV1
	if o.jail.base.kind == V2 {
		read = o.usageV2
	}
	u, err := read()
	if err != nil {
		return u, err
	}
	u.Pressure, err = o.pressure()
	return u, err
}

func (o *Job) usageV2() (u Usage, err error) {
	dir := o.places[0].dir
	file := func(name string) string { return filepath.Join(dir, name) }
	// cpu.stat is there without the controller, the throttling in it isn't.
	kv, err := readKV(file("cpu.stat"))
	if err != nil {
		return u, fail("read", file("cpu.stat"), "", err)
	}
	u.CPUUser, u.CPUSystem = micros(kv["user_usec"]), micros(kv["system_usec"])
	if t, ok := kv["throttled_usec"]; ok {
		d := micros(t)
		u.Throttled = &d
	}
	if _, ok := o.dir("memory"); ok {
		if kv, err = readKV(file("memory.events")); err != nil {
			return u, fail("read", file("memory.events"), "", err)
		}
		u.OOMKills = oomKills(kv)
		if u.MemoryPeak, err = optional(file("memory.peak")); err != nil { // since 5.19
			return u, err
		}
	}
	if _, ok := o.dir("pids"); ok {
		if kv, err = readKV(file("pids.events")); err != nil {
			return u, fail("read", file("pids.events"), "", err)
		}
		u.PidsMaxHits = kv["max"]
		if u.PidsPeak, err = optional(file("pids.peak")); err != nil { // since 6.1
			return u, err
		}
	}
	return u, nil
}

func (o *Job) usageV1() (u Usage, err error) {
	if u.CPUUser, u.CPUSystem, err = o.cpuV1(); err != nil {
		return u, err
	}
	if dir, ok := o.dir("cpu"); ok {
		file := filepath.Join(dir, "cpu.stat")
		kv, err := readKV(file)
		if err != nil {
			return u, fail("read", file, "", err)
		}
		if t, ok := kv["throttled_time"]; ok {
			d := time.Duration(t) // ns
			u.Throttled = &d
		}
	}
	if dir, ok := o.dir("memory"); ok {
		file := filepath.Join(dir, "memory.oom_control")
		kv, err := readKV(file)
		if err != nil {
			return u, fail("read", file, "", err)
		}
		u.OOMKills = kv["oom_kill"]
		if u.MemoryPeak, err = optional(filepath.Join(dir, "memory.max_usage_in_bytes")); err != nil {
			return u, err
		}
	}
	if dir, ok := o.dir("pids"); ok {
		file := filepath.Join(dir, "pids.events")
		kv, err := readKV(file)
		if err != nil {
			return u, fail("read", file, "", err)
		}
		u.PidsMaxHits = o.jail.pidsHits(dir, kv["max"])
		if u.PidsPeak, err = optional(filepath.Join(dir, "pids.peak")); err != nil { // since 6.1
			return u, err
		}
	}
	return u, nil
}

// cpuV1 reads user and system time: from cpuacct, or from the v2 hierarchy
// beside, which counts time without any controller.
func (o *Job) cpuV1() (user, system time.Duration, err error) {
	if dir, ok := o.dir("cpuacct"); ok {
		var ns [3]int64
		for i, name := range []string{"cpuacct.usage_user", "cpuacct.usage_sys", "cpuacct.usage"} {
			file := filepath.Join(dir, name)
			if ns[i], err = readCount(file); err != nil {
				return 0, 0, fail("read", file, "", err)
			}
		}
		user, system = share(ns[0], ns[1], ns[2])
		return user, system, nil
	}
	if dir, ok := o.v2dir(); ok {
		file := filepath.Join(dir, "cpu.stat")
		kv, err := readKV(file)
		if err != nil {
			return 0, 0, fail("read", file, "", err)
		}
		return micros(kv["user_usec"]), micros(kv["system_usec"]), nil
	}
	return 0, 0, &Unavailable{
		Controller: "cpuacct", File: "/proc/self/mountinfo", ID: "cgroup.controller.cpuacct",
		Reason: "no mounted hierarchy counts CPU time", Hint: "mount cgroup v1's cpuacct, or cgroup v2",
	}
}

// share divides a total, which the scheduler measured, as user and system are to each
// other. Of these the kernel counts whole ticks, whoever runs when one comes
// (kernel/sched/cpuacct.c): on a busy host their sum is off by a tenth and more, and a
// short job has none. v2's are divided so by the kernel itself. All in ns.
func share(user, system, total int64) (time.Duration, time.Duration) {
	if user+system <= 0 {
		return time.Duration(total), 0
	}
	u := int64(float64(total) * (float64(user) / float64(user+system)))
	return time.Duration(u), time.Duration(total - u)
}

// CPUTime reads the CPU time used so far, in one or two reads, for a clock that
// asks often.
func (o *Job) CPUTime() (time.Duration, error) {
	if dir, ok := o.dir("cpuacct"); ok {
		file := filepath.Join(dir, "cpuacct.usage")
		n, err := readCount(file)
		if err != nil {
			return 0, fail("read", file, "", err)
		}
		return time.Duration(n), nil
	}
	if dir, ok := o.v2dir(); ok {
		file := filepath.Join(dir, "cpu.stat")
		kv, err := readKV(file)
		if err != nil {
			return 0, fail("read", file, "", err)
		}
		return micros(kv["usage_usec"]), nil
	}
	user, system, err := o.cpuV1()
	return user + system, err
}

// oomKills: a group kill is one even if oom_kill were missing.
func oomKills(kv map[string]int64) int64 { return max(kv["oom_kill"], kv["oom_group_kill"]) }

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// optional reads a counter that older kernels lack.
func optional(file string) (*int64, error) {
	n, err := readCount(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fail("read", file, "", err)
	}
	return &n, nil
}
