package workspace

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// jobs are what the test binary does as PID 1 of a jail, in the workspace. None takes more
// than `most` of the disk.
var jobs = map[string]func(){
	"tmpfile": func() {
		for range most >> 20 { // kept open, as nothing closes them but the end
			fd := try(unix.Open(".", unix.O_TMPFILE|unix.O_WRONLY, 0o600))
			try(unix.Write(fd, megabyte))
		}
	},
	"fallocate": func() {
		fd := try(unix.Open("f", unix.O_CREAT|unix.O_RDWR, 0o600))
		for i := range int64(most >> 20) {
			check(unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, i<<20, 1<<20)) // its size stays 0
			time.Sleep(time.Millisecond)
		}
	},
	"shut": func() {
		check(unix.Mkdir("d", 0o700))
		d := try(unix.Open("d", unix.O_DIRECTORY|unix.O_RDONLY, 0))
		check(unix.Mkdirat(d, "e", 0o700))
		e := try(unix.Openat(d, "e", unix.O_DIRECTORY|unix.O_RDONLY, 0))
		var fds []int // before it is shut: it binds this process too
		for i := range 16 {
			fds = append(fds, try(unix.Openat(e, fmt.Sprint("f", i), unix.O_CREAT|unix.O_WRONLY, 0o600)))
		}
		go func() {
			for { // again, whenever somebody opens them
				check(unix.Fchmod(e, 0))
				check(unix.Fchmod(d, 0))
			}
		}()
		for i := range most >> 20 {
			try(unix.Write(fds[i%len(fds)], megabyte))
			time.Sleep(10 * time.Millisecond)
		}
	},
	"deep": func() {
		at := unix.AT_FDCWD
		for range 300 {
			check(unix.Mkdirat(at, "d", 0o700))
			fd := try(unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_RDONLY, 0))
			if at != unix.AT_FDCWD {
				check(unix.Close(at))
			}
			at = fd
		}
		fill(at)
	},
	"moved": func() {
		for _, d := range []string{"a", "b", "a/h"} {
			check(unix.Mkdir(d, 0o700))
		}
		h := try(unix.Open("a/h", unix.O_DIRECTORY|unix.O_RDONLY, 0))
		go func() {
			for {
				check(unix.Rename("a/h", "b/h"))
				check(unix.Rename("b/h", "a/h"))
			}
		}()
		fill(h)
	},
	"sparse": func() { check(unix.Ftruncate(try(unix.Open("f", unix.O_CREAT|unix.O_RDWR, 0o600)), 1<<40)) },
	"hard links": func() {
		fd := try(unix.Open("f", unix.O_CREAT|unix.O_RDWR, 0o600))
		try(unix.Write(fd, megabyte))
		for i := range 100 {
			check(unix.Link("f", fmt.Sprint("l", i)))
		}
	},
	"removes": func() {
		for { // much in all, little at a time
			fd := try(unix.Open("f", unix.O_CREAT|unix.O_RDWR, 0o600))
			try(unix.Write(fd, megabyte))
			check(unix.Unlink("f"))
			check(unix.Close(fd))
			time.Sleep(10 * time.Millisecond)
		}
	},
	"foreign": func() { // no file of the workspace's, though it has no name either
		fd := try(unix.MemfdCreate("f", unix.MFD_CLOEXEC))
		for range 32 {
			try(unix.Write(fd, megabyte))
		}
	},
}

const (
	most  = 1 << 30
	bound = 64 << 20 // the quota
)

var megabyte = make([]byte, 1<<20)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func try[T any](v T, err error) T {
	check(err)
	return v
}

// fill writes into a directory, by names of its own.
func fill(dir int) {
	for i := range most >> 20 {
		fd := try(unix.Openat(dir, fmt.Sprint("f", i), unix.O_CREAT|unix.O_WRONLY, 0o600))
		try(unix.Write(fd, megabyte))
		check(unix.Close(fd))
		time.Sleep(10 * time.Millisecond)
	}
}

// doing starts a job as PID 1 of a pid namespace, by an unprivileged user in a user
// namespace of its own.
func doing(t *testing.T, dir, job string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Dir, cmd.Env, cmd.Stderr = dir, []string{"WORKSPACE_TEST_JOB=" + job, "GORACE=atexit_sleep_ms=0"}, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Geteuid(), Size: 1}}
	}
	err := cmd.Start()
	need.Feature(t, "userns", os.Geteuid() == 0 || err == nil, fmt.Sprint("a user namespace can't be made: ", err))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd.Process.Pid
}

// However a job hides what it writes, the watch finds it.
func TestWatchFinds(t *testing.T) {
	for _, job := range []string{"tmpfile", "fallocate", "shut", "deep", "moved"} {
		t.Run(job, func(t *testing.T) {
			dir := t.TempDir()
			t.Cleanup(func() { // for its removal
				_ = os.Chmod(filepath.Join(dir, "d"), 0o700)
				_ = os.Chmod(filepath.Join(dir, "d/e"), 0o700)
			})
			began := time.Now()
			over, err := watch(t, dir, doing(t, dir, job), Quota{Bytes: bound, Inodes: 16384})
			if err != nil || over == nil {
				t.Fatalf("%+v %v", over, err)
			}
			t.Logf("%s after %v: %d MiB beyond", over.Reason, time.Since(began), (over.Usage.Bytes-bound)>>20)
			if (job == "moved" || job == "shut") && strings.Contains(over.Reason, "can't be measured") {
				return // which is as good
			}
			if over.Usage.Bytes <= bound || over.Usage.Bytes > most+bound {
				t.Errorf("%+v", over)
			}
		})
	}
}

// What is no use of the workspace is none.
func TestWatchPermits(t *testing.T) {
	for _, job := range []string{"sparse", "hard links", "removes", "foreign"} {
		t.Run(job, func(t *testing.T) {
			dir := t.TempDir()
			f, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var top Usage
			w := &Watch{
				Dir: f, Quota: Quota{Bytes: bound / 8, Inodes: 50}, PID1: doing(t, dir, job), MinFree: 1,
				Report: func(u Usage) { top = Usage{max(top.Bytes, u.Bytes), max(top.Inodes, u.Inodes)} },
			}
			ctx, stop := context.WithTimeout(t.Context(), need.Pace(2500*time.Millisecond))
			defer stop()
			if over, err := w.Run(ctx); over != nil || err != nil {
				t.Errorf("%+v %v", over, err)
			}
			left, _ := filepath.Glob(filepath.Join(dir, "*"))
			t.Logf("at most %+v, %d names", top, len(left))
			if job == "sparse" && len(left) != 1 || job == "hard links" && (len(left) != 101 || top.Inodes != 2) {
				t.Errorf("%+v, %d names", top, len(left))
			}
		})
	}
}
