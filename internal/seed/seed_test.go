package seed

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/jailpath"
	"github.com/jailer-project/jailer/policy"
	"github.com/jailer-project/jailer/rootfs"
)

// TestPlaces: what can be put in goes to the file systems that a jail has.
func TestPlaces(t *testing.T) {
	if got := jailpath.Writable(); jailpath.Workspace != rootfs.Workspace || !slices.Equal(got, []string{rootfs.Workspace, rootfs.Tmp, rootfs.Home}) {
		t.Errorf("got %v", got)
	}
}

func TestEncode(t *testing.T) {
	dir := t.TempDir()
	script := file(t, dir, "run.sh", "echo hi\n", 0o755|os.ModeSetuid)
	closed := file(t, dir, "closed", "x", 0o200)
	empty := file(t, dir, "empty", "", 0o644)
	tree := filepath.Join(dir, "tree")
	file(t, tree, "b/z", "z", 0o640)
	file(t, tree, "a\nb\xff/n\x1b[2J", "named badly", 0o644)
	file(t, tree, "b/a", "a", 0o644)
	if err := os.Mkdir(filepath.Join(tree, "hollow"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(tree, 0o775); err != nil {
		t.Fatal(err)
	}

	s := new(Set)
	defer s.Close()
	for _, err := range []error{
		s.AddFile("bin/x/run.sh", script),
		s.AddFile("/tmp/empty", empty),
		s.AddDir("out/deep"),
		s.AddDir("/tmp"), // there anyway
		s.AddTree("src", tree),
		s.AddTree("/workspace", tree),
		s.AddDir("b"), // in the tree too
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 { // who else can't read it
		if err := s.AddFile("/home/jail/.config/closed", closed); err != nil {
			t.Fatal(err)
		}
	} else {
		refused(t, s.AddFile("/home/jail/.config/closed", closed), jailer.CodePermissionDenied, "closed")
	}
	n := plan()
	n.Files = []policy.File{{Path: "/workspace/out/inline", Mode: 0o000, Data: []byte{0, 255}}}
	n.Directories = []string{"/home/jail/.config"}
	j, err := s.Join(n)
	if err != nil {
		t.Fatal(err)
	}
	want := []frame{
		{frameDir, 0o755, "/home/jail/.config", ""},
		{frameFile, 0o600, "/home/jail/.config/closed", "x"},
		{frameFile, 0o644, "/tmp/empty", ""},
		{frameDir, 0o755, "/workspace/a\nb\xff", ""},
		{frameFile, 0o644, "/workspace/a\nb\xff/n\x1b[2J", "named badly"},
		{frameDir, 0o755, "/workspace/b", ""},
		{frameFile, 0o644, "/workspace/b/a", "a"},
		{frameFile, 0o640, "/workspace/b/z", "z"},
		{frameDir, 0o755, "/workspace/bin", ""},
		{frameDir, 0o755, "/workspace/bin/x", ""},
		{frameFile, 0o755, "/workspace/bin/x/run.sh", "echo hi\n"},
		{frameDir, 0o755, "/workspace/hollow", ""},
		{frameDir, 0o755, "/workspace/out", ""},
		{frameDir, 0o755, "/workspace/out/deep", ""},
		{frameFile, 0o400, "/workspace/out/inline", "\x00\xff"},
		{frameDir, 0o775, "/workspace/src", ""},
		{frameDir, 0o755, "/workspace/src/a\nb\xff", ""},
		{frameFile, 0o644, "/workspace/src/a\nb\xff/n\x1b[2J", "named badly"},
		{frameDir, 0o755, "/workspace/src/b", ""},
		{frameFile, 0o644, "/workspace/src/b/a", "a"},
		{frameFile, 0o640, "/workspace/src/b/z", "z"},
		{frameDir, 0o755, "/workspace/src/hollow", ""},
	}
	own := len(want) - 1
	if os.Geteuid() != 0 {
		want = slices.Delete(want, 1, 2)
		own -= 2 // nor its directory
	}
	if d := cmp.Diff(want, frames(t, j)); d != "" {
		t.Error(d)
	}
	if got := frames(t, s); len(got) != own {
		t.Errorf("joining has changed the set to %v", got)
	}
	for i, f := range want {
		if e := j.Explain(i, syscall.EIO); e.Path != jailpath.Quote(f.Path) {
			t.Errorf("frame %d is %s, want %q", i, e.Path, f.Path)
		}
	}
}

func TestEmpty(t *testing.T) {
	var none *Set
	if j, err := none.Join(plan()); err != nil || !j.Empty() || !none.Empty() || none.Warnings() != nil {
		t.Errorf("got %v, %v", j, err)
	}
	none.Close()
	if got := frames(t, none); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := frames(t, new(Set)); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	a := file(t, dir, "a", "a", 0o644)
	tree := filepath.Join(dir, "tree")
	file(t, tree, "x/y", "y", 0o644)
	type do = func(*Set) error
	for _, c := range []struct {
		name  string
		do    []do
		code  jailer.Code
		words []string
	}{
		{"file twice", []do{add("f", a), add("/workspace/f", a)}, jailer.CodeInvalidPath, []string{"/workspace/f", "twice"}},
		{"directory twice", []do{mkdir("d"), mkdir("./d/")}, jailer.CodeInvalidPath, []string{"/workspace/d", "twice"}},
		{"tree twice", []do{copyTree("d", tree), copyTree("d", tree)}, jailer.CodeInvalidPath, []string{"twice"}},
		{"workspace twice", []do{copyTree(".", tree), copyTree("/workspace", tree)}, jailer.CodeInvalidPath, []string{"twice"}},
		{"file and directory", []do{mkdir("d"), add("d", a)}, jailer.CodeInvalidPath, []string{"twice"}},
		{"file where a directory has to be", []do{add("d/e", a), add("d", a)}, jailer.CodeInvalidPath, []string{"/workspace/d"}},
		{"below a file", []do{add("d", a), add("d/e/f", a)}, jailer.CodeInvalidPath, []string{"/workspace/d/e/f", "above it", "as a file"}},
		{"tree on a file of it", []do{add("d/x/y", a), copyTree("d", tree)}, jailer.CodeInvalidPath, []string{"/workspace/d/x/y"}},
		{"tree below a file", []do{add("d/x", a), copyTree("d", tree)}, jailer.CodeInvalidPath, []string{"/workspace/d/x"}},
		{"file as a mount", []do{add("/tmp", a)}, jailer.CodeInvalidPath, []string{"every jail"}},
		{"up", []do{add("../x", a)}, jailer.CodeInvalidPath, []string{`".."`}},
		{"elsewhere", []do{add("/etc/passwd", a)}, jailer.CodeInvalidPath, []string{"not below"}},
		{"directory elsewhere", []do{mkdir("/usr/x")}, jailer.CodeInvalidPath, []string{"not below"}},
		{"tree elsewhere", []do{copyTree("/", tree)}, jailer.CodeInvalidPath, []string{"not below"}},
		{"no such file", []do{add("f", filepath.Join(dir, "no\nsuch"))}, jailer.CodeNotFound, []string{`no\nsuch`}},
		{"no name", []do{add("f", "")}, jailer.CodeNotFound, nil},
		{"directory as a file", []do{add("f", tree)}, jailer.CodeIsDirectory, []string{"tree", "--dir"}},
		{"file as a directory", []do{copyTree("f", a)}, jailer.CodeInvalidPath, []string{"want a directory", "--file"}},
		{"no such directory", []do{copyTree("f", filepath.Join(dir, "nosuch"))}, jailer.CodeNotFound, []string{"nosuch"}},
		{"device", []do{add("f", "/dev/zero")}, jailer.CodeNotRegular, []string{"/dev/zero", "character device"}},
		{"file of a file", []do{add("f", a+"/x")}, jailer.CodeInvalidPath, []string{"not a directory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := new(Set)
			defer s.Close()
			for i, f := range c.do {
				err := f(s)
				if i < len(c.do)-1 {
					if err != nil {
						t.Fatal(err)
					}
					continue
				}
				refused(t, err, c.code, c.words...)
			}
		})
	}
}

func add(dst, src string) func(*Set) error { return func(s *Set) error { return s.AddFile(dst, src) } }
func mkdir(dst string) func(*Set) error    { return func(s *Set) error { return s.AddDir(dst) } }
func copyTree(dst, src string) func(*Set) error {
	return func(s *Set) error { return s.AddTree(dst, src) }
}

func TestJoinRefuses(t *testing.T) {
	a := file(t, t.TempDir(), "a", "a", 0o644)
	s := new(Set)
	defer s.Close()
	if err := s.AddFile("f", a); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		n     policy.Plan
		words string
	}{
		{"the same file", policy.Plan{Files: []policy.File{{Path: "/workspace/f"}}}, "twice"},
		{"as a directory", policy.Plan{Directories: []string{"/workspace/f"}}, "twice"},
		{"below it", policy.Plan{Directories: []string{"/workspace/f/g"}}, "as a file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.n.Limits = plan().Limits
			_, err := s.Join(&c.n)
			refused(t, err, jailer.CodeInvalidPath, "/workspace/f", c.words)
		})
	}
	if len(s.at) != 1 || len(s.named) != 1 {
		t.Errorf("the set has become %v", s)
	}
}

// TestFits: what can't have room is refused before there is a jail.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []policy.File
		dirs  []string
		ok    bool
		words []string
	}{
		{"to the last byte", []policy.File{{Path: "/workspace/a", Data: make([]byte, 60)}, {Path: "/workspace/b", Data: make([]byte, 40)}}, nil, true, nil},
		{"a byte more", []policy.File{{Path: "/workspace/a", Data: make([]byte, 60)}, {Path: "/workspace/b", Data: make([]byte, 41)}}, nil, false, []string{"/workspace/b", "100", "workspaceBytes", "--memory"}},
		{"each by itself", []policy.File{{Path: "/workspace/a", Data: make([]byte, 100)}, {Path: "/tmp/b", Data: make([]byte, 50)}, {Path: "/home/jail/b", Data: make([]byte, 50)}}, nil, true, nil},
		{"tmp", []policy.File{{Path: "/tmp/b", Data: make([]byte, 51)}}, nil, false, []string{"/tmp/b", "50", "--tmp-size"}},
		{"to the last inode", []policy.File{{Path: "/workspace/d/e/a"}}, nil, true, nil},
		{"an inode more", []policy.File{{Path: "/workspace/d/e/a"}}, []string{"/workspace/f"}, false, []string{"/workspace/f", "3 files", "workspace_inodes"}},
		{"inodes of home", nil, []string{"/home/jail/a/b"}, false, []string{"/home/jail/a/b", "1 files", "tmp_inodes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &policy.Plan{Files: c.files, Directories: c.dirs}
			n.Limits.Workspace, n.Limits.WorkspaceInodes, n.Limits.TmpSize, n.Limits.TmpInodes = 100, 4, 50, 2
			var s *Set
			j, err := s.Join(n)
			if c.ok {
				if err != nil || j == nil {
					t.Fatal(err)
				}
				return
			}
			refused(t, err, jailer.CodeNoSpace, c.words...)
		})
	}
}

