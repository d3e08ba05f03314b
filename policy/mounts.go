package policy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// A Mount shows a directory or a file of the host in a jail.
type Mount struct {
	Source   string `json:"source"` // absolute and clean, on the host
	Target   string `json:"target"` // absolute and clean, in the jail; its first name is one that the root hasn't
	Writable bool   `json:"writable,omitempty"`
}

type mountTable struct {
	Source   *string `toml:"source"`
	Target   *string `toml:"target"`
	Writable bool    `toml:"writable"`
}

// maxMounts bounds those of one profile: each costs every start some 0.1 ms.
const maxMounts = 1024

// Nothing of these, and nothing that they are in, may be seen in a jail: the kernel's own
// file systems, and where services have their sockets and their state. Who reaches the
// socket of a container engine is root on its host.
var neverShown = []string{
	"/proc", "/sys", "/dev", "/run", "/var/run",
	"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet", "/var/lib/rancher",
	"/var/lib/lxc", "/var/lib/lxd", "/var/lib/incus", "/var/snap/lxd", "/var/lib/libvirt", "/var/lib/jailer",
}

// homes are directories that home directories are in, or that are one: what is below them
// may be shown, by name.
var homes = []string{"/home", "/root", "/var/home", "/Users"}

// CheckSource refuses a path of the host that no mount may show, by its name alone; "" is
// none of them.
func CheckSource(p string) string {
	if p == "/" {
		return "is the whole host"
	}
	for _, n := range neverShown {
		if p == n || within(p, n) {
			return "is of " + n + ", which no jail may see"
		}
		if within(n, p) {
			return "has " + n + " in it, which no jail may see"
		}
	}
	for _, h := range homes {
		switch {
		case p == h || within(h, p):
			return "has home directories in it"
		case within(p, h) && h != "/root" && path.Dir(p) == h:
			return "is a home directory"
		case within(p, h) && hidden(strings.TrimPrefix(p, h)):
			return "is hidden in a home directory, as keys are"
		}
	}
	return ""
}

func within(p, dir string) bool { return strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") }

func hidden(rest string) bool { return strings.Contains(rest, "/.") }

// mounts compiles a profile's list.
func mounts(list []mountTable) (out []Mount, index int, msg string) {
	if len(list) > maxMounts {
		return nil, maxMounts, fmt.Sprintf("%d mounts given, at most %d are possible", len(list), maxMounts)
	}
	for i, t := range list {
		if msg := checkPath(t.Source); msg != "" {
			return nil, i, "source: " + msg
		}
		if msg := CheckSource(*t.Source); msg != "" {
			return nil, i, fmt.Sprintf("source: %s %s", *t.Source, msg)
		}
		if msg := checkPath(t.Target); msg != "" {
			return nil, i, "target: " + msg
		}
		m := Mount{Source: *t.Source, Target: *t.Target, Writable: t.Writable}
		if m.Target == "/" {
			return nil, i, "target: is the root of the jail"
		}
		first, _, _ := strings.Cut(m.Target[1:], "/")
		if taken[first] {
			return nil, i, fmt.Sprintf("target: /%s is the jail's own; choose another first name, as /models", first)
		}
		out = append(out, m)
	}
	if i, msg := nested(out); msg != "" {
		return nil, i, msg
	}
	return out, 0, ""
}

// nested finds two targets that are one, or lie in one another: sorted, with a slash at
// their ends, such a pair stands side by side.
func nested(list []Mount) (index int, msg string) {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(strings.Compare(list[a].Target+"/", list[b].Target+"/"), a-b)
	})
	for n := 1; n < len(order); n++ {
		a, b := list[order[n-1]].Target, list[order[n]].Target
		if a == b || within(b, a) {
			return max(order[n-1], order[n]), fmt.Sprintf("target: %s and %s lie in one another", a, b)
		}
	}
	return 0, ""
}

// taken are first names that every root has, or that programs look for.
var taken = map[string]bool{
	"proc": true, "dev": true, "sys": true, "tmp": true, "workspace": true, "home": true, "run": true, "var": true, "root": true,
	"boot": true, "etc": true, "usr": true, "bin": true, "sbin": true, "lib": true, "lib32": true, "lib64": true, "libx32": true, "lost+found": true,
}
