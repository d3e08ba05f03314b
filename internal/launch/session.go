package launch

import (
	"context"
	"sync"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/policy"
)

// maxCommands bounds the commands that run in a session at once: the limits are each
// command's own, so together they may use so many times as much.
const maxCommands = 16

// Open makes a jail without a command. The thread's rule is Run's, for as long as the
// jail lives. An error means that there is none, and nothing is left, or it says what.
func Open(ctx context.Context, o Options) (*Jail, error) {
	j := newJail(ctx, o)
	err := j.do([]step{
		{"request", j.readRequest},
		{"resolve", j.resolve},
		{"probe", j.probe},
		{"descriptors", j.closeDescriptors},
		{"workspace", j.openWorkspace},
		{"state", j.makeState},
		{"cgroup", j.makeCgroup},
		{"root", j.assembleRoot},
		{"spec", j.buildSpec},
		{"container", j.startContainer},
		{"files", j.seed},
		{"settle", j.settle},
	}...)
	if err != nil {
		return nil, j.refuse(err)
	}
	return j, nil
}

// Exec runs one command in a live jail. Many may run at once. An error means that it
// never ran.
func (j *Jail) Exec(ctx context.Context, o Command) (*Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := j.newCommand(ctx, o)
	leave, err := j.enter(c)
	if err != nil {
		return nil, err
	}
	defer leave()
	err = j.do([]step{
		{"resolve", c.resolve},
		{"cgroup", c.makeCgroup},
		{"job", c.start},
		{"stream", c.supervise},
		{"end", c.end},
		{"usage", c.measure},
		{"cleanup", c.leave},
	}...)
	if err != nil {
		return nil, c.refuse(err)
	}
	return c.outcome(), nil
}

// settle ends what belongs to the making of the jail alone.
func (j *Jail) settle() error {
	j.coolDown()
	j.settled()
	if a := j.aborted.Load(); a != nil {
		return j.setupError(errGone)
	}
	if err := j.session.Update(func(r *state.Record) { r.Session.PID1 = j.PID() }); err != nil {
		return noState(err)
	}
	// What was put in may be secret, and the supervisor lives long.
	j.o.Request, j.o.Seed, j.request, j.plan.Files, j.plan.Directories = nil, nil, nil, nil, nil
	j.settledNow = true
	return nil
}

// enter counts a command in, unless the session is at its end or full.
func (j *Jail) enter(c *command) (leave func(), err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.ended != nil || j.reports.over():
		return nil, errGone
	case len(j.running)-j.unread >= maxCommands:
		return nil, &jailer.Error{
			Code: jailer.CodeProcessLimit, Op: "exec", Reason: "session.commands", Retryable: true,
			Message: "as many commands as a session may have run in this one",
			Hint:    "wait until one has ended, or end one",
		}
	}
	j.n++
	c.n = j.n
	c.closing = make(chan struct{})
	j.running[c] = sync.OnceFunc(func() { close(c.closing) })
	j.commands.Add(1)
	return func() {
		j.mu.Lock()
		delete(j.running, c)
		j.mu.Unlock()
		j.commands.Done()
	}, nil
}

// reading gives a command's place to others while it waits for its reader: nothing of it
// runs any more.
func (j *Jail) reading() (end func()) {
	add := func(n int) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.unread += n
	}
	add(1)
	return func() { add(-1) }
}

var errGone = &jailer.Error{
	Code: jailer.CodeInvalidState, Op: "session", Reason: "session.ended",
	Message: "the session is at its end", Hint: "create another one",
}

// Close ends every command, removes the jail and records why. It waits for both. It
// may be called more than once, and gives the first call's error.
func (j *Jail) Close(reason audit.Reason) error {
	j.mu.Lock()
	if j.ended == nil {
		j.ended = &cause{status: jailer.StatusAborted, reason: reason}
		switch reason {
		case audit.TTL:
			*j.ended = causeTTL
		case audit.OwnerExited:
			*j.ended = causeOwner
		case audit.LimitHit:
			*j.ended = causeWorkspace
		}
	}
	for _, end := range j.running {
		end()
	}
	j.mu.Unlock()
	j.closeOnce.Do(func() {
		j.commands.Wait()
		j.closeErr = j.undoAll()
	})
	return j.closeErr
}

// endedBy is why the session was ended; nil while it lives.
func (j *Jail) endedBy() *cause {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended
}

// ID is the session's id.
func (j *Jail) ID() string { return j.o.ID }

// PID is PID 1 on the host.
func (j *Jail) PID() int { return j.con.Pid() }

// Plan is what the policy made of the session's request.
func (j *Jail) Plan() *policy.Plan { return j.plan }

// Dir is the session's directory that only its owner may enter.
func (j *Jail) Dir() string { return j.session.Priv }

// Done is closed when PID 1 has ended, whoever ended it.
func (j *Jail) Done() <-chan struct{} { return j.reports.gone }
