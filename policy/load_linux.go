package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Path is where the host's own policy is.
const Path = "/etc/jailer/policy.toml"

// Load finds the policy that decides and reads it: the file at path, else Path,
// else, only if there is nothing at Path at all, the built-in one. A policy at
// Path that can't be read or is invalid is an error, whatever path says, since
// it may be locked: then only files owned by root are accepted.
//
// The error is a *jailer.Error with the code invalid_policy.
func Load(path string) (*Policy, error) {
	return loader{etc: Path, euid: uint32(os.Geteuid())}.load(path)
}

// LoadFile reads the policy at path as Load would, without asking whether the
// host's own policy lets it count.
func LoadFile(path string) (*Policy, error) {
	p, _, err := loader{euid: uint32(os.Geteuid())}.read(path)
	return p, err
}

type loader struct {
	etc  string
	euid uint32
	who  string // euid in messages; "" for the caller
}

func (l loader) load(path string) (*Policy, error) {
	host, err := l.host()
	if err != nil {
		return nil, err
	}
	switch {
	case path == "" && host == nil:
		return Builtin(), nil
	case path == "":
		return host, nil
	}
	p, owner, err := l.read(path)
	if err != nil {
		return nil, err
	}
	if host != nil && host.Locked && owner != 0 {
		e := bad(path, "", fmt.Sprintf("is owned by uid %d, and %s is locked: only policies owned by root are accepted", owner, l.etc))
		e.Hint = "ask the administrator of this host"
		return nil, e
	}
	return p, nil
}

// host reads the host's own policy, nil if there is none. A dangling link is
// something that exists and can't be read.
func (l loader) host() (*Policy, error) {
	if _, err := os.Lstat(l.etc); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	p, _, err := l.read(l.etc)
	return p, err
}

// read opens path once and judges what was opened, not what the path may name
// a moment later. It returns the file's owner as well.
func (l loader) read(path string) (*Policy, uint32, error) {
	data, owner, err := l.bytes(path)
	if err != nil {
		return nil, 0, err
	}
	p, err := Parse(path, data)
	if err == nil {
		p.owner = owner
	}
	return p, owner, err
}

// ReadFile reads a file of at most most bytes that the policy names, and that is
// as much a part of it as if it were written in it. So it must be a regular file,
// owned by root or by the owner of the policy's own file, and nobody else may
// write to it or to its directory: a policy of root's can't be changed by way of
// a file of somebody's. The error is a *jailer.Error with the code
// invalid_policy.
func (p *Policy) ReadFile(path string, most int) ([]byte, error) {
	data, _, err := loader{euid: p.owner, who: "the policy's owner"}.bytesUpTo(path, most)
	return data, err
}

func (l loader) bytes(path string) ([]byte, uint32, error) { return l.bytesUpTo(path, maxBytes) }

func (l loader) bytesUpTo(path string, most int) ([]byte, uint32, error) {
	// Without O_NONBLOCK the open of a FIFO waits for a writer, for ever. The
	// last component may be a link, which configuration management likes;
	// what it leads to is judged.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		e := bad(path, "", "can't be opened")
		e.Err = err
		return nil, 0, e
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		e := bad(path, "", "can't be judged")
		e.Err = err
		return nil, 0, e
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0, bad(path, "", "is not a regular file")
	}
	if err := l.checkOwner(path, path, &st); err != nil {
		return nil, 0, err
	}
	if err := l.checkParents(path); err != nil {
		return nil, 0, err
	}
	if st.Size > int64(most) {
		return nil, 0, bad(path, "", fmt.Sprintf("has %d bytes, more than the %d allowed", st.Size, most))
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1)) // it may grow while it is read
	if err != nil {
		e := bad(path, "", "can't be read")
		e.Err = err
		return nil, 0, e
	}
	return data, st.Uid, nil
}

// checkOwner wants root or the caller as the owner, and nobody else able to
// write. Where there is an ACL, the group bits of the mode are its mask
// (acl(5)), so that an entry that lets somebody write shows as g+w.
func (l loader) checkOwner(policy, path string, st *unix.Stat_t) error {
	if st.Uid != 0 && st.Uid != l.euid {
		who := cmp.Or(l.who, "the caller")
		e := bad(policy, "", fmt.Sprintf("%s is owned by uid %d, neither root nor %s (uid %d)", path, st.Uid, who, l.euid))
		e.Hint = fmt.Sprintf("chown root %s", path)
		return e
	}
	if st.Mode&0o022 != 0 && (st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&unix.S_ISVTX == 0) {
		what := fmt.Sprintf("%s is writable by others (mode %04o)", path, st.Mode&0o7777)
		if path == policy {
			what = strings.TrimPrefix(what, path+" ")
		}
		e := bad(policy, "", what)
		e.Hint = fmt.Sprintf("chmod go-w %s", path)
		return e
	}
	return nil
}

// checkParents looks at the directory of the name and at the directory of what
// it leads to. Who may write there can put another file of the caller's in the
// policy's place, by a rename; the sticky bit prevents that.
func (l loader) checkParents(path string) error {
	fail := func(err error) error {
		e := bad(path, "", "its directory can't be judged")
		e.Err = err
		return e
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fail(err)
	}
	target, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return fail(err)
	}
	dirs := []string{filepath.Dir(abs)}
	if d := filepath.Dir(target); d != dirs[0] {
		dirs = append(dirs, d)
	}
	for _, dir := range dirs {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return fail(err)
		}
		if err := l.checkOwner(path, dir, &st); err != nil {
			return err
		}
	}
	return nil
}
