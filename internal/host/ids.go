package host

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// RangeSize is how many subordinate ids a jail with ids = "range" has.
const RangeSize = 65535

// ids are the host ids of jails: a range of their own for real root, the
// caller's own one for users, and subordinate ids where the policy wants them.
func (h *Host) ids(w Want) []Finding {
	if h.UID != 0 {
		return []Finding{h.subordinate(w), h.newuidmap(w)}
	}
	const unused = "root takes its ids from root.uid_range instead"
	out := []Finding{
		{ID: "ids.subuid", State: Yes, Where: "the caller", Reason: unused},
		{ID: "ids.newuidmap", State: Yes, Where: "the caller", Reason: unused},
	}
	if w.IDRange {
		out = append(out, Finding{
			ID: "ids.range.root", Needed: true, State: No, Where: "the policy",
			Reason: `ids = "range" works for unprivileged users only`,
			Hint:   `set ids = "single": root gives each jail a host uid of its own anyway`,
		})
	}
	return append(out, h.uidRange(w))
}

func (h *Host) subordinate(w Want) Finding {
	f := Finding{ID: "ids.subuid", State: Yes, Needed: w.IDRange, Where: "/etc/subuid, /etc/subgid"}
	id := strconv.Itoa(h.UID)
	name := h.userName()
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		text, err := h.read(file)
		switch {
		case err != nil && !absent(err):
			f.State, f.Where, f.Reason = Unknown, file, "can't be read: "+cause(err)
		case !has(text, name, id):
			f.State, f.Where = No, file
			f.Reason = fmt.Sprintf("no range of at least %d ids for %s", RangeSize, name)
		default:
			continue
		}
		f.Hint = fmt.Sprintf(`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s, or set ids = "single"`, name)
		f.Reason += onlyForRange(f)
		return f
	}
	f.Reason = name + " has ranges"
	return f
}

func onlyForRange(f Finding) string {
	if f.Needed {
		return ""
	}
	return `; only ids = "range" needs it`
}

// userName is the caller's, or the number where /etc/passwd has none.
func (h *Host) userName() string {
	if name := h.account(0); name != "" {
		return name
	}
	return strconv.Itoa(h.UID)
}

// home is the caller's home directory in /etc/passwd, or "".
func (h *Host) home() string { return h.account(5) }

// account is a field of the caller's line in /etc/passwd (passwd(5)), or "".
func (h *Host) account(field int) string {
	text, _ := h.read("/etc/passwd")
	for l := range strings.Lines(text) {
		if p := strings.Split(l, ":"); len(p) > max(field, 2) && p[2] == strconv.Itoa(h.UID) {
			return p[field]
		}
	}
	return ""
}

// SubordinateRange finds the first range of the user, given by name or number,
// in the text of /etc/subuid or /etc/subgid (subuid(5)) that is large enough.
func SubordinateRange(text, name, id string) (first uint32, ok bool) {
	for l := range strings.Lines(text) {
		p := strings.Split(strings.TrimSpace(l), ":")
		if len(p) != 3 || (p[0] != name && p[0] != id) {
			continue
		}
		start, err1 := strconv.ParseUint(p[1], 10, 32)
		n, err2 := strconv.ParseUint(p[2], 10, 32)
		if err1 == nil && err2 == nil && start > 0 && n >= RangeSize {
			return uint32(start), true
		}
	}
	return 0, false
}

func has(text, name, id string) bool {
	_, ok := SubordinateRange(text, name, id)
	return ok
}

// Helpers judges newuidmap and newgidmap for a run that needs them.
func (h *Host) Helpers() Finding { return h.newuidmap(Want{IDRange: true}) }

// newuidmap looks where the launcher does and nowhere else. Debian's are
// setuid root, Fedora's have file capabilities.
func (h *Host) newuidmap(w Want) Finding {
	f := Finding{ID: "ids.newuidmap", State: Yes, Needed: w.IDRange, Where: "/usr/bin", Reason: "newuidmap and newgidmap may map ids"}
	for _, helper := range []string{"newuidmap", "newgidmap"} {
		file := "/usr/bin/" + helper
		i, err := h.stat(file)
		switch {
		case absent(err):
			f.State, f.Where, f.Reason = No, file, helper+" is not installed"
			f.Hint = `apt-get install uidmap, or set ids = "single"`
		case err != nil:
			f.State, f.Where, f.Reason = Unknown, file, "can't be judged: "+cause(err)
		default:
			uid, _ := h.Owner(i)
			if (i.Mode()&fs.ModeSetuid != 0 && uid == 0) || h.FileCaps(file) {
				continue
			}
			f.State, f.Where, f.Reason = No, file, helper+" is neither setuid root nor has it capabilities"
			f.Hint = fmt.Sprintf(`apt-get install --reinstall uidmap, or chown root %s && chmod u+s %[1]s, or set ids = "single"`, file)
		}
		f.Reason += onlyForRange(f)
		return f
	}
	return f
}

// uidRange holds the host ids of root's jails against the host's own.
func (h *Host) uidRange(w Want) Finding {
	f := Finding{ID: "root.uid_range", Needed: true, State: Yes, Where: "/etc/passwd, /etc/subuid"}
	if w.UIDRange == [2]uint32{} {
		f.State, f.Where, f.Reason = No, "the policy", "the policy has no root.uid_range"
		f.Hint = `add [root] uid_range = "1900000000-1900065535" to the policy`
		return f
	}
	passwd, err1 := fs.ReadFile(h.FS, "etc/passwd")
	subuid, err2 := fs.ReadFile(h.FS, "etc/subuid")
	for _, err := range []error{err1, err2} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.State, f.Reason = Unknown, "can't be read: "+err.Error()
			return f
		}
	}
	if reason, hint := w.CheckUIDRange(passwd, subuid); reason != "" {
		f.State, f.Reason, f.Hint = No, reason, hint
		return f
	}
	if m, hint := h.Unmapped(w.UIDRange[0], w.UIDRange[1]); m != "" {
		f.State, f.Where, f.Hint = No, m, hint
		f.Reason = fmt.Sprintf("jailer runs in a user namespace that has no ids %d-%d", w.UIDRange[0], w.UIDRange[1])
		return f
	}
	f.Reason = fmt.Sprintf("nobody on this host has ids of %d-%d", w.UIDRange[0], w.UIDRange[1])
	return f
}

// Unmapped gives the map, of the caller's user namespace, that lacks ids of
// [lo, hi], and what mends it; "" is none. Root of a rootless container has a
// few ids alone, and can't give a jail any other. A map that can't be read is
// left to the kernel to judge.
func (h *Host) Unmapped(lo, hi uint32) (file, hint string) {
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		text, err := h.read(file)
		if err == nil && !mapped(text, uint64(lo), uint64(hi)) {
			return file, "set root.uid_range in the policy to ids that " + file + " has and nobody uses, or start the outer container with more ids"
		}
	}
	return "", ""
}

// mapped tells whether one line of a map (user_namespaces(7)) covers the ids.
func mapped(text string, lo, hi uint64) bool {
	for l := range strings.Lines(text) {
		p := strings.Fields(l)
		if len(p) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(p[0], 10, 32)
		n, err2 := strconv.ParseUint(p[2], 10, 64)
		if err1 == nil && err2 == nil && lo >= first && hi < first+n {
			return true
		}
	}
	return false
}
