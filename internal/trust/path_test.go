package trust

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/test/need"
)

func TestPath(t *testing.T) {
	lax := Rules{Owners: []int{0, os.Geteuid()}, Links: true, Sticky: true}
	strict := Rules{Owners: []int{0}}
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	try(errors.Join(os.MkdirAll(at("own/deep"), 0o755), os.MkdirAll(at("open/deep"), 0o755), os.Chmod(at("open"), 0o777),
		os.MkdirAll(at("sticky/deep"), 0o755), os.Chmod(at("sticky"), 0o777|os.ModeSticky),
		os.Symlink("own", at("link")), os.Symlink("open/../own", at("around")), os.Symlink("loop", at("loop")), os.Symlink("sticky/deep/..", at("back")),
		os.MkdirAll(at("group/deep"), 0o755), os.Chmod(at("group"), 0o775)))
	for _, c := range []struct {
		rules Rules
		path  string
		want  string
	}{
		{lax, at("own/deep"), ""},
		{lax, at("link/deep"), ""},
		{lax, at("open/deep"), "open: is writable by others"},
		{lax, at("around/deep"), "open: is writable by others"},
		{lax, at("group/deep"), fmt.Sprintf("group: is writable by its group, gid %d (mode 0775)", os.Getegid())},
		{lax, at("sticky"), "sticky: is writable by others"},
		{lax, at("back"), "sticky: is writable by others"},
		{lax, at("none/deep"), "no such file"},
		{lax, at("loop/deep"), "too many levels"},
		{strict, at("own/deep"), "/tmp: is writable by others"},
		{strict, "/usr", ""},
	} {
		err := c.rules.Path(c.path)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	for dir, group := range map[string]bool{"group": true, "open": false} {
		if b, ok := errors.AsType[*Breach](lax.Path(at(dir + "/deep"))); !ok || !b.Shared || b.Group != group || b.UID != os.Geteuid() {
			t.Errorf("%s: %+v", dir, b)
		}
	}
	t.Run("others", func(t *testing.T) {
		need.Root(t)
		if err := lax.Path(at("sticky/deep")); err != nil {
			t.Errorf("root's own below a sticky directory of root's: %v", err)
		}
		try(errors.Join(os.Chown(at("sticky"), 54321, 0), os.Lchown(at("link"), 54321, 0)))
		for _, p := range []string{"sticky/deep", "link/deep"} {
			if err := lax.Path(at(p)); err == nil {
				t.Errorf("%s is another's and is passed", p)
			}
		}
	})
	if b, err := os.ReadFile("/proc/self/uid_map"); err == nil && strings.Contains(string(b), "4294967295") && unmapped(65534) {
		t.Error("every uid of this namespace has an id, and one is said to have none")
	}
}

// node is what is looked at of a file.
type node struct {
	os.FileInfo
	mode, uid uint32
}

func (n node) IsDir() bool { return n.mode&unix.S_IFMT == unix.S_IFDIR }
func (n node) Sys() any    { return &syscall.Stat_t{Uid: n.uid, Mode: n.mode} }

// TestRootAlone: each thing by which another than root could replace a program is
// enough for a refusal, wherever on the way it is.
func TestRootAlone(t *testing.T) {
	const exe = "/nosuch/local/bin/jailer"
	for name, tc := range map[string]struct {
		path string
		node node
	}{
		"as it should be":           {},
		"the program, by its group": {exe, node{mode: unix.S_IFREG | 0o775}},
		"the program, by all":       {exe, node{mode: unix.S_IFREG | 0o757}},
		"another user's":            {exe, node{mode: unix.S_IFREG | 0o755, uid: 1000}},
		"a link":                    {exe, node{mode: unix.S_IFLNK | 0o777}},
		// Debian's before 13.
		"the group staff's":         {"/nosuch/local/bin", node{mode: unix.S_IFDIR | unix.S_ISGID | 0o775}},
		"a sticky directory":        {"/nosuch/local", node{mode: unix.S_IFDIR | unix.S_ISVTX | 0o777}},
		"another user's directory":  {"/nosuch/local", node{mode: unix.S_IFDIR | 0o755, uid: 1000}},
		"a directory behind a link": {"/nosuch", node{mode: unix.S_IFLNK | 0o777}},
		"the root directory":        {"/", node{mode: unix.S_IFDIR | 0o755, uid: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Rules{Owners: []int{0}, lstat: func(p string) (os.FileInfo, error) {
				switch p {
				case tc.path:
					return tc.node, nil
				case exe:
					return node{mode: unix.S_IFREG | 0o755}, nil
				}
				return node{mode: unix.S_IFDIR | 0o755}, nil
			}}
			err := r.Path(exe)
			b, ok := errors.AsType[*Breach](err)
			if (tc.path == "") != (err == nil) || tc.path != "" && (!ok || b.Path != tc.path) {
				t.Error(err)
			}
		})
	}
}

// TestMain doubles as a process of another user namespace.
func TestMain(m *testing.M) {
	if p := os.Getenv("TRUST_TEST_PATH"); p != "" {
		fmt.Print(Rules{Owners: []int{0, os.Geteuid()}, Links: true, Sticky: true, Userns: os.Getenv("TRUST_TEST_USERNS") != ""}.Path(p))
		return
	}
	os.Exit(m.Run())
}

// In a user namespace the host's root, whose / and /tmp are on every way, has no id.
func TestUserNamespace(t *testing.T) {
	need.Root(t)
	const uid = 54321
	dir, err := os.MkdirTemp("", "trust-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, own, mapped := dir+"/test", dir+"/own", dir+"/mapped"
	b, err := os.ReadFile("/proc/self/exe")
	if err = errors.Join(err, os.WriteFile(program, b, 0o755), os.Mkdir(own, 0o700), os.Mkdir(mapped, 0o755),
		os.Mkdir(mapped+"/own", 0o755), os.Chmod(dir, 0o755), os.Chown(own, uid, uid), os.Chown(mapped, uid+1, uid), os.Chown(mapped+"/own", uid, uid)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, userns, want string }{
		{own, "1", "<nil>"},
		{own, "", "/: is owned by uid 65534"},
		{dir, "1", "is owned by uid 65534"}, // the end of the way must be the caller's
		{mapped + "/own", "1", "mapped: is owned by uid 1,"},
	} {
		cmd := exec.Command(program)
		cmd.Dir = "/"
		cmd.Env = []string{"TRUST_TEST_PATH=" + c.path, "TRUST_TEST_USERNS=" + c.userns}
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 2}}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids,
			Credential: &syscall.Credential{Uid: 0, Gid: 0},
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %s %v, want %q", c.path, out, err, c.want)
		}
	}
}

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{"/a/b-1.x": "/a/b-1.x", "": "''", "a b": "'a b'", "$(x)": "'$(x)'", "it's": `'it'\''s'`, "~": "'~'"} {
		if got := Quote(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}
