package jailer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jailer-project/jailer/internal/strictjson"
	"github.com/jailer-project/jailer/limits"
)

// MaxRequestBytes and MaxRequestDepth bound a request document.
const (
	MaxRequestBytes = 1 << 20
	MaxRequestDepth = 32
)

// Request says what to run. It can only narrow what the operator's policy
// grants, and has no member for a host path, a mount, a user, a filter or a
// policy: whoever may write a request must not choose those.
type Request struct {
	V       int               `json:"v,omitempty"`       // ProtocolVersion, or 0 for "the current one"
	Profile string            `json:"profile,omitempty"` // of the policy; "" is "default"
	Tenant  string            `json:"tenant,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"` // come back in the result

	// TraceParent is the span that asks, of W3C Trace Context (ValidTraceParent). It
	// comes back in the result, and is in the events, as a link: jailer makes no span.
	TraceParent string `json:"traceparent,omitempty"`

	Argv []string          `json:"argv,omitempty"` // never a shell string
	Env  map[string]string `json:"env,omitempty"`
	Cwd  string            `json:"cwd,omitempty"` // absolute, inside the jail; "" is /workspace

	Stdin         *string `json:"stdin,omitempty"` // inline; nil is /dev/null
	StdinEncoding string  `json:"stdinEncoding,omitempty"`

	// Files and Directories are made before the command starts, in file systems
	// of the jail's own, which are empty. They need CapFSWrite.
	Files       []RequestFile `json:"files,omitempty"`
	Directories []string      `json:"directories,omitempty"` // paths as of RequestFile

	// Workspace names a persistent workspace, TENANT/RESOURCE, that is /workspace in
	// the place of an empty one. One writer has it at a time.
	Workspace string `json:"workspace,omitempty"`

	Limits RequestLimits `json:"limits,omitzero"`

	// Capabilities narrows what the profile grants (CapExec, …). Nil asks for
	// all of it; an empty list asks for nothing, and stays an empty list in
	// JSON: a list that vanished on the way would be the widest one.
	Capabilities []string `json:"capabilities,omitzero"`

	OutputKeep    string `json:"outputKeep,omitempty"`    // KeepHead, KeepTail or KeepBoth
	OnOutputLimit string `json:"onOutputLimit,omitempty"` // OnLimitTruncate or OnLimitKill
}

// RequestFile is one file to put into the jail. Directories above it are made.
type RequestFile struct {
	// Path is below /workspace, /tmp or /home/jail, or relative to /workspace;
	// clean, without "." and "..".
	Path     string `json:"path"`
	Content  string `json:"content"`
	Encoding string `json:"encoding,omitempty"` // of Content: EncodingUTF8, as "", or EncodingBase64
	Mode     string `json:"mode,omitempty"`     // octal, "0000" to "0777"; "" is "0644". Its owner can always read it
}

// RequestLimits are the limits that a request may ask for; 0 is "the
// profile's default". More than the profile's ceiling is refused, not cut.
type RequestLimits struct {
	TimeoutMs       int64 `json:"timeoutMs,omitempty"`
	CPUTimeMs       int64 `json:"cpuTimeMs,omitempty"`
	MemoryBytes     int64 `json:"memoryBytes,omitempty"`
	CPUMilli        int64 `json:"cpuMilli,omitempty"` // thousandths of a CPU
	Pids            int64 `json:"pids,omitempty"`
	TmpBytes        int64 `json:"tmpBytes,omitempty"` // each of /tmp, HOME, /dev/shm
	WorkspaceBytes  int64 `json:"workspaceBytes,omitempty"`
	WorkspaceInodes int64 `json:"workspaceInodes,omitempty"`
	OutputBytes     int64 `json:"outputBytes,omitempty"` // kept of each stream

	SwapBytes int64  `json:"swapBytes,omitempty"` // beyond MemoryBytes
	CPUSet    string `json:"cpuset,omitempty"`    // CPUs by number, as 0-1,3

	IOReadBytesPerSecond  int64 `json:"ioReadBytesPerSecond,omitempty"` // from each block device
	IOWriteBytesPerSecond int64 `json:"ioWriteBytesPerSecond,omitempty"`
}

// Values of Request.OutputKeep: which end of a stream stays when it is longer
// than its limit.
const (
	KeepHead = "head"
	KeepTail = "tail"
	KeepBoth = "both"
)

