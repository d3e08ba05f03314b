package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func assemble(t *testing.T, src Source) (*Layout, error) {
	t.Helper()
	return Assemble(t.TempDir(), src)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, data string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(data), 0o644))
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

func targets(l *Layout) []string {
	var out []string
	for _, b := range l.Binds {
		out = append(out, b.Target)
	}
	return out
}

func TestHostView(t *testing.T) {
	l, err := assemble(t, Source{Name: "host"})
	must(t, err)
	if !slices.Contains(targets(l), "/usr") {
		t.Errorf("no /usr among %v", targets(l))
	}
	for _, b := range l.Binds {
		for _, never := range []string{"/home", "/root", "/run", "/var", "/sys", "/boot", "/etc/ssl/private", "/etc/shadow", "/tmp"} {
			if b.Source == never || strings.HasPrefix(b.Target, never+"/") || b.Target == never {
				t.Errorf("%s is bound at %s", b.Source, b.Target)
			}
		}
	}
	for _, p := range []string{"etc/shadow", "etc/ssl/private", "root", "sys", "boot", "opt", "srv", "mnt"} {
		if _, err := os.Lstat(filepath.Join(l.Path, p)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is in the skeleton (%v)", p, err)
		}
	}
	if got := read(t, filepath.Join(l.Path, "etc/passwd")); !strings.HasPrefix(got, "jail:x:1000:1000:") {
		t.Errorf("passwd begins %q", got)
	}
}

// TestMountPointsExist: libcontainer makes what is missing, inside whatever is
// there; nothing may be missing.
func TestMountPointsExist(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/bin/sh", "")
	write(t, root+"/etc/passwd", "app:x:5:5::/:/bin/sh\n")
	write(t, root+"/file", "")
	for _, src := range []Source{{Name: "host"}, {Name: "dir", Path: root}, {Name: "terminal", Terminal: true}} {
		t.Run(src.Name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := Assemble(dir, src)
			must(t, err)
			wanted := append(targets(l), Workspace, Tmp, Home, "/proc", Shm)
			if src.Terminal {
				wanted = append(wanted, Pts)
			}
			for _, target := range wanted {
				at := filepath.Join(l.Path, target)
				if rest, ok := strings.CutPrefix(target, "/dev/"); ok {
					at = filepath.Join(dir, "dev", rest) // mounted over the skeleton's
				}
				if rest, ok := strings.CutPrefix(target, "/etc/"); ok && !src.Host() {
					at = filepath.Join(root, "etc", rest)
				}
				st, err := os.Lstat(at)
				if err != nil || st.Mode()&os.ModeSymlink != 0 {
					t.Errorf("mount point %s: %v (%v)", target, err, st)
				}
			}
		})
	}
}

// TestTerminal: what leads to terminals is there only when one is asked for, and
// leads to the jail's own.
func TestTerminal(t *testing.T) {
	for _, have := range []bool{false, true} {
		dir := t.TempDir()
		if _, err := Assemble(dir, Source{Name: "host", Terminal: have}); err != nil {
			t.Fatal(err)
		}
		link, _ := os.Readlink(dir + "/dev/ptmx")
		entries, err := os.ReadDir(dir + "/dev/pts")
		if have && (link != "pts/ptmx" || err != nil || len(entries) > 0) {
			t.Errorf("ptmx is %q; pts holds %v, %v", link, entries, err)
		}
		if !have && (link != "" || !errors.Is(err, os.ErrNotExist)) {
			t.Errorf("without a terminal: ptmx is %q, pts %v", link, err)
		}
	}
}

func TestDirectory(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/usr/bin/x", "")
	write(t, root+"/etc/passwd", "app:x:5:5::/:/bin/sh")
	write(t, root+"/etc/group", "app:x:5:\n")
	must(t, os.Symlink("usr/bin", root+"/bin"))
	must(t, unix.Mkfifo(root+"/fifo", 0o644))
	dir := t.TempDir()
	l, err := Assemble(dir, Source{Name: "py", Path: root})
	must(t, err)
	want := []string{"/etc", "/etc/passwd", "/etc/group", "/usr"}
	for _, w := range want {
		if !slices.Contains(targets(l), w) {
			t.Errorf("%s is not bound: %v", w, targets(l))
		}
	}
	if slices.Contains(targets(l), "/fifo") {
		t.Error("a FIFO of the root is bound")
	}
	if to, _ := os.Readlink(l.Path + "/bin"); to != "usr/bin" {
		t.Errorf("bin links to %q", to)
	}
	if got, want := read(t, dir+"/etc/passwd"), "jail:x:1000:1000:jail:/home/jail:/bin/sh\napp:x:5:5::/:/bin/sh\n"; got != want {
		t.Errorf("passwd %q, want %q", got, want)
	}
}

