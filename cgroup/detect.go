package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Mode is the arrangement of hierarchies on a host.
type Mode string

// Hybrid: v1 controllers with a v2 hierarchy beside them.
const (
	ModeV2     Mode = "v2"
	ModeHybrid Mode = "hybrid"
	ModeV1     Mode = "v1"
	ModeNone   Mode = "none"
)

// Mount is one mounted hierarchy.
type Mount struct {
	Point      string // where it is mounted
	Root       string // which cgroup of the hierarchy that is; "/" outside containers
	Dev        string // major:minor
	V2         bool
	ReadOnly   bool
	NSDelegate bool // v2: limits at the root of a cgroup namespace can't be rewritten from inside
}

// Layout is what /proc/self/mountinfo says about control groups.
type Layout struct {
	Mode          Mode
	Unified       *Mount           // the v2 hierarchy, if one is mounted
	V2Controllers []string         // what it offers at its mount point
	V1            map[string]Mount // controller → its v1 hierarchy
}

// Detect reads which hierarchies are mounted and where each controller is. It
// never guesses from paths: a distribution may name cpu's mount "cpu,cpuacct",
// and a container may show only a part of the tree. root ("" = /sys/fs/cgroup)
// decides between several mounts of one hierarchy.
func Detect(root string) (*Layout, error) {
	return detect(Options{Root: root}.withDefaults())
}

func detect(o Options) (*Layout, error) {
	file := filepath.Join(o.Proc, "mountinfo")
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fail("read", file, "", err)
	}
	lines, err := parseMountinfo(string(data))
	if err != nil {
		return nil, fail("read", file, "", err)
	}
	l := &Layout{V1: map[string]Mount{}}
	below := func(p string) bool { return p == o.Root || strings.HasPrefix(p, o.Root+"/") }
	better := func(old, new Mount) bool {
		if old.Dev == new.Dev && strings.HasPrefix(new.Point, old.Point+"/") {
			return false // a part of the hierarchy, bound to a place within it
		}
		return below(new.Point) || !below(old.Point) // among equals the last is on top
	}
	for _, m := range lines {
		if m.fsType != "cgroup" && m.fsType != "cgroup2" {
			continue
		}
		mt := Mount{
			Point: m.point, Root: m.root, Dev: m.dev, V2: m.fsType == "cgroup2", ReadOnly: m.readOnly(),
			NSDelegate: slices.Contains(m.superOpt, "nsdelegate"),
		}
		if o.check(mt) != nil {
			continue // covered by a later mount, or gone
		}
		if mt.V2 {
			if l.Unified == nil || better(*l.Unified, mt) {
				l.Unified = &mt
			}
			continue
		}
		for _, c := range m.superOpt {
			if old, ok := l.V1[c]; v1Controller(c) && (!ok || better(old, mt)) {
				l.V1[c] = mt
			}
		}
	}
	if l.Unified != nil {
		s, err := os.ReadFile(filepath.Join(l.Unified.Point, "cgroup.controllers"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fail("read", filepath.Join(l.Unified.Point, "cgroup.controllers"), "", err)
		}
		l.V2Controllers = strings.Fields(string(s))
	}
	switch {
	case l.Unified != nil && len(l.V1) > 0:
		l.Mode = ModeHybrid
	case l.Unified != nil:
		l.Mode = ModeV2
	case len(l.V1) > 0:
		l.Mode = ModeV1
	default:
		l.Mode = ModeNone
	}
	return l, nil
}

// v1Controller tells controllers from the other options of a v1 mount.
func v1Controller(opt string) bool {
	switch opt {
	case "memory", "pids", "cpu", "cpuacct":
		return true
	}
	return false
}

