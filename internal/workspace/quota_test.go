package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

// disk mounts a file system of the test's own, which nobody else sees: the calling
// goroutine has its thread and a mount namespace for itself from here on.
func disk(t *testing.T, features, options string) string {
	t.Helper()
	need.Root(t)
	for _, p := range []string{"mke2fs", "mount"} {
		need.Program(t, p)
	}
	runtime.LockOSThread() // and never unlocked
	if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")); err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	image, at := filepath.Join(base, "image"), filepath.Join(base, "disk")
	if err := errors.Join(os.Chmod(filepath.Dir(base), 0o711), os.WriteFile(image, nil, 0o600), os.Truncate(image, 64<<20), os.Mkdir(at, 0o700)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-O", features, image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command("mount", "-o", "loop,"+options, image, at).CombinedOutput()
	need.Feature(t, "prjquota", err == nil, fmt.Sprintf("a loop device with %s can't be mounted: %s", options, bytes.TrimSpace(out)))
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(at, 0o711); err != nil {
		t.Fatal(err)
	}
	return at
}

// The kernel holds a quota in bytes and in files: writes fail at it, for whoever writes.
func TestProjectQuota(t *testing.T) {
	at := disk(t, "quota,project", "prjquota")
	w := &Workspace{dir: at, HostUID: 1900000007}
	if err := errors.Join(os.Mkdir(w.Path(), 0o755), os.Chown(w.Path(), 54321, 54321)); err != nil {
		t.Fatal(err)
	}
	if hard, err := w.SetQuota(Quota{Bytes: 1 << 20, Inodes: 20}); err != nil || !hard {
		t.Fatalf("%v %v", hard, err)
	}
	// As a user: root with CAP_SYS_RESOURCE is bound by no quota, and no job is that.
	user := func(script string) string {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Dir = w.Path()
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if out := user("head -c 2M /dev/zero > big"); !strings.Contains(out, "uota exceeded") && !strings.Contains(out, "No space") {
		t.Errorf("2 MiB of 1: %q", out)
	}
	u, full, err := w.QuotaUsage()
	if err != nil || !full || u.Bytes > 1<<20 || u.Bytes < 1<<19 {
		t.Errorf("%+v %v %v", u, full, err)
	}
	if out := user("rm big; i=0; while mkdir d$i && [ $i -lt 100 ]; do i=$((i+1)); done; ls | wc -l"); !strings.HasSuffix(out, "\n19\n") {
		t.Errorf("of 20 inodes, one the directory's own: %q", out)
	}
	// Larger and smaller, on a workspace that has files.
	for _, q := range []Quota{{4 << 20, 100}, {1 << 20, 50}} {
		if hard, err := w.SetQuota(q); err != nil || !hard {
			t.Errorf("%v %v", hard, err)
		}
	}
	// What had files before is left to the watch.
	old := &Workspace{dir: filepath.Join(at, "old"), HostUID: 1900000008}
	if err := errors.Join(os.MkdirAll(old.Path(), 0o755), os.WriteFile(filepath.Join(old.Path(), "f"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if hard, err := old.SetQuota(Quota{1 << 20, 20}); err != nil || hard {
		t.Errorf("%v %v", hard, err)
	}
}

// A file system that counts and doesn't hold is none that holds.
func TestQuotaNotEnforced(t *testing.T) {
	for name, options := range map[string]string{"quota,project": "rw", "^quota": "rw"} {
		t.Run(name, func(t *testing.T) {
			at := disk(t, name, options)
			w := &Workspace{dir: at, HostUID: 1900000007}
			if err := os.Mkdir(w.Path(), 0o755); err != nil {
				t.Fatal(err)
			}
			if hard, err := w.SetQuota(Quota{Bytes: 1 << 20, Inodes: 20}); err != nil || hard {
				t.Errorf("%v %v", hard, err)
			}
		})
	}
}
