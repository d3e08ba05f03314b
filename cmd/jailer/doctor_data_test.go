package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/internal/host"
	"github.com/jailer-project/jailer/test/need"
)

// dataBed asks the program for data.dir in a mount namespace where $D, a directory
// on a disk, is what a caller's data directory is made in: XDG_DATA_HOME of a user;
// for root it covers /var/lib. Nothing else of the host is touched.
type dataBed struct {
	t        *testing.T
	dir, bin string
	uid      int
}

// ask makes $D anew, does the scripts as root, and asks.
func (b dataBed) ask(scripts ...string) host.Finding {
	b.t.Helper()
	begin := `rm -rf "$D" && install -d -m 0755 -o "$U" -g "$U" "$D" && cd / && export XDG_DATA_HOME="$D"`
	if b.uid == 0 {
		begin += ` && mount --bind "$D" /var/lib`
	}
	begin = fmt.Sprintf("D=%s/data; U=%d; umask 022; as() { setpriv --reuid $U --regid $U --clear-groups \"$@\"; }\n", b.dir, b.uid) + begin
	script := strings.Join(append(append([]string{begin}, scripts...), `exec setpriv --reuid $U --regid $U --clear-groups "$@"`), "\n")
	out, errs, _ := jailerAs(b.t, need.Program(b.t, "unshare"), 0, "--mount", "--propagation", "private", "sh", "-euc", script, "sh", b.bin, "doctor", "--json")
	var d doctorDoc
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		b.t.Fatalf("%s\n%v: %s%s", script, err, out, errs)
	}
	return d.find("data.dir")
}

// TestDoctorDataDir does damage to a data directory, wants doctor to name it, and
// does what doctor or the page says until all is well again.
func TestDoctorDataDir(t *testing.T) {
	need.Root(t)
	need.Program(t, "setpriv")
	need.Program(t, "findmnt")
	_, bin := doctorHome(t)
	dir, err := os.MkdirTemp("/var/tmp", "jailer-data-") // on a disk, where /tmp needn't be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []int{0, doctorUID} {
		f := dataBed{t, dir, bin, uid}.ask()
		need.Feature(t, "disk", f.State == host.Yes, "/var/tmp is no place for data: "+f.Reason)
	}
	page := pageSteps(t, "data.dir")
	const memory = "lies in memory"
	for _, c := range []struct {
		name, damage string
		says         string
		as           string // who mends it: "root", "user" or both
		page, ours   string // beginning of the page's step, for root and for a user
		ends         string // what is said at last; "" is all well
	}{
		{name: "its group's", damage: "install -d -m 0770 -o $U -g $U $D/jailer", says: "writable by others (mode 0770)", as: "root user", page: "chmod"},
		{name: "another's", damage: "install -d -m 0700 -o 7 $D/jailer", says: "owned by uid 7", as: "root user", page: "mv"},
		{name: "a link", damage: "ln -s /tmp $D/jailer && chown -h $U $D/jailer", says: "symbolic link", as: "root user", page: "mv"},
		{name: "a file", damage: "touch $D/jailer && chown $U $D/jailer", says: "not a directory", as: "root user", page: "mv"},
		{name: "not to be written to", damage: "install -d -m 0500 -o $U $D/jailer", says: "may not write", as: "user"},
		{name: "not to be made", damage: "chmod 0500 $D", says: "may not write to", as: "user"},
		{name: "not to be made in root's", damage: "chown 0 $D", says: "can't be made in", as: "user by root"},
		{name: "closed", damage: "chown 0 $D && chmod 0700 $D", says: "may not search", as: "user by root"},
		{name: "below a file", damage: "touch $D/x && chown $U $D/x && export XDG_DATA_HOME=$D/x", says: "x is not a directory", as: "user"},
		{name: "below a link to nothing", damage: "ln -s none $D/x && chown -h $U $D/x && export XDG_DATA_HOME=$D/x", says: "link to nothing", as: "user"},
		{name: "a way that its group writes to", damage: "chmod 0775 $D", says: "writable by its group", as: "root user"},
		{name: "a way that all write to", damage: "install -d -m 0777 -o $U $D/x && export XDG_DATA_HOME=$D/x/y", says: "writable by others", as: "user"},
		{name: "a way by another's link", damage: "install -d -o $U $D/y && ln -s y $D/x && chown -h 7 $D/x && export XDG_DATA_HOME=$D/x", says: "owned by uid 7", as: "user by root"},
		{name: "where all may be first", damage: "install -d -m 1777 $D/x && export XDG_DATA_HOME=$D/x", says: "writable by others (mode 1777)", as: "user"},
		{name: "root's where all may be first", damage: "chmod 1777 $D", says: "writable by others (mode 1777)", as: "root"},
		{name: "read-only", damage: "mount -t tmpfs -o mode=755,uid=$U none $V && mount -o remount,ro $V", says: "mounted read-only", as: "root user by root", page: "mount -o", ends: memory},
		{name: "a read-only bind mount", damage: "mount -t tmpfs -o mode=755,uid=$U none $V && mount --bind $V $V && mount -o remount,bind,ro $V", says: "mounted read-only", as: "root user by root", ends: memory},
		{name: "in memory", damage: "mount -t tmpfs -o mode=755,uid=$U none $V", says: memory, as: "root user", page: "mkdir", ours: "export"},
		{name: "on an overlay", damage: "mkdir $D/u $D/w $D/l && mount -t overlay -o upperdir=$D/u,workdir=$D/w,lowerdir=$D/l none $V && chown $U $V", says: "overlay", as: "root user"},
	} {
		for _, uid := range []int{0, doctorUID} {
			as, byRoot := strings.CutSuffix(c.as, " by root")
			who, place, first := "user", "$D", c.ours
			if uid == 0 {
				who, place, first, byRoot = "root", "/var/lib", c.page, true
			}
			if !strings.Contains(as, who) {
				continue
			}
			damage := strings.ReplaceAll(c.damage, "$V", place)
			for _, way := range []string{"the answer", "the page"} {
				step := ""
				if way == "the page" {
					if first == "" {
						continue
					}
					step = page.take(first)
				}
				t.Run(who+" "+c.name+" by "+way, func(t *testing.T) {
					b := dataBed{t, dir, bin, uid}
					f := b.ask(damage)
					if f.State == host.Yes || !strings.Contains(f.Reason, c.says) || f.Needed {
						t.Fatalf("%+v, want %q", f, c.says)
					}
					scripts := []string{damage}
					for range 3 {
						if f.State == host.Yes || c.ends != "" && strings.Contains(f.Reason, c.ends) {
							return
						}
						if step == "" {
							step = remedy(f.Hint)
						}
						scripts = append(scripts, b.mend(step, byRoot))
						step, f = "", b.ask(scripts...)
					}
					t.Errorf("%q: %+v", scripts, f)
				})
			}
		}
	}
	t.Run("root no room", func(t *testing.T) {
		b := dataBed{t, dir, bin, 0}
		full := "mount -t devpts none /var/lib" // statfs(2) shows none of its blocks
		f := b.ask(full)
		if f.State != host.No || !strings.Contains(f.Reason, "0 MiB free, less than 1024") {
			t.Fatalf("%+v", f)
		}
		shows, ok := strings.CutPrefix(f.Hint, "remove something large: ")
		if !ok {
			t.Fatalf("%+v", f)
		}
		b.ask(full, `[ "$(`+shows+` | grep -c /var/lib)" -gt 0 ]`)
	})
	if len(page.left) > 0 {
		t.Errorf("steps of the page that no row takes: %v", page.left)
	}
}

