package jailer

import (
	"encoding/json"
	"fmt"
	"time"
)

// Result is the one truthful answer about a run. What was not measured is nil
// or absent, never 0. Times are in ms, sizes in bytes.
type Result struct {
	V         int               `json:"v"` // set on encoding
	SessionID string            `json:"sessionId"`
	ExecID    string            `json:"execId"`
	Profile   string            `json:"profile"`
	Tenant    string            `json:"tenant,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`

	TraceParent string `json:"traceparent,omitempty"` // that of the request

	Status   Status  `json:"status"`
	ExitCode *int    `json:"exitCode"` // nil unless the main process exited
	Signal   *string `json:"signal"`   // "SIGKILL"; nil unless a signal ended the main process
	Limit    *Limit  `json:"limit"`    // nil unless a limit ended the run
	// LimitsHit names the limits that were met on the way ("pids",
	// "workspace", "output", …), whether or not they ended the run. Always an
	// array in JSON.
	LimitsHit []string `json:"limitsHit"`

	StartedAt  time.Time `json:"startedAt,omitzero"`
	DurationMs int64     `json:"durationMs"`        // from the start of the command to its end
	SetupMs    *int64    `json:"setupMs,omitempty"` // from the start of jailer to the start of the command

	// Stdout and Stderr hold the kept output when it was captured, in the
	// encoding beside them (EncodeOutput); nil when the bytes were passed on.
	// The byte counts are what the command produced, kept or not.
	Stdout          *string `json:"stdout,omitempty"`
	StdoutEncoding  string  `json:"stdoutEncoding,omitempty"`
	StdoutBytes     int64   `json:"stdoutBytes"`
	StdoutTruncated bool    `json:"stdoutTruncated"`
	Stderr          *string `json:"stderr,omitempty"`
	StderrEncoding  string  `json:"stderrEncoding,omitempty"`
	StderrBytes     int64   `json:"stderrBytes"`
	StderrTruncated bool    `json:"stderrTruncated"`

	// Terminal: the command had a terminal of its own. It shows one stream, which
	// is Stdout; of Stderr there is nothing.
	Terminal bool `json:"terminal,omitempty"`

	Usage          Usage      `json:"usage"`
	LeftoverKilled *int64     `json:"leftoverKilled,omitempty"` // processes that outlived the main one
	Artifacts      []Artifact `json:"artifacts,omitempty"`
	Isolation      Isolation  `json:"isolation"`

	// InitLost: PID 1 was gone without a report, so a signal ended the run
	// but the command's own wait status was never seen.
	InitLost bool `json:"initLost,omitempty"`

	// Error is what failed after the command had run: export, clean-up.
	Error *Error `json:"error,omitempty"`
}

// Usage is what the job's own cgroup counted: neither jailer nor PID 1 is in it.
type Usage struct {
	CPUUserMs       *int64 `json:"cpuUserMs,omitempty"`
	CPUSystemMs     *int64 `json:"cpuSystemMs,omitempty"`
	MemoryPeakBytes *int64 `json:"memoryPeakBytes,omitempty"`
	PidsPeak        *int64 `json:"pidsPeak,omitempty"`
	OOMKills        *int64 `json:"oomKills,omitempty"`
	ThrottledMs     *int64 `json:"throttledMs,omitempty"`
	WorkspaceBytes  *int64 `json:"workspaceBytes,omitempty"`

	Pressure *Pressure `json:"pressure,omitempty"` // nil where the kernel keeps none
}

// Pressure is for how long the job waited, in all: pressure stall information
// (Documentation/accounting/psi.rst). What the kernel doesn't measure is nil.
type Pressure struct {
	CPU    *Stall `json:"cpu,omitempty"`
	Memory *Stall `json:"memory,omitempty"`
	IO     *Stall `json:"io,omitempty"`
}

// Stall is the time in which at least one process of the job, and in which all
// of them at once, waited for a resource.
type Stall struct {
	SomeMs int64 `json:"someMs"`
	FullMs int64 `json:"fullMs"`
}

// Isolation says what held the job, as it was enforced and not as it was asked.
type Isolation struct {
	UserNS      bool   `json:"userns"`
	NetNS       bool   `json:"netns"`
	Seccomp     string `json:"seccomp"`               // name of the filter profile
	AppArmor    string `json:"apparmor,omitempty"`    // name of the AppArmor profile, absent without one
	LandlockABI int    `json:"landlockAbi,omitempty"` // absent where it is not used
	// Exec says what holds the profile's list of executables, "descendants" or "first";
	// absent without a list.
	Exec string `json:"exec,omitempty"`
	// Limits maps a limit to what enforces it: cgroup2, cgroup1, rlimit, tmpfs.
	Limits map[string]string `json:"limits"`
	// NotEnforced names the limits that nothing holds, which only the
	// operator's best-effort permits.
	NotEnforced []string `json:"notEnforced,omitempty"`
}

// Artifact is one exported file.
type Artifact struct {
	Path string `json:"path"` // relative to the workspace
	// PathEncoding is EncodingBase64 where the path is no UTF-8, else "".
	PathEncoding string `json:"pathEncoding,omitempty"`
	Bytes        int64  `json:"bytes"`
	SHA256       string `json:"sha256"`
}

// MarshalJSON sets the version, and writes LimitsHit as an array always.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	r.V = ProtocolVersion
	if r.LimitsHit == nil {
		r.LimitsHit = []string{}
	}
	if r.Isolation.Limits == nil {
		r.Isolation.Limits = map[string]string{}
	}
	return json.Marshal(struct {
		plain
		// Three digits always, so that stamps sort as text.
		StartedAt string `json:"startedAt,omitempty"`
	}{plain(r), stamp(r.StartedAt)})
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// StdoutData is the captured stdout as bytes, nil when none was captured.
func (r *Result) StdoutData() ([]byte, error) { return decodeOutput(r.Stdout, r.StdoutEncoding) }

// StderrData is the captured stderr as bytes, nil when none was captured.
func (r *Result) StderrData() ([]byte, error) { return decodeOutput(r.Stderr, r.StderrEncoding) }

func decodeOutput(text *string, encoding string) ([]byte, error) {
	if text == nil {
		return nil, nil
	}
	return DecodeText(*text, encoding)
}

// ParseResult reads the document that the program wrote at the end: a Result,
// or the *Error that kept the command from running. Members that it does not
// know are ignored; another version is an error.
func ParseResult(data []byte) (*Result, error) {
	var head struct {
		V      *int   `json:"v"`
		Status Status `json:"status"`
		Error  *Error `json:"error"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, &Error{Code: CodeInternal, Op: "result", Message: "the result is not readable", Err: err}
	}
	if head.V == nil || *head.V != ProtocolVersion {
		got := "none"
		if head.V != nil {
			got = fmt.Sprint(*head.V)
		}
		return nil, &Error{
			Code: CodeInternal, Op: "result",
			Message: fmt.Sprintf("the program speaks protocol version %s, this package %d", got, ProtocolVersion),
			Hint:    "install the jailer program and the Go module of the same release",
		}
	}
	if head.Status == "" {
		if head.Error != nil {
			return nil, head.Error
		}
		return nil, &Error{Code: CodeInternal, Op: "result", Message: "the result has neither a status nor an error"}
	}
	res := new(Result)
	if err := json.Unmarshal(data, res); err != nil {
		return nil, &Error{Code: CodeInternal, Op: "result", Message: "the result is not readable", Err: err}
	}
	return res, nil
}
