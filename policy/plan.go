package policy

import (
	"encoding/json"
	"fmt"
	"io/fs"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
)

// Plan is a run as it will be: every default filled in, every name resolved.
type Plan struct {
	Profile string            `json:"profile"`
	Tenant  string            `json:"tenant,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`

	TraceParent string `json:"traceparent,omitempty"`

	Argv []string `json:"argv"`
	// Env is "NAME=value", sorted by name: what the policy sets and what was
	// asked for and allowed. The launcher puts its own variables (PATH, HOME,
	// …) under these.
	Env []string `json:"env"`
	Cwd string   `json:"cwd"` // absolute and clean, inside the jail

	Rootfs Rootfs        `json:"rootfs"`
	Limits limits.Limits `json:"limits"` // complete: no field is 0 but the optional ones
	CPUSet limits.CPUSet `json:"cpuset,omitempty"`

	Enforce  string    `json:"enforce"`  // EnforceRequired or EnforceBestEffort
	IDs      string    `json:"ids"`      // IDsSingle or IDsRange
	UIDRange [2]uint32 `json:"uidRange"` // for real root: first and last host id

	Seccomp     string   `json:"seccomp"`
	SeccompPath string   `json:"seccompPath,omitempty"` // of the profile, absolute, on the host; "" for a built-in one
	AppArmor    string   `json:"apparmor"`              // AppArmorRequired, AppArmorAuto or AppArmorOff
	Network     string   `json:"network"`               // NetworkNone
	Require     []string `json:"require,omitempty"`

	Capabilities []string `json:"capabilities"` // sorted; jailer.CapExec is there

	Workspace *Workspace `json:"workspace,omitempty"` // persistent; nil for one that goes with the jail

	Exec *Exec `json:"exec,omitempty"` // what may be executed; nil: anything

	Mounts []Mount `json:"mounts,omitempty"` // of the host; the launcher judges what they really are

	// Protected are the names that export and import mark or refuse.
	Protected   []string `json:"protected"`
	OnProtected string   `json:"onProtected"` // ProtectedMark or ProtectedRefuse

	// Files and Directories are those of the request. What the operator's flags put
	// into a jail is not of the policy's.
	Files       []File   `json:"files,omitempty"`
	Directories []string `json:"directories,omitempty"` // absolute and clean, inside the jail

	OutputKeep    string `json:"outputKeep"`    // jailer.KeepHead, KeepTail or KeepBoth
	OnOutputLimit string `json:"onOutputLimit"` // jailer.OnLimitTruncate or OnLimitKill

	Stdin    []byte `json:"-"` // inline stdin of the request
	HasStdin bool   `json:"-"` // it was given, if empty
}

// Workspace is a persistent one.
type Workspace struct {
	Name     string `json:"name"`               // TENANT/RESOURCE
	ReadOnly bool   `json:"readOnly,omitempty"` // for many jails at once
}

// Rootfs is where the jail's files come from.
type Rootfs struct {
	Name string `json:"name"`
	Path string `json:"path,omitempty"` // absolute, on the host; "" for RootfsHost
}

// File is a file to make in the jail before the command starts.
type File struct {
	Path string      // absolute and clean, inside the jail
	Mode fs.FileMode // permission bits alone
	Data []byte
}

// MarshalJSON writes the size in the place of the content.
func (f File) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Path  string `json:"path"`
		Mode  string `json:"mode"`
		Bytes int    `json:"bytes"`
	}{f.Path, fmt.Sprintf("%04o", f.Mode.Perm()), len(f.Data)})
}

// JSON is the plan as a document, for people and for tests. It has the values
// of variables in it, and so is for the operator's eyes; of stdin and of files it
// has the sizes alone. origins, unless nil, is that of Origins.
func (p *Plan) JSON(origins map[string]string) ([]byte, error) {
	doc := struct {
		V int `json:"v"`
		*Plan
		StdinBytes *int              `json:"stdinBytes,omitempty"`
		Origins    map[string]string `json:"origins,omitempty"`
	}{V: jailer.ProtocolVersion, Plan: p, Origins: origins}
	if p.HasStdin {
		doc.StdinBytes = new(len(p.Stdin))
	}
	return json.MarshalIndent(doc, "", "  ")
}
