package host

import (
	"fmt"
	"strconv"
	"strings"
)

// The oldest kernel that is supported: cgroup.kill came with 5.14.
const floorMajor, floorMinor = 5, 14

func (h *Host) kernel() []Finding {
	floor := Finding{
		ID: "kernel.floor", Needed: true, State: Yes, Where: "uname(2)",
		Reason: fmt.Sprintf("Linux %s; %d.%d or newer is needed", h.Release, floorMajor, floorMinor),
	}
	major, minor, ok := parseRelease(h.Release)
	switch {
	case !ok:
		floor.State, floor.Reason = Unknown, fmt.Sprintf("the kernel calls itself %q", h.Release)
	case major < floorMajor || (major == floorMajor && minor < floorMinor):
		floor.State = No
		floor.Hint = "install a newer kernel, as linux-image-generic-hwe or a backport, and boot it"
	}
	arch := Finding{ID: "kernel.arch", Needed: true, State: Yes, Where: "this program", Reason: h.Arch}
	if h.Arch != "amd64" && h.Arch != "arm64" {
		arch.State, arch.Reason = No, h.Arch+": only amd64 and arm64 have a filter"
		arch.Hint = "use a host with an x86-64 or arm64 processor"
	}
	return []Finding{floor, arch, h.bugs(), h.patches()}
}

// parseRelease reads "6.1.0-18-amd64".
func parseRelease(s string) (major, minor int, ok bool) {
	p := strings.SplitN(s, ".", 3)
	if len(p) < 2 {
		return 0, 0, false
	}
	major, err1 := strconv.Atoi(p[0])
	digits := strings.IndexFunc(p[1], func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(p[1])
	}
	minor, err2 := strconv.Atoi(p[1][:digits])
	return major, minor, err1 == nil && err2 == nil
}

func build(b Build) []Finding {
	built := Finding{ID: "build.seccomp", Needed: true, State: Yes, Where: "this program", Reason: "the filter and PID 1 are built in"}
	intact := Finding{ID: "build.intact", Needed: true, State: Yes, Where: "this program", Reason: "the embedded filter and PID 1 are as they were built"}
	if !b.Seccomp {
		built.State, built.Reason = No, "built without the filter and PID 1"
		built.Hint = "build it with `make build`; a plain `go build` has no isolation to offer"
		intact.State, intact.Reason = Unknown, "there is nothing to verify"
		intact.Hint = built.Hint
		return []Finding{built, intact}
	}
	for _, err := range []error{b.PID1, b.Filter} {
		if err != nil {
			intact.State, intact.Reason = No, err.Error()
			intact.Hint = "install jailer again, or run `make build`"
		}
	}
	return []Finding{built, intact}
}
