// Package wire is what a session's supervisor and its clients say to each other on the
// socket in the session's directory: framed JSON messages, with descriptors beside
// them.
//
// A message is a length of four bytes, little-endian, and so many bytes of JSON. Its
// descriptors come by SCM_RIGHTS with the first byte of the length (unix(7)). Results,
// errors, requests and states are documents of others and pass through as they are.
//
// Both ends are of one user, and of two versions of the program, perhaps: the first
// message of each has the version, and whoever reads another one than his own says
// which two met. Within a version, members that a reader doesn't know are ignored.
package wire

import (
	"encoding/json"
	"time"
)

// Version of the protocol.
const Version = 1

const (
	// MaxMessage bounds a message, in bytes. A request document may have 1 MiB, and a
	// log ring, in base64, half as much again.
	MaxMessage = 4 << 20
	// MaxFiles bounds the descriptors of one message: stdin, stdout, stderr.
	MaxFiles = 3
)

// A Type says what a message is.
type Type string

// What a client asks for, in its first message. All but Exec and Logs are answered by
// one Done or Error.
const (
	Exec   Type = "exec"   // Command; Files: the job's [stdin,] stdout, stderr; none with a terminal
	Start  Type = "start"  // Command, Name: a managed process; Done has it
	List   Type = "ps"     // Prune; Done has the processes, before they were pruned
	Logs   Type = "logs"   // Process, Stream, Tail, Follow
	Stop   Type = "stop"   // Process, Grace; Done has it, at its end
	Kill   Type = "kill"   // Process, Signal; Done has it
	State  Type = "state"  // Done has the state
	Delete Type = "delete" // Done when nothing is left
	// Files has Rights; Done has Grant and the workspace, and its lock where it is a
	// persistent one. Then come Notes, each answered, until one of the two ends.
	Files Type = "files"
)

// What the supervisor answers.
const (
	Done Type = "done" // Document
	// Asking may come before any of them: somebody is asked first, who may take as long
	// as Grace.
	Asking Type = "asking"
	Error  Type = "error" // Document: an error

	// Of Exec, in this order.
	Started  Type = "started"  // Begun
	Terminal Type = "terminal" // a File: the other end of the command's terminal, where it has one
	Ended    Type = "ended"    // all processes of the command are gone; Totals are wanted
	Result   Type = "result"   // Document, Signal: the one that interrupted it, if one did

	// Of Logs: Lost bytes come before Data; End is the end of the stream.
	Data Type = "data"
	End  Type = "end"
)

// What a client of Exec says later. That it goes away aborts the command.
const (
	Signal   Type = "signal"   // Signal
	Exceeded Type = "exceeded" // output is over the cap, which ends the command
	Totals   Type = "totals"   // Output
)

// What a client of Files says of what it did; answered by Done, when it is in the event
// log, or Error.
const Note Type = "note" // Change

// A Message is any message; each type has its members.
type Message struct {
	V       int    `json:"v,omitempty"` // in the first message of each side
	Program string `json:"program,omitempty"`
	Type    Type   `json:"type"`

	Command *Command `json:"command,omitempty"`
	Begun   *Begun   `json:"begun,omitempty"`
	Output  *Output  `json:"output,omitempty"`

	Name    string        `json:"name,omitempty"`    // of a process to be
	Process string        `json:"process,omitempty"` // id or name
	Stream  string        `json:"stream,omitempty"`  // stdout, stderr
	Tail    int           `json:"tail,omitempty"`    // bytes; 0: all that is kept
	Follow  bool          `json:"follow,omitempty"`
	Prune   bool          `json:"prune,omitempty"`
	Grace   time.Duration `json:"grace,omitempty"`  // ns
	Signal  int           `json:"signal,omitempty"` // its number

	Lost int64  `json:"lost,omitempty"` // bytes
	Data []byte `json:"data,omitempty"`

	Token  []byte   `json:"token,omitempty"`  // in a client's first message, where the session has one
	Rights []string `json:"rights,omitempty"` // the capabilities that a client of Files needs
	Paths  [][]byte `json:"paths,omitempty"`  // that it will write; absent where it can't tell
	Grant  *Grant   `json:"grant,omitempty"`
	Change *Change  `json:"change,omitempty"`

	Document json.RawMessage `json:"document,omitempty"`
}

// A Grant is how a client may use the workspace's descriptor.
type Grant struct {
	// Whose the files are on the host. Root acts as this user: it has no id in the
	// jail, whose file system takes nothing from it.
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`

	MaxFile     int64    `json:"maxFile"` // bytes of one file, in and out
	Protected   []string `json:"protected"`
	OnProtected string   `json:"onProtected"`

	Straight bool `json:"straight,omitempty"` // writing follows no link at all
}

// A Change is what a client did with the files of a session. It has no content.
type Change struct {
	Event string `json:"event"` // FileWritten, …
	Verb  string `json:"verb,omitempty"`
	Path  []byte `json:"path,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	Files int64  `json:"files,omitempty"`
	// Partial: it failed, and this is what was done before.
	Partial bool `json:"partial,omitempty"`
}

// Values of Change.Event, which are types of the event log.
const (
	FileWritten      = "file.written"
	FileRemoved      = "file.removed"
	ArtifactExported = "artifact.exported"
	ArtifactImported = "artifact.imported"
)

// A Command is what to run.
type Command struct {
	Request []byte  `json:"request,omitempty"` // a request document
	Flags   *Flags  `json:"flags,omitempty"`   // what the command line says beside it
	Stdin   bool    `json:"stdin,omitempty"`   // the first descriptor is its standard input
	TTY     *Window `json:"tty,omitempty"`
}

// Flags are those of a command. Strings that need be no UTF-8 are bytes: JSON would
// change them.
type Flags struct {
	Argv          [][]byte          `json:"argv,omitempty"`
	Env           map[string][]byte `json:"env,omitempty"`
	Cwd           []byte            `json:"cwd,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	TraceParent   string            `json:"traceparent,omitempty"`
	Limits        map[string]int64  `json:"limits,omitempty"` // by limits.Field.Name, in its unit
	CPUSet        string            `json:"cpuset,omitempty"`
	OutputKeep    string            `json:"outputKeep,omitempty"`
	OnOutputLimit string            `json:"onOutputLimit,omitempty"`
	Stdin         bool              `json:"stdin,omitempty"`
	Capabilities  []string          `json:"capabilities"` // null: not given; an empty list asks for none
	AppArmor      bool              `json:"apparmor,omitempty"`
}

// A Window is the size and the TERM of a command's terminal.
type Window struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
	Type string `json:"type,omitempty"`
}

// Begun is a command that has been exec'ed, and how its output is to be read.
type Begun struct {
	SessionID string    `json:"sessionId"`
	ExecID    string    `json:"execId"`
	At        time.Time `json:"at"`
	SetupMs   int64     `json:"setupMs"`

	MaxOutput     int64  `json:"maxOutput"` // bytes kept of each stream
	OutputKeep    string `json:"outputKeep,omitempty"`
	OnOutputLimit string `json:"onOutputLimit,omitempty"`
}

// Output is how much a command wrote, by its reader's count.
type Output struct {
	Stdout          int64 `json:"stdout"`
	Stderr          int64 `json:"stderr"`
	StdoutTruncated bool  `json:"stdoutTruncated,omitempty"`
	StderrTruncated bool  `json:"stderrTruncated,omitempty"`
}
