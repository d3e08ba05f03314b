package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/trust"
)

// minRoom is how much must be free where images are to be kept, in bytes.
const minRoom = 1 << 30

// dataPath is where a caller keeps what outlives a session: for root
// /var/lib/jailer, for a user the data directory, of which a relative name counts as
// none (XDG Base Directory Specification 0.8). It is "" where there is no home either.
func (h *Host) dataPath(w Want) string {
	switch {
	case h.UID == 0:
		return "/var/lib/jailer"
	case path.IsAbs(w.DataHome):
		return path.Join(w.DataHome, "jailer")
	}
	for _, home := range []string{w.Home, h.home()} {
		if path.IsAbs(home) {
			return path.Join(home, ".local/share/jailer")
		}
	}
	return ""
}

// dataDir is a report on the directory that dataPath names.
func (h *Host) dataDir(w Want) Finding {
	f := Finding{ID: "data.dir", Where: h.dataPath(w)}
	if f.Where == "" {
		f.State, f.Where, f.Reason = Unknown, "/etc/passwd", "no XDG_DATA_HOME, no HOME, and no home directory of this user"
		f.Hint = "export XDG_DATA_HOME=DIRECTORY, with an absolute path"
	} else {
		f.State, f.Reason, f.Hint = h.judgeData(f.Where)
	}
	f.Reason += "; persistent workspaces are kept there"
	return f
}

// judgeData says the first thing that is wrong with a data directory, or with the
// nearest directory above one that isn't there.
func (h *Host) judgeData(dir string) (state State, reason, hint string) {
	at, err := h.nearest(dir)
	there := at == dir && err == nil
	switch i, serr := h.stat(at); {
	case errors.Is(err, unix.EACCES):
		return No, "this user may not search " + at, h.orElse("chmod " + h.who(at) + "+x " + trust.Quote(at))
	case err != nil:
		return Unknown, at + " can't be looked at: " + cause(err), h.orElse("stat " + trust.Quote(at))
	case there && h.mine(dir) != "":
		return No, h.mine(dir), h.mendOwn(dir)
	case absent(serr):
		return No, at + " is a link to nothing", h.orElse(`mkdir -p "$(readlink -m ` + trust.Quote(at) + `)"`)
	case serr != nil:
		return Unknown, at + " can't be looked at: " + cause(serr), h.orElse("stat -L " + trust.Quote(at))
	case !i.IsDir():
		return No, at + " is not a directory", h.orElse(aside(at))
	}
	v, err := h.Volume(at)
	switch {
	case err != nil:
		return Unknown, "its file system can't be asked: " + cause(err), "stat -f " + trust.Quote(at)
	case v.ReadOnly:
		return No, "lies on a file system that is mounted read-only", "mount -o remount,rw " + mountOf(at)
	}
	if err := h.Writable(at); err != nil {
		if h.who(at) == "u" {
			return No, "this user may not write to " + at + ": " + cause(err), "chmod u+wx " + trust.Quote(at)
		}
		return No, "can't be made in " + at + ": " + cause(err), h.orElse(h.install(dir))
	}
	if err := h.Way(at); err != nil {
		state, hint := h.mendWay(err, dir)
		return state, "the way there: " + err.Error(), hint
	}
	room := fmt.Sprintf("%d MiB free", v.Free>>20)
	switch {
	case v.Memory:
		return No, "lies in memory (tmpfs): nothing there outlasts a boot", h.onDisk(dir)
	case v.Overlay:
		return Unknown, "lies on an overlay, which may go with its container or live system; " + room, h.onDisk(dir)
	case v.Free < minRoom:
		return No, fmt.Sprintf("%s, less than %d", room, minRoom>>20), "remove something large: du -xd3 " + mountOf(at) + " | sort -n | tail"
	case there:
		return Yes, "it is the caller's alone; " + room, ""
	}
	return Yes, "it can be made; " + room, ""
}

// nearest is dir, or the nearest above it that is there. The error is what kept
// those below it from being looked at, where that is not their absence.
func (h *Host) nearest(dir string) (at string, err error) {
	for at := dir; ; at = path.Dir(at) {
		_, e := h.lstat(at)
		switch {
		case e == nil:
			return at, err
		case at == "/":
			return at, e
		case !absent(e) && !errors.Is(e, unix.ENOTDIR):
			err = e
		}
	}
}

// who is whom chmod(1) gives a right that the caller lacks: the owner, or, as the
// caller's groups may be kept out where others aren't, all.
func (h *Host) who(at string) string {
	if i, err := h.stat(at); err == nil {
		if uid, _ := h.Owner(i); uid == h.UID {
			return "u"
		}
	}
	return "a"
}

// mendOwn mends a data directory that isn't the caller's alone. One that was
// another's, or leads to another place, may hold what a stranger put there.
func (h *Host) mendOwn(dir string) string {
	if i, err := h.lstat(dir); err == nil && i.Mode().Type() == fs.ModeDir && h.who(dir) == "u" {
		return "chmod go-w " + trust.Quote(dir)
	}
	return aside(dir) + " && " + h.install(dir)
}

// mendWay mends what trust.Rules said of the way to a data directory.
func (h *Host) mendWay(err error, dir string) (state State, hint string) {
	b, ok := errors.AsType[*trust.Breach](err)
	switch {
	case !ok:
		return Unknown, h.orElse("namei -l " + trust.Quote(dir))
	case b.Sticky: // as /tmp, where another may be the first to make it
		return No, h.install(dir)
	case b.Group:
		return No, h.orElse("chmod g-w " + trust.Quote(b.Path))
	case b.Shared:
		return No, h.orElse("chmod go-w " + trust.Quote(b.Path))
	}
	return No, h.orElse("chown -h root " + trust.Quote(b.Path))
}

// install makes a directory for the caller, also where root has to.
func (h *Host) install(dir string) string {
	return fmt.Sprintf("install -d -m 0700 -o %d -g %d %s", h.UID, h.GID, trust.Quote(dir))
}

func aside(name string) string {
	return "mv -T " + trust.Quote(name) + " " + trust.Quote(name+".old")
}

// orElse adds what a user can do who isn't root.
func (h *Host) orElse(hint string) string {
	if h.UID == 0 {
		return hint
	}
	return hint + ", or export XDG_DATA_HOME=DIRECTORY with one of this user's own"
}

func (h *Host) onDisk(dir string) string {
	if h.UID == 0 {
		return "mkdir -p " + dir + " && mount --bind DIRECTORY " + dir + ", with one on a disk that `findmnt --real` shows"
	}
	return "export XDG_DATA_HOME=DIRECTORY, with one on a disk that `findmnt --real` shows"
}

// mountOf is the mount point of a directory, for a shell: of several mounts one upon the
// other, findmnt(8) lists each, and mount(8) takes the topmost.
func mountOf(dir string) string {
	return `"$(findmnt -f -n -o TARGET --target ` + trust.Quote(dir) + `)"`
}
