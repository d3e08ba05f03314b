// Package session is a jail that outlives a command: the supervisor, one small process
// for each session, which owns the jail, its clock and its managed processes; and the
// verbs' side of the socket on which it answers.
//
// The supervisor trusts its clients, who are its own user or root, to own the session;
// it doesn't rest on any of them. What one says or leaves unsaid, sends or doesn't
// read, holds up neither the clock nor another client nor the end. It keeps nothing
// that grows: output of commands goes from the job to the client past it, that of
// managed processes into rings.
package session

import (
	"context"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/access"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/policy"
)

// A Jail is what the supervisor keeps: a *launch.Jail.
type Jail interface {
	ID() string
	PID() int
	Plan() *policy.Plan
	Dir() string
	Exec(context.Context, launch.Command) (*launch.Outcome, error)
	Done() <-chan struct{}
	Full() <-chan struct{}
	FullReason() audit.Reason
	Files() (launch.Files, error)
	Allowed(context.Context, access.Operation, func(time.Duration)) error
	Note(audit.Event) error
	Denied(*jailer.Error)
	Close(audit.Reason) error
}

var _ Jail = (*launch.Jail)(nil)
