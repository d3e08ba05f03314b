// Package trust judges the way to a file: who could put another in its place.
package trust

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Rules say whom a way may rest on.
type Rules struct {
	Owners []int // uids that everything on it may belong to
	Links  bool  // follow symbolic links, if they are those uids' too
	Userns bool  // see unmapped
	Sticky bool  // pass through directories of those uids' that others may write to, as /tmp: nobody renames another's entry there

	lstat func(string) (os.FileInfo, error) // nil: os.Lstat
}

// A Breach is what is wrong with one step of a way.
type Breach struct {
	Path   string
	Reason string
	UID    int  // its owner
	Shared bool // others may write to it
	Group  bool // and those are its group alone
	Sticky bool
}

func (b *Breach) Error() string { return b.Path + ": " + b.Reason }

// maxLinks is what the kernel follows (path_resolution(7)).
const maxLinks = 40

// Path goes from the root directory to name, which it judges as well, and gives the
// first *Breach, or the error of what can't be looked at. The name must be absolute.
func (r Rules) Path(name string) error {
	links := 0
	at, rest := "/", strings.Split(path.Clean(name), "/")
	if err := r.step(at, "."); err != nil {
		return err
	}
	for len(rest) > 0 {
		next := rest[0]
		rest = rest[1:]
		switch next {
		case "", ".":
			continue
		case "..": // of a link: what lies above was judged
			at = path.Dir(at)
			continue
		}
		p := path.Join(at, next)
		if err := r.step(p, strings.Join(rest, "/")); err != nil {
			return err
		}
		to, err := os.Readlink(p)
		if err != nil { // no link
			at = p
			continue
		}
		if links++; links > maxLinks {
			return &os.PathError{Op: "open", Path: name, Err: unix.ELOOP}
		}
		if path.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return r.step(at, "") // a link may end in "..": passed on the way, and yet the end
}

// step judges p itself; rest is what follows it.
func (r Rules) step(p, rest string) error {
	lstat := r.lstat
	if lstat == nil {
		lstat = os.Lstat
	}
	i, err := lstat(p)
	if err != nil {
		return err
	}
	st, ok := i.Sys().(*syscall.Stat_t)
	if !ok {
		return &Breach{Path: p, Reason: "has no owner that can be told"}
	}
	uid, mode := int(st.Uid), st.Mode
	switch {
	case !slices.Contains(r.Owners, uid) && !(i.IsDir() && rest != "" && r.Userns && unmapped(uid)):
		return &Breach{Path: p, Reason: fmt.Sprintf("is owned by uid %d, neither root nor the caller", uid), UID: uid}
	case mode&unix.S_IFMT == unix.S_IFLNK:
		if !r.Links {
			return &Breach{Path: p, Reason: "is a symbolic link", UID: uid}
		}
	case mode&0o022 != 0 && !(r.Sticky && rest != "" && mode&unix.S_ISVTX != 0):
		b := &Breach{Path: p, UID: uid, Shared: true, Group: mode&0o002 == 0, Sticky: mode&unix.S_ISVTX != 0}
		b.Reason = fmt.Sprintf("is writable by others (mode %04o)", mode&0o7777)
		if b.Group {
			b.Reason = fmt.Sprintf("is writable by its group, gid %d (mode %04o)", st.Gid, mode&0o7777)
		}
		return b
	}
	return nil
}

// unmapped: in a user namespace whoever has no id in it shows as the overflow uid, the
// host's root too, whose / and /usr are on every way (user_namespaces(7)). They can't
// be told apart; where everything has an id, the overflow uid is nobody's.
func unmapped(uid int) bool {
	if uid != number("/proc/sys/kernel/overflowuid") {
		return false
	}
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return false
		}
		inside, _ := strconv.Atoi(f[0])
		n, _ := strconv.Atoi(f[2])
		if uid >= inside && uid-inside < n {
			return false
		}
	}
	return true
}

func number(file string) int {
	b, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}

// Quote is s for a POSIX shell, bare where nothing in it means anything to one.
func Quote(s string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/._-+,:@%", c)
	}
	if s != "" && !strings.ContainsFunc(s, func(c rune) bool { return !plain(c) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
