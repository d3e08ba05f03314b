package workspace

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// nameless finds files that are in use and removed.
type nameless struct {
	dev   uint64
	known map[uint64]int64
	seen  map[uint64]int64
}

// look looks at a process, each thread of it by itself: one can have descriptors of its
// own (clone(2) without CLONE_FILES). One that has ended is no error; that this process
// has no descriptor left is.
func (n *nameless) look(pid int) (hidden bool, err error) {
	dir := "/proc/" + strconv.Itoa(pid)
	threads, err := os.ReadDir(dir + "/task")
	if lacking(err) {
		return false, err
	}
	for _, t := range threads {
		task := dir + "/task/" + t.Name()
		err := n.descriptors(task)
		if lacking(err) {
			return false, err
		}
		// A process that has lost its memory on its way to its end looks the same.
		hidden = hidden || errors.Is(err, unix.EACCES) && inMemory(task)
	}
	return hidden, n.maps(dir)
}

// inMemory says whether a thread still has an address space (proc_pid_statm(5)).
func inMemory(dir string) bool {
	b, err := os.ReadFile(dir + "/statm")
	return err == nil && !bytes.HasPrefix(b, []byte("0 "))
}

// lacking tells what this process lacks from what the other one is.
func lacking(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// descriptors looks for those that are open, and at the directories that a thread is in.
func (n *nameless) descriptors(dir string) error {
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return err
	}
	n.one(dir + "/cwd")
	n.one(dir + "/root")
	for _, fd := range fds {
		n.one(dir + "/fd/" + fd.Name())
	}
	return nil
}

// one counts a file by a link of procfs, which leads to what is open itself.
func (n *nameless) one(link string) {
	var st unix.Stat_t
	if unix.Stat(link, &st) == nil && st.Dev == n.dev && st.Nlink == 0 {
		n.seen[st.Ino] = st.Blocks * 512
	}
}

// maps looks for those that are only mapped (proc_pid_maps(5)): of them the kernel tells
// the inode and the mapped part, and what was known of their size while they were open.
func (n *nameless) maps(dir string) error {
	b, err := os.ReadFile(dir + "/maps")
	if lacking(err) {
		return err
	}
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		if !bytes.HasSuffix(line, []byte(" (deleted)")) {
			continue
		}
		f := strings.Fields(string(line))
		if len(f) < 6 {
			continue
		}
		major, minor, _ := strings.Cut(f[3], ":")
		ma, err1 := strconv.ParseUint(major, 16, 32)
		mi, err2 := strconv.ParseUint(minor, 16, 32)
		ino, err3 := strconv.ParseUint(f[4], 10, 64)
		from, to, _ := strings.Cut(f[0], "-")
		a, err4 := strconv.ParseUint(from, 16, 64)
		z, err5 := strconv.ParseUint(to, 16, 64)
		if errors.Join(err1, err2, err3, err4, err5) != nil || unix.Mkdev(uint32(ma), uint32(mi)) != n.dev {
			continue
		}
		n.seen[ino] = max(n.seen[ino], n.known[ino], int64(z-a))
	}
	return nil
}

// inNamespace gives the processes of a jail, which are those of its pid namespace.
func inNamespace(pid1 int) ([]int, error) {
	if pid1 <= 0 {
		return nil, nil
	}
	own, err := os.Readlink("/proc/" + strconv.Itoa(pid1) + "/ns/pid")
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil, nil // it has ended, and all others with it
	}
	if err != nil {
		return nil, err
	}
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if ns, err := os.Readlink("/proc/" + name + "/ns/pid"); err == nil && ns == own {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
