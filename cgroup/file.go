package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func exists(file string) bool {
	return unix.Faccessat(unix.AT_FDCWD, file, unix.F_OK, unix.AT_EACCESS) == nil
}

func gone(err error) bool {
	// ENODEV: the file was open, or just being opened, when its cgroup went.
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// writeFile writes value to an existing cgroup file in one write, as the kernel
// wants it, and never makes or cuts a file.
func writeFile(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return fail("write", file, value, err)
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		return fail("write", file, value, err)
	}
	return nil
}

func readString(file string) (string, error) {
	b, err := os.ReadFile(file)
	return strings.TrimSpace(string(b)), err
}

func readFields(file string) ([]string, error) {
	s, err := readString(file)
	return strings.Fields(s), err
}

func readPids(dir string) ([]int, error) {
	s, err := readString(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	return parsePids(s)
}

func procsEmpty(dir string) bool {
	pids, err := readPids(dir)
	return err == nil && len(pids) == 0
}

func readCount(file string) (int64, error) {
	s, err := readString(file)
	if err != nil {
		return 0, err
	}
	return parseCount(s)
}

func readKV(file string) (map[string]int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseKV(string(b))
}
