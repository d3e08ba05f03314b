package hostdir

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

func rules() *Rules {
	return &Rules{Owners: []int{0, os.Geteuid()}, Named: func(p string) string {
		if p == "/proc" || strings.HasPrefix(p, "/proc/") || strings.HasSuffix(p, "/secret") {
			return "is not for jails"
		}
		return ""
	}, Never: []string{"/", "/etc", "/nosuch"}}
}

func judge(t *testing.T, p, want string) {
	t.Helper()
	f, real, err := rules().Judge(p)
	if err == nil {
		f.Close()
	}
	if want == "" {
		if err != nil || real == "" {
			t.Errorf("%s: %v", p, err)
		}
		return
	}
	if r, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(r.Error(), want) {
		t.Errorf("%s: %v, want %q", p, err, want)
	}
}

// By its name, by its way, and by what it is.
func TestJudge(t *testing.T) {
	d := t.TempDir()
	at := func(name string) string { return filepath.Join(d, name) }
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, err := range []error{
		os.Mkdir(at("plain"), 0o755), os.WriteFile(at("file"), nil, 0o644), os.Mkdir(at("secret"), 0o755),
		os.Symlink("plain", at("link")), os.Symlink("secret", at("tosecret")), os.Symlink("/proc", at("toproc")), os.Symlink("/etc", at("toetc")), os.Symlink("socket", at("tosocket")),
		unix.Mkfifo(at("fifo"), 0o644), os.Mkdir(at("shared"), 0o777), os.Chmod(at("shared"), 0o777), os.Mkdir(at("group"), 0o775), os.Chmod(at("group"), 0o775),
		os.MkdirAll(at("service/deep"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	l2, err := net.Listen("unix", at("service/deep/s.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l2.Close()
	for name, want := range map[string]string{
		"plain": "", "file": "", "link": "", "none": "no such file", "secret": "not for jails", "tosecret": "is really", "toproc": "is really /proc",
		"toetc": "is really /etc", "socket": "is a socket", "tosocket": "is a socket", "fifo": "neither a directory nor a regular file",
		"shared": "writable by others", "group": "writable by its group", "service": "has a socket in it: deep/s.sock", "shared/x": "writable by others",
	} {
		judge(t, at(name), want)
	}
	judge(t, "/sys/kernel", "is on sysfs")
	if os.Geteuid() == 0 {
		if err := os.Mkdir(at("his"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(at("his"), 54321, 54321); err != nil {
			t.Fatal(err)
		}
		judge(t, at("his"), "owned by uid 54321")
	}
}

// A bind of what is not for jails has another name.
func TestJudgeBind(t *testing.T) {
	need.Root(t)
	d := t.TempDir()
	for name, want := range map[string]string{"/proc": "is on procfs", "/etc": "is really /etc", "/": "is really /"} {
		at := filepath.Join(d, strings.ReplaceAll(name, "/", "m"))
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(name, at, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		judge(t, at, want)
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
}
