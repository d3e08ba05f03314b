// Package access is the one place that says whether somebody may do something, beside
// what a profile grants: the policy's owners, its authorize command, and, for what its
// rules name, its approve command. Whatever is not a clear yes is a no.
package access

import (
	"context"
	"fmt"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/policy"
)

// An Operation is what somebody wants to do, as the programs that are asked read it, in
// one JSON document. Members that don't apply are absent.
type Operation struct {
	Name         string // run, create, exec, fs, logs, …
	SessionID    string
	Profile      string
	Tenant       string
	Workspace    string // persistent, TENANT/RESOURCE
	Labels       map[string]string
	Capabilities []string // that it uses
	Argv         []string // any bytes
	Paths        []string // that it writes, any bytes
	AnyPath      bool     // it writes, and where is not known beforehand
}

// A Gate checks operations against one policy.
type Gate struct {
	Policy *policy.Policy
	UID    int // of whoever wants something, on the host
	// Note writes an event about the operation, and its error is one of the operation's.
	Note func(context.Context, audit.Event) error
	// Asking is called before somebody is asked, who may take that long; nil for nobody.
	Asking func(time.Duration)
}

// Check is Authorize and Approve.
func (g *Gate) Check(ctx context.Context, op Operation) error {
	if err := g.Authorize(ctx, op); err != nil {
		return err
	}
	return g.Approve(ctx, op)
}

// Authorize asks who may do what: the policy's owners, and its authorize command. The
// error is a *jailer.Error with the code unauthorized.
func (g *Gate) Authorize(ctx context.Context, op Operation) error {
	if err := g.Policy.Permits(uint32(g.UID), op.Tenant, op.Profile); err != nil {
		return err
	}
	program := g.Policy.Access.Authorize
	if program.Command == nil {
		return nil
	}
	a, err := g.ask(ctx, program, op, nil)
	if err == nil && a.Allow {
		return nil
	}
	return &jailer.Error{
		Code: jailer.CodeUnauthorized, Op: "authorize.command", Err: err, Retryable: err != nil,
		Message: a.refusal("the policy's authorize command", err),
		Hint:    "the policy's [authorize] says who is asked",
	}
}

// Approve asks for what a rule of the policy names. The error is a *jailer.Error with the
// code approval_denied, or that of Note.
func (g *Gate) Approve(ctx context.Context, op Operation) error {
	rule, needs := g.Policy.NeedsApproval(policy.Action{
		Capabilities: op.Capabilities, Argv: op.Argv, Paths: op.Paths, AnyPath: op.AnyPath,
	})
	if !needs {
		return nil
	}
	denied := &jailer.Error{
		Code: jailer.CodeApprovalDenied, Op: "approve", Path: fmt.Sprintf("approve.rules[%d]", rule),
		Message: "needs an approval, and the policy has no approve.command that could give it",
		Hint:    "the policy's [approve] says what is asked for, and whom",
	}
	program := g.Policy.Access.Approve
	if program.Command == nil {
		return denied
	}
	if err := g.Note(ctx, audit.Event{Type: audit.ApprovalAsked, Data: audit.Asked{Operation: op.Name, Rule: rule}}); err != nil {
		return err
	}
	a, err := g.ask(ctx, program, op, &rule)
	yes := err == nil && a.Allow
	answer := audit.Answered{Operation: op.Name, Rule: rule, Approved: yes, By: audit.Text(a.By), Reason: audit.Text(a.Reason)}
	if err != nil {
		answer.Failed = true
	}
	// Also when the caller has given up: who asked has an answer.
	if err := g.Note(context.WithoutCancel(ctx), audit.Event{Type: audit.ApprovalAnswered, Data: answer}); err != nil {
		return err
	}
	if yes {
		return nil
	}
	denied.Message, denied.Err = a.refusal("the policy's approve command", err), err
	return denied
}
