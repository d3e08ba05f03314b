package host

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// version is a release of kernel.org: 6.12.36.
type version [3]int

func (v version) before(w version) bool {
	for i := range v {
		if v[i] != w[i] {
			return v[i] < w[i]
		}
	}
	return false
}

// A bug of the kernel that a jail's own walls don't keep out: what reaches it is
// a system call that jobs have, or the page cache that they share with the host.
type bug struct {
	cve, name string
	since     version
	fixed     []version // of each stable series; the last is the first series without the bug
}

// bugs are few on purpose: those of which an exploit is public. The versions are
// those of the CVE records (cvelistV5), and of CVE-2022-0847 and CVE-2023-3269 those
// that their finders published.
var bugs = []bug{
	{
		"CVE-2022-0847", "Dirty Pipe",
		version{5, 8},
		[]version{{5, 10, 102}, {5, 15, 25}, {5, 16, 11}, {5, 17}},
	},
	{
		"CVE-2023-3269", "StackRot",
		version{6, 1},
		[]version{{6, 1, 37}, {6, 3, 11}, {6, 4, 1}, {6, 5}},
	},
	{
		"CVE-2025-38236", "MSG_OOB on UNIX sockets",
		version{5, 15},
		[]version{{5, 15, 194}, {6, 1, 143}, {6, 6, 96}, {6, 12, 36}, {6, 15, 5}, {6, 16}},
	},
	{
		// The filter denies AF_ALG; another program of the host has it.
		"CVE-2026-31431", "Copy Fail",
		version{4, 14},
		[]version{{5, 10, 254}, {5, 15, 204}, {6, 1, 170}, {6, 6, 137}, {6, 12, 85}, {6, 18, 22}, {6, 19, 12}, {7, 0}},
	},
}

// in says whether kernel.org's v has the bug.
func (b bug) in(v version) bool {
	if v.before(b.since) {
		return false
	}
	for _, f := range b.fixed {
		if f[0] == v[0] && f[1] == v[1] {
			return v.before(f)
		}
	}
	return v.before(b.fixed[len(b.fixed)-1])
}

var (
	plain = regexp.MustCompile(`^\d+\.\d+(\.\d+)?$`)
	three = regexp.MustCompile(`(\d+)\.(\d+)(?:\.(\d+))?`)
	// Debian names its package in the version: "#1 SMP … Debian 6.1.76-1 (2024-02-01)".
	debian = regexp.MustCompile(`\bDebian (\d+\.\d+\.\d+)`)
)

const signature = "/proc/version_signature" // Ubuntu: "Ubuntu 6.8.0-45.45-generic 6.8.12"

// upstream is the release of kernel.org that this kernel was made from, as far
// as it says so: "5.14.0-427.el9" says little, since its fixes are counted behind
// the dash.
func (h *Host) upstream() (version, bool) {
	text := h.Release
	if m := debian.FindStringSubmatch(h.Version); m != nil {
		text = m[1]
	}
	if s, err := h.read(signature); err == nil {
		if f := strings.Fields(s); len(f) == 3 {
			text = f[2]
		}
	}
	m := three.FindStringSubmatch(text)
	if m == nil {
		return version{}, false
	}
	var v version
	for i := range v {
		if m[i+1] == "" {
			break // 7.0 is 7.0.0
		}
		var err error
		if v[i], err = strconv.Atoi(m[i+1]); err != nil {
			return version{}, false
		}
	}
	return v, true
}

// bugs holds the release against the table. A distribution mends bugs without
// taking the release that did: there the answer is "could not tell", and "no" is
// for a kernel that nobody changed.
func (h *Host) bugs() Finding {
	f := Finding{ID: "kernel.bugs", State: Yes, Where: "uname(2)"}
	v, ok := h.upstream()
	if !ok {
		f.State, f.Reason, f.Hint = Unknown, fmt.Sprintf("the kernel calls itself %q", h.Release), h.upgrade()
		return f
	}
	var has []string
	for _, b := range bugs {
		if b.in(v) {
			has = append(has, fmt.Sprintf("%s (%s)", b.cve, b.name))
		}
	}
	switch {
	case len(has) == 0:
		f.Reason = fmt.Sprintf("Linux %d.%d.%d has none of the %d bugs that jailer knows of and can't keep a job from", v[0], v[1], v[2], len(bugs))
	case plain.MatchString(h.Release):
		f.State, f.Hint = No, h.upgrade()
		f.Reason = fmt.Sprintf("Linux %s has %s", h.Release, strings.Join(has, ", "))
	default:
		f.State, f.Hint = Unknown, h.upgrade()
		f.Reason = fmt.Sprintf("Linux %d.%d.%d of kernel.org has %s; whether the distribution mended it in %s, its security tracker says",
			v[0], v[1], v[2], strings.Join(has, ", "), h.Release)
	}
	return f
}