// remedy is the command of a hint.
func remedy(hint string) string {
	for _, end := range []string{", or export ", ", with "} {
		hint, _, _ = strings.Cut(hint, end)
	}
	return hint
}

// mend is a step as the script that takes it, with a directory on the disk where one
// is to be chosen.
func (b dataBed) mend(step string, byRoot bool) string {
	disk := filepath.Join(b.dir, "disk")
	begin := fmt.Sprintf("rm -rf %s && install -d -o $U -g $U %[1]s\n", disk)
	for _, name := range []string{"DIRECTORY", "/srv/jailer", "/srv/ann"} {
		step = strings.ReplaceAll(step, name, disk)
	}
	if byRoot || strings.HasPrefix(step, "export ") {
		return begin + step
	}
	return begin + "as sh -euc '" + strings.ReplaceAll(step, "'", `'\''`) + "'"
}

// steps are the lines of the block of a section of docs/host-setup.md.
type steps struct {
	t    *testing.T
	all  []string
	left map[string]bool
}

func pageSteps(t *testing.T, id string) steps {
	t.Helper()
	b, err := os.ReadFile("../../docs/host-setup.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "\n### `"+id+"`\n")
	_, text, _ = strings.Cut(text, "\n```sh\n")
	text, _, ok := strings.Cut(text, "\n```\n")
	if !ok {
		t.Fatalf("%s: no block", id)
	}
	s := steps{t, strings.Split(text, "\n"), map[string]bool{}}
	for _, l := range s.all {
		s.left[l] = true
	}
	return s
}

// take is the one step that begins so.
func (s steps) take(prefix string) string {
	s.t.Helper()
	for _, l := range s.all {
		if strings.HasPrefix(l, prefix) {
			delete(s.left, l)
			return l
		}
	}
	s.t.Fatalf("no step %s in %q", prefix, s.all)
	return ""
}
