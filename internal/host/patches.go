package host

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// stale is how old a kernel may be: within it every distribution mends bugs
// that matter here.
const stale = 180 * 24 * time.Hour

// patches reports the patch level: the distribution, when the running kernel was
// built, and whether an update waits for a reboot. It asks no package manager,
// and no network.
func (h *Host) patches() Finding {
	f := Finding{ID: "kernel.patches", State: Yes, Where: "uname(2)"}
	system := h.osRelease("PRETTY_NAME")
	if system == "" {
		system = "an unnamed distribution"
	}
	built, ok := buildDate(h.Version)
	f.Reason = fmt.Sprintf("%s with Linux %s", system, h.Release)
	switch days := int(h.Now().Sub(built).Hours() / 24); {
	case !ok:
		f.State, f.Hint = Unknown, h.upgrade()
		f.Reason += fmt.Sprintf(", which doesn't say when it was built (%q)", h.Version)
	case days > int(stale.Hours()/24):
		f.State, f.Hint = No, h.upgrade()
		f.Reason += fmt.Sprintf(", built on %s, %d days ago", built.Format(time.DateOnly), days)
	default:
		f.Reason += ", built on " + built.Format(time.DateOnly)
	}
	// update-notifier and unattended-upgrades of Debian and Ubuntu.
	for _, file := range []string{"/run/reboot-required", "/var/run/reboot-required"} {
		if _, err := h.stat(file); err == nil {
			f.State, f.Where, f.Hint = No, file, "reboot"
			f.Reason += "; an update waits for a reboot"
			break
		}
	}
	return f
}

var (
	isoDate = regexp.MustCompile(`\((\d{4}-\d\d-\d\d)\)`)
	unixDay = regexp.MustCompile(`(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\w{3}) +(\d+) [\d:]{8} (?:\S+ )?(\d{4})`)
)

// buildDate finds the date in a kernel's version: Debian's "(2024-02-01)", or
// that of date(1), as of the kernel's own Makefile.
func buildDate(text string) (time.Time, bool) {
	if m := isoDate.FindStringSubmatch(text); m != nil {
		t, err := time.Parse(time.DateOnly, m[1])
		return t, err == nil
	}
	if m := unixDay.FindStringSubmatch(text); m != nil {
		t, err := time.Parse("Jan 2 2006", strings.Join(m[1:], " "))
		return t, err == nil
	}
	return time.Time{}, false
}

// osRelease is a value of os-release(5).
func (h *Host) osRelease(key string) string {
	for _, file := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		text, err := h.read(file)
		if err != nil {
			continue
		}
		for l := range strings.Lines(text) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(l), key+"="); ok {
				return strings.Trim(v, `"'`)
			}
		}
		return ""
	}
	return ""
}

// upgrade is the distribution's own command.
func (h *Host) upgrade() string {
	switch like := " " + h.osRelease("ID") + " " + h.osRelease("ID_LIKE") + " "; {
	case strings.Contains(like, " debian "), strings.Contains(like, " ubuntu "):
		return "apt-get update && apt-get dist-upgrade && reboot"
	case strings.Contains(like, " fedora "), strings.Contains(like, " rhel "):
		return "dnf upgrade --refresh && reboot"
	}
	return "install the distribution's newest kernel, and boot it"
}
