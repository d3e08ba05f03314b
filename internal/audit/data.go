package audit

import (
	"time"

	"github.com/jailer-project/jailer"
)

// Created is the data of session.created.
type Created struct {
	Profile string `json:"profile"`
	Rootfs  string `json:"rootfs"`
	HostUID uint32 `json:"hostUid"` // of the jail's processes
}

// A Reason says why a session was destroyed.
type Reason string

// The reasons.
const (
	Requested   Reason = "requested"    // its work was done, or the caller ended it
	TTL         Reason = "ttl"          // its time to live was over
	Idle        Reason = "idle"         // no command ran for as long as it may be idle
	OwnerExited Reason = "owner_exited" // the process that it was done for has ended
	LimitHit    Reason = "limit"        // its workspace was over its quota
	Failed      Reason = "error"        // jailer or the host failed, or the launcher was killed
)

// Destroyed is the data of session.destroyed.
type Destroyed struct {
	Reason Reason `json:"reason"`
}

// Exceeded is the data of limit.exceeded.
type Exceeded struct {
	Limit string `json:"limit"`
	Ended bool   `json:"ended"` // it ended the command
}

// A Failure is an error without its message, which may name a file or a command of
// the caller's.
type Failure struct {
	Code   jailer.Code `json:"code"`
	Op     string      `json:"op,omitempty"`
	Reason string      `json:"reason,omitempty"`
}

// FailureOf is what an event says of e.
func FailureOf(e *jailer.Error) *Failure { return &Failure{e.Code, e.Op, e.Reason} }

// Denied is the data of policy.denied.
type Denied struct {
	Failure
	Field string `json:"field,omitempty"` // what was asked for: limits.memory, env
}

// Changed is the data of file.written and file.removed. The path is the caller's, made
// visible.
type Changed struct {
	Verb  string `json:"verb"`
	Path  string `json:"path"`
	Bytes *int64 `json:"bytes,omitempty"`
	// Partial: it failed or was interrupted, and some of it is done.
	Partial bool `json:"partial,omitempty"`
}

// Moved is the data of artifact.exported and artifact.imported.
type Moved struct {
	Files   int64 `json:"files"`
	Bytes   int64 `json:"bytes"`
	Partial bool  `json:"partial,omitempty"` // as of Changed
}

// Asked is the data of approval.asked.
type Asked struct {
	Operation string `json:"operation"`
	Rule      int    `json:"rule"` // of the policy's approve.rules, from 0
}

// Answered is the data of approval.answered. By and Reason are the answer's own words,
// made visible.
type Answered struct {
	Operation string `json:"operation"`
	Rule      int    `json:"rule"`
	Approved  bool   `json:"approved"`
	Failed    bool   `json:"failed,omitempty"` // there was no answer that could be used
	By        string `json:"by,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// Text makes any bytes fit for an event.
func Text(s string) string { return visible(s) }

// Path makes a path of any bytes fit for Changed.
func Path(p []byte) string { return visible(string(p)) }

// Reaped is the data of gc.reaped.
type Reaped struct {
	CreatedAt time.Time `json:"createdAt"`
}

// Finished is the data of exec.finished: a result without output, or, where the
// command never ran or nobody saw its end, why. Members are those of
// jailer.Result.
type Finished struct {
	Status          jailer.Status `json:"status,omitempty"`
	ExitCode        *int          `json:"exitCode,omitempty"`
	Signal          *string       `json:"signal,omitempty"`
	Limit           *jailer.Limit `json:"limit,omitempty"`
	LimitsHit       []string      `json:"limitsHit,omitempty"`
	StartedAt       string        `json:"startedAt,omitempty"`
	DurationMs      *int64        `json:"durationMs,omitempty"`
	SetupMs         *int64        `json:"setupMs,omitempty"`
	StdoutBytes     *int64        `json:"stdoutBytes,omitempty"`
	StdoutTruncated bool          `json:"stdoutTruncated,omitempty"`
	StderrBytes     *int64        `json:"stderrBytes,omitempty"`
	StderrTruncated bool          `json:"stderrTruncated,omitempty"`
	Usage           *jailer.Usage `json:"usage,omitempty"`
	LeftoverKilled  *int64        `json:"leftoverKilled,omitempty"`
	InitLost        bool          `json:"initLost,omitempty"`
	Error           *Failure      `json:"error,omitempty"`
}

// FinishedBy is what an event says of a result.
func FinishedBy(r *jailer.Result) Finished {
	f := Finished{
		Status: r.Status, ExitCode: r.ExitCode, Signal: r.Signal, Limit: r.Limit, LimitsHit: r.LimitsHit,
		StartedAt:  r.StartedAt.UTC().Format(stampForm),
		DurationMs: &r.DurationMs, SetupMs: r.SetupMs,
		StdoutBytes: &r.StdoutBytes, StdoutTruncated: r.StdoutTruncated,
		Usage: &r.Usage, LeftoverKilled: r.LeftoverKilled, InitLost: r.InitLost,
	}
	if !r.Terminal {
		f.StderrBytes, f.StderrTruncated = &r.StderrBytes, r.StderrTruncated
	}
	if r.Error != nil {
		f.Error = FailureOf(r.Error)
	}
	return f
}
