package cgroup

import (
	"path/filepath"
	"slices"
	"strconv"
)

// LimitMemory bounds the memory, in bytes, of the whole jail, and its swap. The jobs'
// own limits don't: what a job leaves behind (System V shared memory, a memfd that
// another job's process holds, files in a tmpfs) is on the jail's bill from the moment
// the job's cgroup is removed (cgroup-v2.rst, "Memory Ownership"), and of many jobs
// there would be no end of it. Without a memory controller it does nothing.
func (j *Jail) LimitMemory(memory, swap int64) error {
	i := slices.IndexFunc(j.places, func(p place) bool { return slices.Contains(p.ctls, "memory") })
	if i < 0 {
		return nil
	}
	ram, both := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes" // v1: memory and swap together
	swap += memory
	if j.places[i].mount.V2 {
		ram, both = "memory.max", "memory.swap.max"
		swap -= memory
	}
	var files limitFiles
	files.add(filepath.Join(j.places[i].dir, ram), strconv.FormatInt(memory, 10))
	if file := filepath.Join(j.places[i].dir, both); exists(file) { // else there is no accounting of swap
		files.add(file, strconv.FormatInt(swap, 10))
	}
	for _, file := range files.order {
		if err := j.base.o.write(file, files.want[file]); err != nil {
			return err
		}
	}
	return files.readBack()
}
