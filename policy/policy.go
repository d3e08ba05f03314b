// Package policy reads the operator's policy, strictly, and resolves requests
// against it. Resolve only narrows: nothing that a request or a flag says makes
// the plan wider than the policy.
//
// One file decides: the one named on the command line, else
// /etc/jailer/policy.toml, else the built-in one. There is no layering beyond
// what the file itself asks for with extends, and nothing comes from the
// environment, the working directory or a workspace.
package policy

import (
	"maps"
	"slices"
	"time"

	"github.com/jailer-project/jailer/limits"
)

// DefaultProfile is the profile of a request that names none.
const DefaultProfile = "default"

// RootfsHost is the rootfs that needs no table: a read-only view of the host.
const RootfsHost = "host"

// Values of Plan.Enforce.
const (
	EnforceRequired   = "required"    // a limit that nothing can hold is an error
	EnforceBestEffort = "best-effort" // it is named in the result instead
)

// Values of Plan.IDs.
const (
	IDsSingle = "single" // one id, no setuid helper
	IDsRange  = "range"  // the caller's range in /etc/subuid
)

// Values of Plan.AppArmor.
const (
	AppArmorRequired = "required"
	AppArmorAuto     = "auto" // where the host has it
	AppArmorOff      = "off"
)

// Values of a profile's workspace.access: what it may do with persistent workspaces.
const (
	WorkspaceNone  = "none"
	WorkspaceRead  = "read"  // many jails at once, and no writer
	WorkspaceWrite = "write" // one jail at a time
)

// Values of Plan.OnProtected.
const (
	ProtectedMark   = "mark"   // in the manifest
	ProtectedRefuse = "refuse" // the whole export or import
)

// NetworkNone is a network namespace with a live loopback and nothing else.
const NetworkNone = "none"

// Values of Events.OnError.
const (
	SinkFail = "fail" // what can't be recorded doesn't happen, or is an error
	SinkLog  = "log"  // a warning
)

// Requirements are the names that a profile's "require" may hold: what must be
// enforced for the run to start at all.
func Requirements() []string {
	return []string{"userns", "netns", "seccomp", "apparmor", "landlock", "memory", "cpu", "pids", "workspace"}
}

// Policy is one valid policy.
type Policy struct {
	Name     string    // file that it came from, BuiltinName for the built-in one
	Locked   bool      // only policies owned by root are accepted beside this one
	Enforce  string    // EnforceRequired or EnforceBestEffort
	UIDRange [2]uint32 // first and last host id for jails started by real root
	Events   Events
	// Retention is how long a persistent workspace is kept that nobody uses; 0: for ever.
	Retention time.Duration
	Access    Access

	owner    uint32            // of the file, 0 where it came from none; files that it names must be his or root's
	roots    map[string]string // name to absolute path
	filters  map[string]string // seccomp profiles: name to absolute path
	profiles map[string]*profile
	source   *source // for Origins
}

// Events is where the event log is, and what to do when it can't be written.
type Events struct {
	Path    string // absolute; "" for the one in the state directory
	OnError string // SinkFail or SinkLog
}

// Profiles gives the names of the profiles, sorted.
func (p *Policy) Profiles() []string { return slices.Sorted(maps.Keys(p.profiles)) }

// SeccompFiles gives the names of the seccomp profiles that the policy brings,
// sorted.
func (p *Policy) SeccompFiles() []string { return slices.Sorted(maps.Keys(p.filters)) }

// SeccompPath is the file of a seccomp profile that the policy brings, "" for a
// built-in one. ok is false where there is neither.
func (p *Policy) SeccompPath(name string) (path string, ok bool) {
	if path, ok := p.filters[name]; ok {
		return path, true
	}
	return "", builtinSeccomp(name)
}

// Seccomp gives the seccomp profile of a profile, of the default one for "".
func (p *Policy) Seccomp(profile string) (string, error) {
	if profile == "" {
		profile = DefaultProfile
	}
	f := p.profiles[profile]
	if f == nil {
		return "", noProfile(p, profile)
	}
	return f.seccomp, nil
}

// profile is one profile with everything that it extends merged in.
type profile struct {
	rootfs       string
	capabilities []string
	envSet       map[string]string
	envAllow     []string
	networks     []string
	seccomp      string
	apparmor     string
	ids          string
	defaults     limits.Limits
	max          limits.Limits
	maxHostCPUs  bool          // the ceiling of cpus is what the host has
	cpuset       limits.CPUSet // "": any
	maxCPUSet    limits.CPUSet // "": all of the host's
	require      []string
	keep         string
	onLimit      string
	workspaces   string // WorkspaceNone, WorkspaceRead or WorkspaceWrite
	protected    []string
	mounts       []Mount
	exec         *Exec // nil: anything
	onProtected  string
}
