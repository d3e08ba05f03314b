package pid1

import "fmt"

// Stage is the step of the start that failed. The numbers are those of
// src/protocol.h.
type Stage uint16

// Stages below 32 are PID 1's own; from 32 on the job's process reports them,
// between its clone and its exec.
const (
	StageNone      Stage = 0
	StageSetup     Stage = 1
	StagePayload   Stage = 2 // Detail: offset of the refused record in the body
	StagePID       Stage = 3
	StagePDeathSig Stage = 4
	StagePair      Stage = 5
	StageClone     Stage = 6
	StageUIDMap    Stage = 7
	StageSetgroups Stage = 8
	StageGIDMap    Stage = 9
	StageCgroup    Stage = 10 // Detail: index in the v1 files of Files.Cgroup
	StageRelease   Stage = 11
	StageControl   Stage = 12
	StageDied      Stage = 13 // killed before its exec; WaitStatus says how
	StageWait      Stage = 14
	StageTerminal  Stage = 15
	StageAppArmor  Stage = 16
	StageFiles     Stage = 17 // Detail: how many descriptors came
	StageJobs      Stage = 18

	StageCgroupNS    Stage = 32
	StageSetIDs      Stage = 33
	StageIDs         Stage = 34
	StageSetsid      Stage = 35
	StageSignals     Stage = 36
	StageRlimit      Stage = 37 // Detail: the resource
	StageAffinity    Stage = 38
	StageBounding    Stage = 39
	StageAmbient     Stage = 40
	StageCapset      Stage = 41
	StageNoNewPrivs  Stage = 42
	StageDescriptors Stage = 43
	StageCwd         Stage = 44
	StageFilter      Stage = 45 // Detail: index in Payload.Filters
	StageExec        Stage = 46
	StageCTTY        Stage = 47
	StageStack       Stage = 48
	StageSeed        Stage = 49 // Detail: the frame, from 0
	StageLandlock    Stage = 50 // Detail: the executable, from 0
)

// stageNames has the names of src/protocol.h, in lower case and without "STAGE_".
var stageNames = map[Stage]string{
	StageNone: "none", StageSetup: "setup", StagePayload: "payload", StagePID: "pid",
	StagePDeathSig: "pdeathsig", StagePair: "pair", StageClone: "clone",
	StageUIDMap: "uidmap", StageSetgroups: "setgroups", StageGIDMap: "gidmap",
	StageCgroup: "cgroup", StageRelease: "release", StageControl: "control",
	StageDied: "died", StageWait: "wait", StageTerminal: "terminal", StageAppArmor: "apparmor",
	StageFiles: "files", StageJobs: "jobs",
	StageCgroupNS: "cgroupns", StageSetIDs: "setids", StageIDs: "ids",
	StageSetsid: "setsid", StageSignals: "signals", StageRlimit: "rlimit",
	StageAffinity: "affinity", StageBounding: "bounding", StageAmbient: "ambient",
	StageCapset: "capset", StageNoNewPrivs: "no_new_privs",
	StageDescriptors: "descriptors", StageCwd: "cwd", StageFilter: "filter",
	StageExec: "exec", StageCTTY: "ctty", StageStack: "stack", StageSeed: "seed", StageLandlock: "landlock",
}

// String gives the stage's name in messages.
func (s Stage) String() string {
	if n, ok := stageNames[s]; ok {
		return n
	}
	return fmt.Sprintf("stage %d", uint16(s))
}
