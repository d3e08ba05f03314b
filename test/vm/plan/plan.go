// Package plan is what the host and the guest of the test bed tell each other:
// the plan goes in as JSON in a file, what came of it comes out as JSON lines.
package plan

import (
	"encoding/json"
	"time"
)

// Plan is one boot of the guest.
type Plan struct {
	Ways []Way
}

// Way is one state of the guest and one kind of caller, in which jobs run.
type Way struct {
	Name string
	// What it shows, in a line for people.
	What string
	// User runs the jobs.
	User string
	// Place is where in the cgroup tree they run.
	Place Place
	// Enter is a shell script that root runs in the place instead of the user. It
	// ends in the job, "$@", as the user.
	Enter string `json:",omitempty"`
	// Setup and Teardown are shell scripts that root runs before and after.
	Setup, Teardown string `json:",omitempty"`
	Env             map[string]string
	Jobs            []Job
}

// Place is where in the cgroup tree the jobs of a way run.
type Place string

// The places.
const (
	// Own is a service of the caller's own systemd manager with Delegate=yes.
	Own Place = "own"
	// System is a service of the system's manager, without delegation.
	System Place = "system"
	// Guest is where the guest's program is: a service of the system's manager.
	// Only for root.
	Guest Place = "guest"
)

// Job is one command: a test binary, which Test says, or anything.
type Job struct {
	Name string
	Dir  string // below the tree
	Argv []string
	Test bool
	// Must are subtests that have to be in the answer, beside the tests that the
	// binary lists.
	Must  []string `json:",omitempty"`
	Limit time.Duration
}

// Kind says what an Event tells.
type Kind string

// The kinds of events. Each way and each job begins and ends, and the last event
// of a guest that came to its end is End.
const (
	Boot     Kind = "boot"
	WayBegin Kind = "way-begin"
	WayEnd   Kind = "way-end"
	JobBegin Kind = "job-begin"
	JobEnd   Kind = "job-end"
	Test     Kind = "test"
	Output   Kind = "output"
	End      Kind = "end"
)

// Event is a line of the guest's answer.
type Event struct {
	Kind Kind   `json:"kind"`
	Way  string `json:"way,omitempty"`
	Job  string `json:"job,omitempty"`
	// Code is a job's exit status; -1 if it was killed at its limit.
	Code int `json:"code,omitempty"`
	// Error is why a way could not be set up or was not left as it was found.
	Error string `json:"error,omitempty"`
	// Text is a line of output that is no test's.
	Text string `json:"text,omitempty"`
	// Go is a record of `go tool test2json`.
	Go *TestEvent `json:"go,omitempty"`
}

// TestEvent is what test2json writes (`go doc test2json`), of which the time and
// the package are left out.
type TestEvent struct {
	Action  string
	Test    string  `json:",omitempty"`
	Elapsed float64 `json:",omitempty"`
	Output  string  `json:",omitempty"`
}

// Line is the event as it is sent.
func (e Event) Line() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // no event has anything that JSON can't say
	}
	return append(b, '\n')
}