// Values of Request.OnOutputLimit.
const (
	OnLimitTruncate = "truncate" // keep counting, drop the bytes
	OnLimitKill     = "kill"
)

// byJSON gives the fields of q by their names in a document.
func (q *RequestLimits) byJSON() map[string]*int64 {
	return map[string]*int64{
		"timeoutMs":       &q.TimeoutMs,
		"cpuTimeMs":       &q.CPUTimeMs,
		"memoryBytes":     &q.MemoryBytes,
		"cpuMilli":        &q.CPUMilli,
		"pids":            &q.Pids,
		"tmpBytes":        &q.TmpBytes,
		"workspaceBytes":  &q.WorkspaceBytes,
		"workspaceInodes": &q.WorkspaceInodes,
		"outputBytes":     &q.OutputBytes,
		"swapBytes":       &q.SwapBytes,

		"ioReadBytesPerSecond":  &q.IOReadBytesPerSecond,
		"ioWriteBytesPerSecond": &q.IOWriteBytesPerSecond,
	}
}

// Limits gives q in jailer's own units. What is negative or out of range is an
// *Error that names the field.
func (q RequestLimits) Limits() (limits.Limits, error) {
	var l limits.Limits
	given := q.byJSON()
	for _, f := range limits.Fields() {
		p := given[f.JSON]
		if p == nil || *p == 0 {
			continue
		}
		v, err := f.FromJSON(*p)
		if err != nil {
			return limits.Limits{}, &Error{Code: CodeInvalidRequest, Op: "request", Path: "limits." + f.JSON, Message: err.Error()}
		}
		f.Set(&l, v)
	}
	if q.CPUSet != "" {
		if _, err := limits.ParseCPUSet(q.CPUSet); err != nil {
			return limits.Limits{}, &Error{Code: CodeInvalidRequest, Op: "request", Path: "limits.cpuset", Message: err.Error()}
		}
	}
	return l, nil
}

// ParseRequest reads a request document: strict JSON of at most MaxRequestBytes
// and MaxRequestDepth, every member known and in range. The *Error has the code
// invalid_request and the field's path.
func ParseRequest(data []byte) (*Request, error) {
	r := new(Request)
	if err := strictjson.Decode(data, r, strictjson.Options{MaxBytes: MaxRequestBytes, MaxDepth: MaxRequestDepth}); err != nil {
		if e, ok := errors.AsType[*strictjson.Error](err); ok {
			return nil, invalid(e.Path, e.Msg)
		}
		return nil, invalid("", err.Error())
	}
	if err := refuseNothing(data); err != nil {
		return nil, err
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	return r, nil
}

// refuseNothing refuses what encoding/json can't tell from an absent member: a
// document that is null, a version of 0, a limit of 0 or null. Who writes
// "memoryBytes":0 may well mean "without a limit", and must not get the default
// in silence.
func refuseNothing(data []byte) error {
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return invalid("", "null given, want an object")
	}
	var doc struct {
		V      json.RawMessage            `json:"v"`
		Limits map[string]json.RawMessage `json:"limits"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return invalid("", err.Error())
	}
	if doc.V != nil && string(doc.V) != fmt.Sprint(ProtocolVersion) {
		return invalid("v", fmt.Sprintf("version %.20s given, this program speaks %d", doc.V, ProtocolVersion))
	}
	var q RequestLimits
	if err := json.Unmarshal(data, &struct {
		Limits *RequestLimits `json:"limits"`
	}{&q}); err != nil {
		return invalid("limits", err.Error())
	}
	fields := q.byJSON()
	for _, f := range limits.Fields() {
		if _, given := doc.Limits[f.JSON]; given && fields[f.JSON] != nil && *fields[f.JSON] == 0 {
			return invalid("limits."+f.JSON, "must be positive")
		}
	}
	if _, given := doc.Limits["cpuset"]; given && q.CPUSet == "" {
		return invalid("limits.cpuset", "must name a CPU")
	}
	return nil
}

// invalid makes the *Error for a field of a request.
func invalid(path, msg string) *Error {
	if path == "" {
		path = "request"
	}
	return &Error{Code: CodeInvalidRequest, Op: "request", Path: path, Message: msg}
}
