// Package apparmor knows jailer's two AppArmor profiles: their text, whether this
// kernel has them, how they are loaded, and under which label a process runs.
//
// What can't be told counts as no. libcontainer starts a process without its
// profile, and without a word, on more than one way (a spec's profile is dropped by
// its converter), so what was asked for is read back from the kernel.
package apparmor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// The profiles.
const (
	Default  = "jailer-default"  // PID 1's
	Job      = Default + "//job" // its child: stacked on Default it is the command's
	Launcher = "jailer"          // grants user namespaces to the program itself
)

// Labels as attr/current shows them.
const (
	PID1Label = Default + " (enforce)"
	JobLabel  = Default + "//&" + Job + " (enforce)"
)

const (
	modulesDir = "sys/module"
	switchFile = modulesDir + "/apparmor/parameters/enabled"
	loadedDir  = "sys/kernel/security/apparmor/policy/profiles"
)

// LoadHint is the command that makes Ready true on a host that has AppArmor.
const LoadHint = "as root, `jailer apparmor load` (with --install, for the next boots too)"

// MountHint makes the loaded profiles visible.
const MountHint = "mount -t securityfs securityfs /sys/kernel/security"

// A Reason is why no jail can run under Default.
type Reason struct {
	ID      string // of jailer doctor: "apparmor" or "apparmor.profile"
	Unknown bool   // it could not be told
	Where   string // what was looked at
	Text    string
	Hint    string
}

func (r *Reason) Error() string { return r.Text }

// Here is Ready on this host.
func Here() *Reason { return Ready(os.DirFS("/"), Allowed) }

// Ready tells whether PID 1 and the command can be started under Default, given the
// root directory: AppArmor is on, and both profiles are loaded, enforced and from
// this program's text. It returns nil if so. It needs no privilege: the kernel shows
// everybody which profiles there are in policy/profiles, unlike in the file
// "profiles", and answers everybody what they permit.
func Ready(root fs.FS, ask Ask) *Reason {
	on, err := Enabled(root)
	if err != nil || !on {
		r := &Reason{ID: "apparmor", Where: "/" + switchFile, Text: "this kernel has no AppArmor, or it is switched off", Hint: onHint}
		if err != nil {
			r.Unknown, r.Text = true, "can't be read: "+err.Error()
		}
		return r
	}
	for _, name := range []string{Default, Job} {
		mode, err := Mode(root, name)
		if err == nil && mode == "enforce" {
			if r := foreign(ask, name); r != nil {
				return r
			}
			continue
		}
		r := &Reason{ID: "apparmor.profile", Where: "/" + loadedDir, Hint: LoadHint}
		switch {
		case err != nil:
			r.Unknown, r.Text = true, "the loaded AppArmor profiles can't be read: "+err.Error()
			r.Hint = MountHint
		case mode == "":
			r.Text = fmt.Sprintf("the AppArmor profile %s is not loaded", name)
		default:
			r.Text = fmt.Sprintf("the AppArmor profile %s is loaded in mode %.16q, which holds nothing", name, mode)
		}
		return r
	}
	return nil
}

const onHint = "boot a kernel with CONFIG_SECURITY_APPARMOR=y and lsm=…,apparmor (Debian's and Ubuntu's have it on)"

// Enabled tells whether AppArmor is on; an error says that it can't be told.
func Enabled(root fs.FS) (bool, error) {
	b, err := fs.ReadFile(root, switchFile)
	if errors.Is(err, fs.ErrNotExist) {
		// Inside a container or a jail there may be no sysfs to tell.
		if _, err := fs.Stat(root, modulesDir); err != nil {
			return false, err
		}
		return false, nil
	}
	return err == nil && strings.TrimSpace(string(b)) == "Y", err
}

// Mode is the mode in which a profile is loaded ("enforce", "unconfined", …), "" if
// it isn't.
func Mode(root fs.FS, name string) (string, error) {
	dir, err := find(root, name)
	if dir == "" || err != nil {
		return "", err
	}
	b, err := fs.ReadFile(root, dir+"/mode")
	return strings.TrimSpace(string(b)), err
}

// find gives the directory of a loaded profile, "" if it isn't loaded. A directory
// has a number beside its profile's name, and that of a child lies in its parent's.
func find(root fs.FS, name string) (string, error) {
	dir := loadedDir
	for i, part := range strings.Split(name, "//") {
		if i > 0 {
			dir += "/profiles"
		}
		entries, err := fs.ReadDir(root, dir)
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			return "", nil // no children
		}
		if err != nil {
			return "", err
		}
		found := false
		for _, e := range entries {
			b, err := fs.ReadFile(root, dir+"/"+e.Name()+"/name")
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed meanwhile
			}
			if err != nil {
				return "", err
			}
			if found = strings.TrimSuffix(string(b), "\n") == part; found {
				dir += "/" + e.Name()
				break
			}
		}
		if !found {
			return "", nil
		}
	}
	return dir, nil
}

// Label is the label of a process with its mode, as attr/current shows it.
func Label(pid int) (string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/attr/apparmor/current")
	return strings.TrimSuffix(string(b), "\n"), err
}