// verify compares a mount point with what mountinfo says is there: a later
// mount on it or on a directory above hides it, yet both lines stay.
func (m Mount) verify() error {
	var st unix.Stat_t
	if err := unix.Lstat(m.Point, &st); err != nil {
		return err
	}
	if d := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)); d != m.Dev {
		return fmt.Errorf("%s is device %s, not %s", m.Point, d, m.Dev)
	}
	var sf unix.Statfs_t
	if err := unix.Statfs(m.Point, &sf); err != nil {
		return err
	}
	if v2, ok := cgroupMagic(sf); !ok || v2 != m.V2 {
		return fmt.Errorf("%s is no cgroup file system", m.Point)
	}
	return nil
}

func cgroupMagic(sf unix.Statfs_t) (v2, ok bool) {
	switch int64(sf.Type) {
	case unix.CGROUP2_SUPER_MAGIC:
		return true, true
	case unix.CGROUP_SUPER_MAGIC:
		return false, true
	}
	return false, false
}

// dirOf turns a path of /proc/PID/cgroup into a directory below the mount.
// Inside a container the mount may start at a cgroup below the root, and with a
// cgroup namespace either path may begin with "/..": such a cgroup is not
// visible here.
func (m Mount) dirOf(path string) (string, error) {
	hidden := fmt.Errorf("cgroup %s is not visible under %s, which shows %s", path, m.Point, m.Root)
	if strings.HasPrefix(path, "/..") || strings.HasPrefix(m.Root, "/..") {
		return "", hidden
	}
	rel := path
	if m.Root != "/" {
		var ok bool
		if rel, ok = strings.CutPrefix(path, m.Root); !ok || (rel != "" && rel[0] != '/') {
			return "", hidden
		}
	}
	return filepath.Join(m.Point, filepath.Clean("/"+rel)), nil
}

// choose says which interface holds all of need. Controllers split between v1
// and v2 are refused: no tree of ours could hold all limits of one command.
func (l *Layout) choose(need []string) (Kind, *Unavailable) {
	var v1, v2, none, v2only []string
	for _, c := range need {
		if slices.Contains(wanted, c) {
			v2only = append(v2only, c)
		}
		_, in1 := l.V1[c]
		switch {
		case in1:
			v1 = append(v1, c)
		case slices.Contains(l.V2Controllers, c):
			v2 = append(v2, c)
		default:
			none = append(none, c)
		}
	}
	switch {
	case l.Mode == ModeNone:
		return "", &Unavailable{
			Controller: list(need), File: "/proc/self/mountinfo", ID: "cgroup.mounted",
			Reason: "no cgroup file system is mounted here",
			Hint:   "mount one (`" + mountCommand + "/sys/fs/cgroup` as root) or, in a container, start that with its own cgroup namespace",
		}
	case len(v2only) > 0 && (len(none) == 0 && len(v1) > 0 || len(none) > 0 && len(l.V1) > 0 && slices.Contains(wanted, none[0])):
		return "", &Unavailable{
			Controller: list(v2only), ID: "cgroup.v2only." + v2only[0], File: "/proc/self/mountinfo",
			Reason: "used on cgroup v2 alone, and this host has v1", Hint: hintBoot,
		}
	case len(none) > 0:
		u := &Unavailable{
			Controller: list(none), ID: "cgroup.controller." + none[0],
			Reason: "no mounted hierarchy has it",
			Hint:   "enable it at boot (no cgroup_disable=, and cgroup_enable=memory on some boards) and mount it; in a container it must be given by the host",
			File:   "/proc/cgroups",
		}
		if l.Unified != nil {
			u.File = filepath.Join(l.Unified.Point, "cgroup.controllers")
		}
		return "", u
	case len(v1) > 0 && len(v2) > 0:
		return "", &Unavailable{
			Controller: list(v1), File: l.V1[v1[0]].Point, ID: "cgroup.split",
			Reason: "mounted as cgroup v1 while v2 has " + list(v2), Hint: hintBoot,
		}
	case len(v1) > 0:
		return V1, nil
	}
	return V2, nil
}

func list(names []string) string { return strings.Join(names, ", ") }
