package jailer

import (
	"context"
	"slices"
	"time"
)

// An Operation is what somebody wants to do, as a Client's Authorizer and Approver are
// asked. Fields that don't apply are empty.
type Operation struct {
	Name         string // run, create, open, exec, start, ps, logs, stop, fs, export, import, close
	SessionID    string // "" for a run and a session to be made
	Profile      string // as asked for, or the session's
	Tenant       string
	Workspace    string // persistent, TENANT/RESOURCE
	Labels       map[string]string
	Capabilities []string // that it uses
	Argv         []string // of a command
	Paths        []string // that it writes; an import's are not known beforehand
}

// A Decision allows an operation, or doesn't. The zero Decision does not.
type Decision struct {
	Allow  bool
	By     string // who decided
	Reason string // for people
}

// An Asker decides operations of a Client's. An error, and no answer in
// Client.AskTimeout, is a no.
type Asker func(context.Context, Operation) (Decision, error)

const askTimeout = time.Minute

// may asks the client's own program: the policy's owners and programs are asked beside it,
// by jailer.
func (c *Client) may(ctx context.Context, op Operation) error {
	if err := c.ask(ctx, c.Authorizer, op, CodeUnauthorized, "authorize"); err != nil {
		return err
	}
	if !slices.ContainsFunc(op.Capabilities, func(cap string) bool { return slices.Contains(sensitive, cap) }) {
		return nil
	}
	return c.ask(ctx, c.Approver, op, CodeApprovalDenied, "approve")
}

// sensitive is what an Approver is asked for.
var sensitive = []string{CapExec, CapProcess, CapFSWrite, CapExport, CapImport}

func (c *Client) ask(ctx context.Context, asker Asker, op Operation, code Code, who string) error {
	if asker == nil {
		return nil
	}
	wait := c.AskTimeout
	if wait <= 0 {
		wait = askTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	type answer struct {
		d   Decision
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		d, err := asker(ctx, op)
		answered <- answer{d, err}
	}()
	var a answer
	select {
	case a = <-answered:
	case <-ctx.Done(): // it may not listen to that
		a.err = context.Cause(ctx)
	}
	switch {
	case a.err != nil:
		return &Error{Code: code, Op: who, Message: op.Name + " was neither allowed nor refused, which is a no", Err: a.err}
	case !a.d.Allow:
		e := &Error{Code: code, Op: who, Message: op.Name + " was refused"}
		if a.d.Reason != "" {
			e.Message += ": " + quote(a.d.Reason)
		}
		return e
	}
	return nil
}

// making is the operation of a request.
func making(name string, r Request) Operation {
	op := Operation{
		Name: name, Profile: r.Profile, Tenant: r.Tenant, Workspace: r.Workspace, Labels: r.Labels, Argv: r.Argv,
	}
	if len(r.Argv) > 0 {
		op.Capabilities = []string{CapExec}
	}
	for _, f := range r.Files {
		op.Paths = append(op.Paths, f.Path)
	}
	if op.Paths = append(op.Paths, r.Directories...); len(op.Paths) > 0 {
		op.Capabilities = append(op.Capabilities, CapFSWrite)
	}
	return op
}
