package host

import (
	"errors"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/trust"
	"github.com/jailer-project/jailer/test/need"
)

// closed is a file system that can't be looked at below some names.
type closed struct {
	fstest.MapFS
	below map[string]error
}

func (c closed) Lstat(name string) (fs.FileInfo, error) {
	for dir, err := range c.below {
		if strings.HasPrefix(name, dir+"/") {
			return nil, &fs.PathError{Op: "lstat", Path: name, Err: err}
		}
	}
	return c.MapFS.Lstat(name)
}

func (c closed) ReadLink(name string) (string, error) { return c.MapFS.ReadLink(name) }

func TestDataDir(t *testing.T) {
	const own = "home/ann/.local/share/jailer"
	volume := func(v Volume, err error) func(*Host, fstest.MapFS, *Want) {
		return func(h *Host, _ fstest.MapFS, _ *Want) {
			h.Volume = func(string) (Volume, error) { return v, err }
		}
	}
	way := func(err error) func(*Host, fstest.MapFS, *Want) {
		return func(h *Host, _ fstest.MapFS, _ *Want) { h.Way = func(string) error { return err } }
	}
	behind := func(name string, err error) func(*Host, fstest.MapFS, *Want) {
		return func(h *Host, files fstest.MapFS, _ *Want) {
			h.FS = closed{files, map[string]error{name: err}}
		}
	}
	for _, c := range []struct {
		name  string
		uid   int
		set   func(h *Host, files fstest.MapFS, w *Want)
		state State
		where string
		words []string
		hint  string // its beginning
	}{
		{"root", 0, nil, Yes, "/var/lib/jailer", []string{"can be made", "20480 MiB free"}, ""},
		{"root, whose environment counts for nothing", 0, func(_ *Host, _ fstest.MapFS, w *Want) { w.DataHome, w.Home = "/tmp", "/tmp" }, Yes, "/var/lib/jailer", nil, ""},
		{"a user", 1000, nil, Yes, "/" + own, []string{"can be made"}, ""},
		{"there", 1000, func(_ *Host, files fstest.MapFS, _ *Want) { files[own] = dir(1000, 0o755) }, Yes, "/" + own, []string{"is the caller's alone"}, ""},
		{"HOME", 1000, func(_ *Host, _ fstest.MapFS, w *Want) { w.Home = "/home" }, Yes, "/home/.local/share/jailer", nil, ""},
		{"XDG_DATA_HOME", 1000, func(_ *Host, _ fstest.MapFS, w *Want) { w.DataHome = "/home/ann/data/" }, Yes, "/home/ann/data/jailer", nil, ""},
		{"a relative one", 1000, func(_ *Host, _ fstest.MapFS, w *Want) { w.DataHome, w.Home = "data", "home" }, Yes, "/" + own, nil, ""},
		{"no home", 1001, nil, Unknown, "/etc/passwd", nil, "export XDG_DATA_HOME="},
		{"another's", 1000, func(_ *Host, files fstest.MapFS, _ *Want) { files[own] = dir(1, 0o755) }, No, "", []string{"owned by uid 1,"}, "mv -T /" + own + " /" + own + ".old && install -d -m 0700 -o 1000 -g 1000 /" + own},
		{"a link", 0, func(_ *Host, files fstest.MapFS, _ *Want) {
			files["var/lib/jailer"] = owned(0, 0o777|fs.ModeSymlink, "/srv")
		}, No, "", []string{"symbolic link"}, "mv -T "},
		{"a file", 0, func(_ *Host, files fstest.MapFS, _ *Want) { files["var/lib/jailer"] = file("") }, No, "", []string{"not a directory"}, "mv -T "},
		{"written by its group", 0, func(_ *Host, files fstest.MapFS, _ *Want) { files["var/lib/jailer"] = dir(0, 0o770) }, No, "", []string{"mode 0770"}, "chmod go-w /var/lib/jailer"},
		{"below a file", 1000, func(_ *Host, files fstest.MapFS, _ *Want) { files["home/ann/.local"] = file("") }, No, "", []string{"/home/ann/.local is not a directory"}, "mv -T /home/ann/.local "},
		{"below a link to nothing", 1000, func(_ *Host, files fstest.MapFS, _ *Want) {
			files["home/ann/.local"] = owned(1000, 0o777|fs.ModeSymlink, "none")
		}, No, "", []string{"link to nothing"}, `mkdir -p "$(readlink -m /home/ann/.local)", or export`},
		{"below a closed directory", 1000, behind("home", unix.EACCES), No, "", []string{"may not search /home;"}, "chmod a+x /home, or export XDG_DATA_HOME="},
		{"below one of the caller's", 1000, behind("home/ann", unix.EACCES), No, "", nil, "chmod u+x /home/ann,"},
		{"below a sick disk", 1000, behind("home", unix.EIO), Unknown, "", []string{"input/output error"}, "stat /home"},
		{"no right to write", 1000, func(h *Host, _ fstest.MapFS, w *Want) {
			w.DataHome, h.Writable = "/usr", func(string) error { return unix.EACCES }
		}, No, "", []string{"can't be made in /usr: permission denied"}, "install -d -m 0700 -o 1000 -g 1000 /usr/jailer, or export"},
		{"none to one of the caller's", 1000, func(h *Host, _ fstest.MapFS, _ *Want) { h.Writable = func(string) error { return unix.EACCES } }, No, "", nil, "chmod u+wx /home/ann"},
		{"a file system that doesn't answer", 0, volume(Volume{}, unix.EIO), Unknown, "", []string{"input/output error"}, "stat -f /var/lib"},
		{"read-only", 0, volume(Volume{ReadOnly: true, Free: 1 << 40}, nil), No, "", []string{"read-only"}, `mount -o remount,rw "$(findmnt -f -n -o TARGET --target /var/lib)"`},
		{"tmpfs", 0, volume(Volume{Memory: true, Free: 1 << 40}, nil), No, "", []string{"outlasts a boot"}, "mkdir -p /var/lib/jailer && mount --bind "},
		{"a user's tmpfs", 1000, volume(Volume{Memory: true, Free: 1 << 40}, nil), No, "", []string{"outlasts a boot"}, "export XDG_DATA_HOME="},
		{"overlay", 1000, volume(Volume{Overlay: true, Free: 1 << 40}, nil), Unknown, "", []string{"overlay"}, "export XDG_DATA_HOME="},
		{"no room", 1000, volume(Volume{Free: 1<<30 - 1}, nil), No, "", []string{"1023 MiB free, less than 1024"}, "remove something large: du "},
		{"just room", 1000, volume(Volume{Free: 1 << 30}, nil), Yes, "", []string{"1024 MiB free"}, ""},
		{"a way that its group writes to", 0, way(&trust.Breach{Path: "/var", Reason: "is bad", Shared: true, Group: true}), No, "", []string{"the way there: /var: is bad"}, "chmod g-w /var"},
		{"one that all write to", 0, way(&trust.Breach{Path: "/var", Shared: true}), No, "", nil, "chmod go-w /var"},
		{"one that is another's", 1000, way(&trust.Breach{Path: "/a b", UID: 7}), No, "", nil, "chown -h root '/a b', or export"},
		{"in /tmp", 1000, way(&trust.Breach{Path: "/tmp", Shared: true, Sticky: true}), No, "", nil, "install -d -m 0700 -o 1000 -g 1000 /" + own},
		{"a way that can't be judged", 0, way(unix.ELOOP), Unknown, "", nil, "namei -l /var/lib/jailer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, files := fake(c.uid)
			w := good()
			if c.set != nil {
				c.set(h, files, &w)
			}
			f := find(t, h.Check(w), "data.dir")
			if f.Needed || f.Failed() || f.State != c.state || c.where != "" && f.Where != c.where {
				t.Errorf("%+v, want %s %s", f, c.state, c.where)
			}
			if !strings.HasPrefix(f.Hint, c.hint) || (f.Hint == "") != (f.State == Yes) {
				t.Errorf("hint %q, want %q", f.Hint, c.hint)
			}
			for _, word := range append(c.words, "persistent workspaces are kept there") {
				if !strings.Contains(f.Reason, word) {
					t.Errorf("%q: no %q", f.Reason, word)
				}
			}
		})
	}
}

// TestVolume holds what is read of file systems against df(1) and the mounts.
func TestVolume(t *testing.T) {
	df := need.Program(t, "df")
	out, err := exec.Command(df, "--output=avail", "-B1", t.TempDir()).Output()
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(out))
	avail, err := strconv.ParseUint(f[len(f)-1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	v, err := volume(t.TempDir())
	const written = 64 << 20 // by others, meanwhile
	if err != nil || v.ReadOnly || v.Free+written < avail || avail+written < v.Free {
		t.Errorf("%+v, %v; df has %d", v, err, avail)
	}
	if _, err := volume("/nosuch"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
