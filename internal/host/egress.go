package host

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// egress reports what a job could reach and what the host can. Only the routing
// tables are read: nothing is contacted.
func (h *Host) egress(t Trial) Finding {
	f := Finding{ID: "net.egress", State: Yes, Where: "/proc/net/route", Reason: "jobs have a network namespace without any route"}
	if !t.OK() && t.Step != stepProc {
		f.State, f.Hint = No, "see userns.create"
		f.Reason = "no network namespace can be made, so no job is started"
		if t.Step == stepRun {
			f.State = Unknown
		}
	}
	links, err := h.defaultRoutes()
	switch {
	case err != nil:
		if f.State == Yes {
			f.State = Unknown
		}
		f.Reason += "; the host's routes can't be read: " + cause(err)
	case len(links) == 0:
		f.Reason += "; the host has no default route"
	default:
		f.Reason += "; the host has a default route through " + strings.Join(links, ", ")
	}
	return f
}

const (
	rtfUp     = 0x1   // RTF_UP of linux/route.h
	rtfReject = 0x200 // RTF_REJECT: "unreachable", as every IPv6 table has
)

// defaultRoutes names the interfaces that default routes go through, in the
// caller's network namespace (proc_pid_net(5)).
func (h *Host) defaultRoutes() ([]string, error) {
	var links []string
	add := func(link, flags string) {
		if n, ok := hex(flags); ok && n&rtfUp != 0 && n&rtfReject == 0 && link != "lo" && !slices.Contains(links, link) {
			links = append(links, link)
		}
	}
	v4, err4 := h.read("/proc/net/route")
	for l := range strings.Lines(v4) {
		// Iface Destination Gateway Flags RefCnt Use Metric Mask …
		if p := strings.Fields(l); len(p) > 7 && p[1] == "00000000" && p[7] == "00000000" {
			add(p[0], p[3])
		}
	}
	v6, err6 := h.read("/proc/net/ipv6_route")
	for l := range strings.Lines(v6) {
		// destination, its length, source, its length, next hop, metric, references, uses, flags, interface
		if p := strings.Fields(l); len(p) > 9 && strings.Trim(p[0], "0") == "" && p[1] == "00" {
			add(p[9], p[8])
		}
	}
	if errors.Is(err6, unix.ENOENT) || absent(err6) {
		err6 = nil // no IPv6
	}
	return links, errors.Join(err4, err6)
}
