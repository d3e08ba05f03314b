package cgroup

import (
	"strings"
	"testing"
	"time"
)

func TestParseMountinfo(t *testing.T) {
	got, err := parseMountinfo(`36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
34 30 0:31 / /sys/fs/cgroup/memory ro,nosuid shared:9 master:2 - cgroup cgroup rw,memory
40 30 0:37 /../.. /c rw - cgroup2  rw,nsdelegate
`)
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got[0].point != "/mnt 2" || got[0].fsType != "ext3" || got[0].readOnly() {
		t.Errorf("%+v", got[0])
	}
	if !got[1].readOnly() || got[1].superOpt[1] != "memory" || got[1].dev != "0:31" {
		t.Errorf("%+v", got[1])
	}
	if got[2].root != "/../.." || got[2].fsType != "cgroup2" || got[2].superOpt[1] != "nsdelegate" {
		t.Errorf("%+v", got[2])
	}
	for _, bad := range []string{"x", "1 2 3:4 / / rw", "1 2 3:4 / / rw - cgroup", "1 2 3 4 5 6 7 8 9 10 11"} {
		if _, err := parseMountinfo(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestParseProcCgroup(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"0::/\n", "/"},
		{"9:name=systemd:/\n1:cpu:/a\n0::/b:c\n", "/b:c"},
		{"1:cpu,cpuacct:/a\n", ""},
		{"", ""},
	} {
		if got, err := parseProcCgroup(tc.in); err != nil || got != tc.want {
			t.Errorf("%q: %q, %v", tc.in, got, err)
		}
	}
	for _, bad := range []string{"x\n", "0:/\n", "0::x\n"} {
		if _, err := parseProcCgroup(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestDirOf(t *testing.T) {
	for _, tc := range []struct{ point, root, path, want string }{
		{"/sys/fs/cgroup", "/", "/", "/sys/fs/cgroup"},
		{"/sys/fs/cgroup", "/", "/a/b", "/sys/fs/cgroup/a/b"},
		{"/sys/fs/cgroup", "/docker/x", "/docker/x", "/sys/fs/cgroup"},
		{"/sys/fs/cgroup", "/docker/x", "/docker/x/y", "/sys/fs/cgroup/y"},
		{"/sys/fs/cgroup", "/docker/x", "/docker/xy", ""},
		{"/sys/fs/cgroup", "/docker/x", "/", ""},
		{"/sys/fs/cgroup", "/", "/../other", ""},
		{"/sys/fs/cgroup", "/../..", "/", ""},
	} {
		got, err := Mount{Point: tc.point, Root: tc.root}.dirOf(tc.path)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%+v: %q, %v", tc, got, err)
		}
	}
}

func TestParseKV(t *testing.T) {
	got, err := parseKV("oom 0\noom_kill 3\nbig 18446744073709551615\n")
	if err != nil || got["oom_kill"] != 3 || got["big"] != 1<<63-1 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"oom\n", "oom x\n", "oom -1\n", " 1\n", "a 1 2\n"} {
		if _, err := parseKV(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestCPUQuota(t *testing.T) {
	for _, tc := range []struct {
		milli, quota int64
		period       uint64
	}{{1, 1000, 1_000_000}, {9, 9000, 1_000_000}, {10, 1000, 100_000}, {200, 20_000, 100_000}, {2500, 250_000, 100_000}} {
		if q, p := cpuQuota(tc.milli); q != tc.quota || p != tc.period {
			t.Errorf("%d: %d/%d", tc.milli, q, p)
		}
	}
}

func TestShare(t *testing.T) {
	const hour = int64(time.Hour)
	for _, c := range []struct{ user, system, total, wantUser, wantSystem int64 }{
		{0, 0, 0, 0, 0},
		{0, 0, 5, 5, 0}, // shorter than a tick
		{4e6, 0, 7e6, 7e6, 0},
		{0, 4e6, 7e6, 0, 7e6},
		{3e6, 1e6, 8e6, 6e6, 2e6},
		{100_000 * hour, 100_000 * hour, 100_000 * hour, 50_000 * hour, 50_000 * hour},
	} {
		if u, s := share(c.user, c.system, c.total); int64(u) != c.wantUser || int64(s) != c.wantSystem {
			t.Errorf("%+v: %d, %d", c, u, s)
		}
	}
}

func TestSameLimit(t *testing.T) {
	for _, tc := range []struct {
		name, want, got string
		ok              bool
	}{
		{"memory.max", "100000000", "99999744", true},
		{"memory.max", "100000000", "max", false},
		{"memory.max", "100000000", "100003840", false},
		{"memory.max", "100000000", "90000000", false},
		{"memory.max", "100", "0", false},
		{"memory.swap.max", "0", "0", true},
		{"memory.swap.max", "0", "max", false},
		{"pids.max", "5000", "4999", false},
		{"cpu.max", "1000 100000", "1000 100000", true},
		{"cpu.max", "1000 100000", "max 100000", false},
	} {
		if got := sameLimit(tc.name, tc.want, tc.got); got != tc.ok {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add(`36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 - ext3 /dev/root rw`)
	f.Add("40 30 0:37 / /c rw - cgroup2  rw\n\n")
	f.Add("1 2 3:4 / / rw - - - -")
	f.Fuzz(func(t *testing.T, s string) {
		ms, err := parseMountinfo(s)
		if err == nil && len(ms) > strings.Count(s, "\n")+1 {
			t.Errorf("%d mounts from %q", len(ms), s)
		}
		for _, m := range ms {
			if d, err := (Mount{Point: "/sys/fs/cgroup", Root: m.root}).dirOf(m.point); err == nil && d != "/sys/fs/cgroup" && !strings.HasPrefix(d, "/sys/fs/cgroup/") {
				t.Errorf("%q under %q is %q", m.point, m.root, d)
			}
		}
	})
}

func FuzzProcCgroup(f *testing.F) {
	f.Add("0::/\n")
	f.Add("9:name=systemd:/\n0::/a/../../b\n")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parseProcCgroup(s)
		if err != nil || p == "" {
			return
		}
		if d, err := (Mount{Point: "/m", Root: "/"}).dirOf(p); err == nil && d != "/m" && !strings.HasPrefix(d, "/m/") {
			t.Errorf("%q leads out: %q", p, d)
		}
	})
}

func FuzzKV(f *testing.F) {
	f.Add("oom 0\noom_kill 3\n")
	f.Add("populated 1\nfrozen 0\n")
	f.Fuzz(func(t *testing.T, s string) {
		kv, _ := parseKV(s)
		for k, n := range kv {
			if k == "" || n < 0 {
				t.Errorf("%q: %d", k, n)
			}
		}
		pids, _ := parsePids(s)
		for _, p := range pids {
			if p < 0 {
				t.Error(p)
			}
		}
	})
}