// TestJoinIsBounded: a request of a megabyte can name half a million directories.
func TestJoinIsBounded(t *testing.T) {
	n := &policy.Plan{}
	n.Limits.Workspace, n.Limits.WorkspaceInodes, n.Limits.TmpSize, n.Limits.TmpInodes = 1<<20, 16<<10, 1<<20, 16<<10
	for i := range 256 {
		n.Directories = append(n.Directories, fmt.Sprint("/workspace/", i, strings.Repeat("/d", 2000)))
	}
	var s *Set
	_, err := s.Join(n)
	refused(t, err, jailer.CodeNoSpace, "/workspace/", "16383 files")
}

func TestExplain(t *testing.T) {
	s := new(Set)
	if err := s.AddDir("/tmp/d"); err != nil {
		t.Fatal(err)
	}
	if err := s.AddDir("e\n"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		index int
		errno syscall.Errno
		code  jailer.Code
		words []string
	}{
		{0, unix.ENOSPC, jailer.CodeNoSpace, []string{"/tmp/d", "/tmp has no room", "--tmp-size"}},
		{1, unix.ENOSPC, jailer.CodeNoSpace, []string{`/workspace/e\n`, "workspaceBytes"}},
		{1, unix.EDQUOT, jailer.CodeNoSpace, nil},
		{1, unix.ENOMEM, jailer.CodeNoSpace, []string{"--memory"}},
		{0, unix.EEXIST, jailer.CodeInvalidPath, []string{"/tmp/d", "twice"}},
		{0, unix.ELOOP, jailer.CodeInvalidPath, []string{"symbolic link"}},
		{0, unix.EXDEV, jailer.CodeInvalidPath, []string{"symbolic link"}},
		{0, unix.ENOTDIR, jailer.CodeInvalidPath, []string{"no directory"}},
		{0, unix.EISDIR, jailer.CodeIsDirectory, nil},
		{0, unix.ENAMETOOLONG, jailer.CodeInvalidPath, []string{"too long"}},
		{0, unix.EACCES, jailer.CodePermissionDenied, nil},
		{0, unix.EROFS, jailer.CodePermissionDenied, nil},
		{0, unix.EFBIG, jailer.CodeFileTooLarge, nil},
		{0, unix.ENOSYS, jailer.CodeInternal, []string{"/tmp/d", "filter"}},
		{0, unix.EIO, jailer.CodeInternal, []string{"/tmp/d"}},
		{2, unix.EBADMSG, jailer.CodeInternal, []string{"files could not be put"}}, // the end
		{-1, unix.EIO, jailer.CodeInternal, nil},
		{1 << 30, unix.ENOSPC, jailer.CodeInternal, nil},
	} {
		t.Run(fmt.Sprint(c.index, c.errno), func(t *testing.T) {
			refused(t, s.Explain(c.index, c.errno), c.code, c.words...)
		})
	}
}

