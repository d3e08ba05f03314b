package host

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// rootfs judges the directory of the profile's root: that it is there, and that
// the jail's uid, which is nobody's as root, may search the way to it.
func (h *Host) rootfs(w Want, uid, gid int) []Finding {
	there := Finding{ID: "rootfs", Needed: true, State: Yes, Where: "/usr", Reason: "a read-only view of this host's /usr; it shares the page cache, so it is for one trust domain"}
	search := Finding{ID: "rootfs.search", Needed: true, State: Yes, Where: "/usr", Reason: "the jail's uid may search it"}
	dir := "/usr"
	if w.RootPath != "" {
		dir = path.Clean(w.RootPath)
		there.Where, search.Where = dir, dir
		there.Reason = fmt.Sprintf("root %q is a directory", w.Rootfs)
	}
	i, err := h.stat(dir)
	switch {
	case absent(err):
		there.State, there.Reason, there.Hint = No, "is not there", "unpack a root file system there, or correct [rootfs."+w.Rootfs+"] path in the policy"
	case err != nil:
		there.State, there.Reason, there.Hint = Unknown, "can't be looked at: "+cause(err), "chmod o+x the directories above "+dir
	case !i.IsDir():
		there.State, there.Reason, there.Hint = No, "is not a directory", "correct [rootfs."+w.Rootfs+"] path in the policy"
	}
	parts := strings.Split(strings.TrimPrefix(dir, "/"), "/")
	for n := range len(parts) + 1 {
		at := "/" + strings.Join(parts[:n], "/")
		i, err := h.stat(at)
		if err != nil {
			search.State, search.Where, search.Reason = Unknown, at, "can't be looked at: "+cause(err)
			search.Hint = "mend rootfs"
			break
		}
		if !h.searchable(i, uid, gid) {
			search.State, search.Where = No, at
			search.Reason = fmt.Sprintf("uid %d, as which the jail runs, may not search it (mode %04o)", uid, i.Mode().Perm())
			search.Hint = "chmod o+x " + at
			break
		}
	}
	return []Finding{there, search}
}

func (h *Host) searchable(i fs.FileInfo, uid, gid int) bool {
	u, g := h.Owner(i)
	switch m := i.Mode().Perm(); {
	case u == uid:
		return m&0o100 != 0
	case g == gid:
		return m&0o010 != 0
	default:
		return m&0o001 != 0
	}
}

// statePath is where the state of live jails is kept, by the launcher's own
// rule, and whether that is the fallback.
func (h *Host) statePath(w Want) (dir string, fallback bool) {
	own := func(dir string) bool { return h.mine(dir) == "" }
	run := "/run/user/" + strconv.Itoa(h.UID)
	switch {
	case w.StateDir != "":
		return path.Clean(w.StateDir), false
	case h.UID == 0:
		return "/run/jailer", false
	case w.RuntimeDir != "" && own(w.RuntimeDir):
		return path.Join(w.RuntimeDir, "jailer"), false
	case own(run):
		return run + "/jailer", false
	}
	return "/tmp/jailer-" + strconv.Itoa(h.UID), true
}

// mine says what is wrong with dir as a directory of the caller's alone; "" is
// nothing. The link itself is judged, not what it leads to.
func (h *Host) mine(dir string) string {
	i, err := h.lstat(dir)
	if err != nil {
		return cause(err)
	}
	uid, _ := h.Owner(i)
	switch {
	case !i.IsDir():
		return "is not a directory"
	case uid != h.UID:
		return fmt.Sprintf("is owned by uid %d, not by uid %d", uid, h.UID)
	case i.Mode().Perm()&0o022 != 0:
		return fmt.Sprintf("is writable by others (mode %04o)", i.Mode().Perm())
	}
	return ""
}

// stateDir says whether the state directory is there and safe, or can be made.
func (h *Host) stateDir(w Want) Finding {
	dir, fallback := h.statePath(w)
	f := Finding{ID: "state.dir", Needed: true, State: Yes, Where: dir, Reason: "it is the caller's alone"}
	if !path.IsAbs(dir) {
		f.State, f.Reason, f.Hint = No, "must be an absolute path", "name one with --state-dir"
		return f
	}
	_, err := h.lstat(dir)
	switch {
	case err == nil:
		if wrong := h.mine(dir); wrong != "" {
			f.State, f.Reason, f.Hint = No, wrong, "remove it, or name another with --state-dir"
			return f
		}
	case absent(err):
		parent := path.Dir(dir)
		if err := h.Writable(parent); err != nil {
			f.State, f.Where = No, parent
			f.Reason, f.Hint = dir+" can't be made: "+cause(err), "name a directory that this user owns with --state-dir"
			return f
		}
		f.Reason = "it can be made"
	default:
		f.State, f.Reason, f.Hint = Unknown, "can't be looked at: "+cause(err), "name a directory that this user owns with --state-dir"
		return f
	}
	if fallback {
		f.Reason += "; a fallback, as there is no XDG_RUNTIME_DIR that this user owns"
		f.Hint = "log in through systemd-logind, or `loginctl enable-linger`, for a directory that no other user sees"
	}
	return f
}
