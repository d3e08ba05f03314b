package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// rootfs judges the directory of the profile's root, and the way to where it is
// put together. libcontainer opens what it binds with the launcher's rights, so
// the way to the root itself may be closed to the jail's uid; but it remounts the
// skeleton, below the state directory, with the jail's, which are nobody's as root.
func (h *Host) rootfs(w Want, uid, gid int) []Finding {
	state, _ := h.statePath(w)
	search := Finding{ID: "rootfs.search", Needed: true, State: Yes, Where: state, Reason: "the jail's uid may search the way to the state directory"}
	for at := path.Dir(state); ; at = path.Dir(at) {
		i, err := h.stat(at)
		if err != nil && !absent(err) {
			search.State, search.Where, search.Reason = Unknown, at, "can't be looked at: "+cause(err)
			search.Hint = "name another with --state-dir"
		} else if err == nil && !h.searchable(i, uid, gid) {
			search.State, search.Where = No, at
			search.Reason = fmt.Sprintf("uid %d, as which the jail starts, may not search it (mode %04o)", uid, i.Mode().Perm())
			search.Hint = "chmod o+x " + at + ", or name another state directory with --state-dir"
		}
		if at == "/" || at == "." {
			break
		}
	}
	if w.RootPath == "" {
		return []Finding{h.hostView(), h.executable(w), h.source(w), search}
	}
	if w.IDRange {
		uid, gid = -1, -1 // the job's own id: neither owner nor group of anything
	}
	there, entries := h.directory(w, uid, gid)
	return []Finding{there, entries, h.executable(w), h.source(w), search}
}

func (h *Host) hostView() Finding {
	f := Finding{ID: "rootfs", Needed: true, State: Yes, Where: "/usr"}
	f.Reason = "a read-only view of this host's /usr; it shares the page cache, so it is for one trust domain"
	if i, err := h.stat("/usr"); err != nil || !i.IsDir() {
		f.State, f.Reason, f.Hint = No, "this host has no /usr that can be shown", `name a [rootfs.NAME] path in the policy`
	}
	return f
}

// shown is the directory whose files a jail of the profile sees.
func shown(w Want) string {
	if w.RootPath == "" {
		return "/usr"
	}
	return path.Clean(w.RootPath)
}

// executable warns of a root on a noexec mount, which its bind mounts in the jail
// inherit: no program of it starts. nosuid is no loss, since a jail has it anyway.
func (h *Host) executable(w Want) Finding {
	f := Finding{ID: "rootfs.exec", State: Yes, Where: shown(w), Reason: "is not mounted noexec"}
	switch no, err := h.NoExec(shown(w)); {
	case err != nil:
		f.State, f.Reason, f.Hint = Unknown, "can't be asked for its mount: "+cause(err), "see rootfs"
	case no:
		f.State, f.Reason = No, "is mounted noexec: no program of it can be started"
		f.Hint = "mount -o remount,exec " + mountOf(shown(w))
	}
	return f
}

func noExec(dir string) (bool, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return st.Flags&unix.ST_NOEXEC != 0, err
}

// source reports where the files of a jail come from. jailer verifies no
// directory's content: it can only say whose it is, and who else may change it.
func (h *Host) source(w Want) Finding {
	f := Finding{ID: "rootfs.source", State: Yes, Where: shown(w), Reason: "this host's own packages"}
	if w.RootPath != "" {
		f.State, f.Reason = Unknown, "a directory: nothing says what it was made from"
		f.Hint = "make it from a source that you verify (mmdebstrap, or an image pulled by its digest), as root"
		at := append([]string{shown(w)}, h.entries(shown(w))...)
		if others := h.changeable(at); len(others) > 0 {
			f.State, f.Reason = No, "others than root and the caller can change "+short(others)
			f.Hint = "chown -R root: " + shown(w) + " && chmod -R go-w " + shown(w)
		}
	}
	var paths []string
	for _, r := range w.Roots {
		paths = append(paths, r.Name+" = "+r.Path)
	}
	if len(paths) > 0 {
		f.Reason += "; directories of the policy: " + short(paths)
	}
	return f
}

// entries are the directories at the top of a root.
func (h *Host) entries(dir string) []string {
	all, _ := fs.ReadDir(h.FS, rel(dir))
	var out []string
	for _, e := range all {
		if e.IsDir() && !slices.Contains(notShown, e.Name()) {
			out = append(out, path.Join(dir, e.Name()))
		}
	}
	return out
}

func (h *Host) changeable(dirs []string) []string {
	var out []string
	for _, d := range dirs {
		if i, err := h.stat(d); err == nil {
			uid, _ := h.Owner(i)
			if (uid != 0 && uid != h.UID) || i.Mode().Perm()&0o022 != 0 {
				out = append(out, d)
			}
		}
	}
	return out
}

// notShown are the entries of a root that a jail has its own of.
var notShown = []string{"proc", "dev", "sys", "tmp", "workspace", "home", "run", "root", "boot", "lost+found", "var"}

// maxEntries is how many top-level entries a root may have: each becomes a mount.
const maxEntries = 64

func (h *Host) directory(w Want, uid, gid int) (there, open Finding) {
	dir := path.Clean(w.RootPath)
	there = Finding{ID: "rootfs", Needed: true, State: Yes, Where: dir, Reason: fmt.Sprintf("root %q is a directory", w.Rootfs)}
	open = Finding{ID: "rootfs.entries", State: Yes, Where: dir, Reason: "the job may search what the root shows"}
	correct := "unpack a root file system there, or correct [rootfs." + w.Rootfs + "] path in the policy"
	entries, err := fs.ReadDir(h.FS, rel(dir))
	switch {
	case absent(err), errors.Is(err, unix.ENOTDIR):
		there.State, there.Reason, there.Hint = No, "is no directory", correct
	case err != nil:
		there.State, there.Reason, there.Hint = Unknown, "can't be read: "+cause(err), "let this user read and search "+dir
	case len(entries) == 0:
		there.State, there.Reason, there.Hint = No, "is empty", correct
	case len(entries) > maxEntries:
		there.State, there.Reason, there.Hint = No, fmt.Sprintf("has %d entries, more than %d", len(entries), maxEntries), correct
	}
	if there.State != Yes {
		open.State, open.Reason, open.Hint = Unknown, "the root can't be read", "see rootfs"
		return there, open
	}
	var closed []string
	for _, e := range entries {
		if i, err := e.Info(); err == nil && i.IsDir() && !slices.Contains(notShown, e.Name()) && !h.searchable(i, uid, gid) {
			closed = append(closed, path.Join(dir, e.Name()))
		}
	}
	if len(closed) > 0 {
		open.State, open.Reason = No, "the job may not search "+short(closed)
		open.Hint = "chmod o+rx " + strings.Join(closed, " ")
	}
	return there, open
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
	case i.Mode().Type() == fs.ModeSymlink:
		return "is a symbolic link"
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
