package pid1

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The numbers of the C header and ours are the same, none missing on either side.
func TestHeader(t *testing.T) {
	b, err := os.ReadFile("src/protocol.h")
	if err != nil {
		t.Fatal(err)
	}
	c := map[string]uint64{}
	for _, re := range []string{`(?m)^#define ([A-Z0-9_]+) (0x[0-9a-f]+|[0-9]+)`, `(?m)^\t(STAGE_[A-Z0-9_]+) = ([0-9]+)`} {
		for _, m := range regexp.MustCompile(re).FindAllStringSubmatch(string(b), -1) {
			n, err := strconv.ParseUint(m[2], 0, 64)
			if err != nil {
				t.Fatal(err)
			}
			c[m[1]] = n
		}
	}
	g := map[string]uint64{
		"PROTOCOL_MAGIC": magic, "PROTOCOL_VERSION": version, "PROTOCOL_HEADER": headerLen,
		"PROTOCOL_SETUP_MAX": setupMax, "PROTOCOL_JOBS": MaxJobs,
		"PROTOCOL_BODY_MAX": bodyMax, "PROTOCOL_REPORT": ReportLen, "PROTOCOL_CONTROL": controlLen,
		"FD_CONTROL": 3, "FD_SELF": 4,
		"TLV_FLAGS": tlvFlags, "TLV_UIDMAP": tlvUIDMap, "TLV_GIDMAP": tlvGIDMap, "TLV_UID": tlvUID,
		"TLV_GID": tlvGID, "TLV_CGROUP_DIR": tlvCgroupDir, "TLV_CGROUP_PROCS": tlvCgroupProcs,
		"TLV_RLIMIT": tlvRlimit, "TLV_AFFINITY": tlvAffinity, "TLV_UMASK": tlvUmask, "TLV_CWD": tlvCwd,
		"TLV_FILTER": tlvFilter, "TLV_ARG": tlvArg, "TLV_ENV": tlvEnv, "TLV_TERMINAL": tlvTerminal,
		"TLV_LABEL": tlvLabel, "TLV_STACK": tlvStack, "TLV_JOB_LABEL": tlvJobLabel, "TLV_EXECUTABLE": tlvExecutable,
		"FLAG_NEWCGROUP": uint64(NewCgroup), "FLAG_INTO_CGROUP": uint64(IntoCgroup),
		"FLAG_UNSHARE_CGROUPNS": uint64(UnshareCgroupNS), "FLAG_SETGROUPS_DENY": uint64(SetgroupsDeny),
		"FLAG_NO_FILTER": uint64(NoFilter), "FLAG_REQUIRE_PDEATHSIG": uint64(RequirePDeathSig),
		"FLAG_SETIDS": uint64(SetIDs),
		"FLAG_STDIO":  uint64(stdio), "FLAG_SEED": uint64(Seed), "FLAG_ONCE": uint64(Once),
		"CONTROL_SIGNAL": controlSignal, "CONTROL_SIGNAL_GROUP": controlSignalGroup, "CONTROL_KILL": controlKill,
		"CONTROL_EXEC":   controlExec,
		"REPORT_STARTED": uint64(Started), "REPORT_FAILED": uint64(Failed), "REPORT_EXITED": uint64(Exited),
		"REPORT_TERMINAL": uint64(Terminal), "REPORT_READY": uint64(Ready),
		"SEED_HEADER": SeedHeader, "SEED_PATH_MAX": SeedPathMax,
		"SEED_DIR": SeedDir, "SEED_FILE": SeedFile, "SEED_END": SeedEnd,
		"DETAIL_INTERPRETER": DetailInterpreter, "LEFTOVER_UNKNOWN": LeftoverUnknown,
		"SPACE_KNOWN": spaceKnown, "SPACE_FULL": spaceFull,
	}
	for s, name := range stageNames {
		g["STAGE_"+strings.ToUpper(name)] = uint64(s)
	}
	for name, n := range c {
		if v, ok := g[name]; !ok || v != n {
			t.Errorf("%s is %d in C, %d in Go", name, n, v)
		}
	}
	for name := range g {
		if _, ok := c[name]; !ok {
			t.Errorf("%s is not in the header", name)
		}
	}
}
