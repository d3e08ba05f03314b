package cgroup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mountLine is one line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
type mountLine struct {
	dev      string // major:minor
	root     string // the directory of the file system that is mounted
	point    string
	options  []string // of this mount
	fsType   string
	superOpt []string // of the file system
}

// parseMountinfo reads all of a mountinfo file. A line that it can't read is an
// error: to skip one could mean to take a mount for absent.
func parseMountinfo(data string) ([]mountLine, error) {
	var out []mountLine
	for n, line := range strings.Split(data, "\n") {
		if line == "" {
			continue
		}
		f := strings.Split(line, " ")
		// Optional fields stand before a lone "-", so its place varies. Those
		// fields are "tag:value", so the first "-" from the seventh on is it.
		sep := -1
		for i := 6; i < len(f); i++ {
			if f[i] == "-" {
				sep = i
				break
			}
		}
		if sep < 0 || len(f) < sep+4 {
			return nil, fmt.Errorf("mountinfo line %d: unexpected form %q", n+1, line)
		}
		out = append(out, mountLine{
			dev: f[2], root: unescape(f[3]), point: unescape(f[4]),
			options: strings.Split(f[5], ","),
			fsType:  f[sep+1],
			// The source (sep+2) may be empty or hold blanks on odd file systems;
			// the super options are always the last field.
			superOpt: strings.Split(f[len(f)-1], ","),
		})
	}
	return out, nil
}

// unescape undoes the octal escapes of blanks and backslashes in mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (m mountLine) readOnly() bool {
	return slices.Contains(m.options, "ro") || slices.Contains(m.superOpt, "ro")
}

// parseProcCgroup reads /proc/PID/cgroup and returns the path in the v2
// hierarchy (the line "0::PATH", cgroups(7)); "" if there is none.
func parseProcCgroup(data string) (string, error) {
	for line := range strings.SplitSeq(data, "\n") {
		if line == "" {
			continue
		}
		id, rest, ok := strings.Cut(line, ":")
		ctl, path, ok2 := strings.Cut(rest, ":")
		if !ok || !ok2 || !strings.HasPrefix(path, "/") {
			return "", fmt.Errorf("unexpected line %q", line)
		}
		if id == "0" && ctl == "" {
			return path, nil
		}
	}
	return "", nil
}

// parseKV reads a flat-keyed file such as memory.events: "key number" lines.
func parseKV(data string) (map[string]int64, error) {
	out := map[string]int64{}
	for line := range strings.SplitSeq(data, "\n") {
		if line == "" {
			continue
		}
		k, v, ok := strings.Cut(line, " ")
		if !ok || k == "" {
			return nil, fmt.Errorf("unexpected line %q", line)
		}
		n, err := parseCount(v)
		if err != nil {
			return nil, fmt.Errorf("unexpected line %q", line)
		}
		out[k] = n
	}
	return out, nil
}

// parseCount reads a counter. The kernel's are unsigned; what does not fit is
// held at the largest int64.
func parseCount(s string) (int64, error) {
	u, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return 0, err
	}
	return int64(min(u, 1<<63-1)), nil
}

// parsePids reads cgroup.procs. A process outside our pid namespace reads 0.
func parsePids(data string) ([]int, error) {
	var out []int
	for f := range strings.FieldsSeq(data) {
		n, err := strconv.Atoi(f)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("unexpected pid %q", f)
		}
		out = append(out, n)
	}
	return out, nil
}