// TestHostileDirectory: the entries that runtimes were fooled by are never
// looked at, and links are handed into the jail unresolved.
func TestHostileDirectory(t *testing.T) {
	outside := t.TempDir()
	write(t, outside+"/secret", "s3cret")
	root := t.TempDir()
	write(t, root+"/bin/sh", "")
	for _, n := range []string{"proc", "dev", "sys", "tmp", "workspace", "home", "run", "root"} {
		must(t, os.Symlink(outside, root+"/"+n))
	}
	must(t, os.Symlink(outside, root+"/data"))
	dir := t.TempDir()
	l, err := Assemble(dir, Source{Name: "evil", Path: root})
	must(t, err)
	for _, b := range l.Binds {
		if strings.HasPrefix(b.Source, outside) {
			t.Errorf("%s is bound", b.Source)
		}
	}
	for _, n := range []string{"proc", "dev", "tmp", "workspace", "home", "run"} {
		st, err := os.Lstat(filepath.Join(l.Path, n))
		if err != nil || !st.IsDir() {
			t.Errorf("%s is %v (%v), want our own directory", n, st, err)
		}
	}
	left, err := os.ReadDir(outside)
	must(t, err)
	if len(left) != 1 || read(t, outside+"/secret") != "s3cret" {
		t.Errorf("outside was changed: %v", left)
	}
}

func TestEtcLinks(t *testing.T) {
	outside := t.TempDir()
	write(t, outside+"/passwd", "evil:x:0:0::/:/bin/sh\n")
	for _, c := range []struct {
		name  string
		build func(root string)
		fails bool
	}{
		{"etc is a link", func(root string) { must(t, os.Symlink(outside, root+"/etc")) }, true},
		{"passwd is a link", func(root string) {
			must(t, os.Mkdir(root+"/etc", 0o755))
			must(t, os.Symlink(outside+"/passwd", root+"/etc/passwd"))
		}, false},
		{"passwd is a FIFO", func(root string) {
			must(t, os.Mkdir(root+"/etc", 0o755))
			must(t, unix.Mkfifo(root+"/etc/passwd", 0o644))
		}, false},
		{"etc is empty", func(root string) { must(t, os.Mkdir(root+"/etc", 0o755)) }, false},
		{"no etc", func(string) {}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root+"/bin/sh", "")
			c.build(root)
			l, err := assemble(t, Source{Name: "r", Path: root})
			if c.fails {
				var e *Error
				if !errors.As(err, &e) || e.Hint == "" {
					t.Fatalf("error %v, want one with a hint", err)
				}
				return
			}
			must(t, err)
			if got := read(t, l.Path+"/etc/passwd"); !strings.HasPrefix(got, "jail:") || strings.Contains(got, "evil") {
				t.Errorf("passwd %q", got)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	many := t.TempDir()
	for i := range maxEntries + 5 {
		must(t, os.Mkdir(filepath.Join(many, "d"+string(rune('a'+i%26))+string(rune('a'+i/26))), 0o755))
	}
	for name, p := range map[string]string{
		"missing":          filepath.Join(many, "nosuch"),
		"a file":           os.Args[0],
		"too many entries": many,
		"empty":            t.TempDir(),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := assemble(t, Source{Name: "r", Path: p})
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%v, %v: want an *Error", l, err)
			}
		})
	}
}

func TestSkeletonIsNotReused(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("/", dir+"/root"))
	if _, err := Assemble(dir, Source{Name: "host"}); !errors.Is(err, os.ErrExist) {
		t.Fatalf("a planted root: %v, want it refused", err)
	}
}
