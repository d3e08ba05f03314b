package host

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const mountinfo = "/proc/self/mountinfo"

// freshProc judges whether a new procfs may be mounted in a new user namespace.
// The kernel refuses it unless the caller already sees one whole
// (mount_too_revealing in fs/namespace.c): a container runtime that covers
// /proc/kcore and others would be undone by it.
func (h *Host) freshProc(t Trial) Finding {
	f := Finding{ID: "proc.fresh", Needed: true, State: Yes, Where: mountinfo, Reason: "/proc is not masked"}
	text, err := h.read(mountinfo)
	if err != nil {
		f.State, f.Reason = Unknown, "can't be read: "+cause(err)
	} else if covers := masks(text); covers != nil {
		f.State, f.Reason = No, "this /proc is masked, as containers do: "+short(covers)
		f.Hint = hintProc
	}
	switch {
	case t.OK():
		f.State, f.Hint = Yes, ""
		f.Where, f.Reason = "mount(2) in a child", "a fresh /proc was mounted in new namespaces"
	case t.Step == stepProc:
		f.State, f.Hint = No, hintProc
		if !strings.HasPrefix(f.Reason, "this /proc") {
			f.Where, f.Reason = "mount(2) in a child", t.Error()
		}
		if !errors.Is(t.Err, unix.EPERM) {
			f.Where, f.Reason = "mount(2) in a child", t.Error()
		}
	}
	return f
}

const hintProc = "inside a container, start the outer one with an unmasked /proc " +
	"(docker run --security-opt systempaths=unconfined; podman run --security-opt unmask=ALL)"

// masks returns what covers parts of /proc, nil if one procfs is seen whole.
func masks(text string) []string {
	type line struct{ id, parent, root, point, opts, kind string }
	var all []line
	for s := range strings.Lines(text) {
		left, right, ok := strings.Cut(s, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 1 {
			continue
		}
		all = append(all, line{l[0], l[1], l[3], l[4], l[5], r[0]})
	}
	none := []string{"no whole procfs is mounted"}
	found := none
	for _, p := range all {
		if p.kind != "proc" || p.root != "/" {
			continue
		}
		var covers []string
		if slices.Contains(strings.Split(p.opts, ","), "ro") {
			covers = append(covers, p.point+" is read-only")
		}
		for _, m := range all {
			// A mount on a directory that is always empty hides nothing.
			if m.parent == p.id && m.point != p.point+"/sys/fs/binfmt_misc" {
				covers = append(covers, m.point)
			}
		}
		if len(covers) == 0 {
			return nil
		}
		if p.point == "/proc" || found[0] == none[0] {
			found = covers
		}
	}
	return found
}

func short(s []string) string {
	if len(s) > 4 {
		return strings.Join(s[:4], ", ") + ", …"
	}
	return strings.Join(s, ", ")
}