// TestMany: a tree of ten thousand files costs no descriptors and no time to speak of.
func TestMany(t *testing.T) {
	dir := t.TempDir()
	const dirs, each = 100, 100
	for i := range dirs {
		d := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		for k := range each {
			if err := os.WriteFile(filepath.Join(d, fmt.Sprint(k)), []byte(fmt.Sprint(i, k)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := new(Set)
	defer s.Close()
	if err := s.AddTree(".", dir); err != nil {
		t.Fatal(err)
	}
	if len(s.open) != 1 {
		t.Errorf("%d descriptors are open", len(s.open))
	}
	n := plan()
	n.Limits.WorkspaceInodes = dirs*each + dirs + 1
	j, err := s.Join(n)
	if err != nil {
		t.Fatal(err)
	}
	if got := frames(t, j); len(got) != dirs*each+dirs || got[len(got)-1].Data != "99 99" {
		t.Errorf("%d frames", len(got))
	}
	n.Limits.WorkspaceInodes--
	_, err = s.Join(n)
	refused(t, err, jailer.CodeNoSpace, "/workspace/99/99")
}

// TestDeep: a tree deeper than any number of descriptors, to the longest path.
func TestDeep(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	rel := strings.Repeat("d/", 1900)
	if err := root.MkdirAll(rel[:len(rel)-1], 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.RemoveAll("d"); root.Close() })
	s := new(Set)
	defer s.Close()
	if err := s.AddTree("t", dir); err != nil {
		t.Fatal(err)
	}
	if got := frames(t, s); len(got) != 1901 {
		t.Errorf("%d frames", len(got))
	}
	long := new(Set)
	defer long.Close()
	refused(t, long.AddTree(strings.Repeat("l", 200)+"/"+strings.Repeat("l", 200), dir), jailer.CodeInvalidPath, "at most 4095")
}

func TestDecoderIsStrict(t *testing.T) {
	s := new(Set)
	if err := s.AddDir("d"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := decode(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	for i := range b.Len() {
		if _, err := decode(b.Bytes()[:i]); err == nil {
			t.Errorf("%d of %d bytes were taken", i, b.Len())
		}
	}
	if _, err := decode(append(b.Bytes(), 0)); err == nil {
		t.Error("a byte after the end was taken")
	}
}

// TestModes: no bit of the host's but permissions.
func TestModes(t *testing.T) {
	for in, want := range map[fs.FileMode]fs.FileMode{0: 0o400, 0o777: 0o777, 0o4755: 0o755, 0o6711: 0o711, 0o1666: 0o666, 0o100644: 0o644} {
		if got := fileMode(in); got != want {
			t.Errorf("%o becomes %o, want %o", in, got, want)
		}
	}
}
