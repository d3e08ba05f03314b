package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/boottime"
	"github.com/jailer-project/jailer/internal/wire"
)

const (
	// maxBusy bounds the clients that may hold their connection for long, by a command
	// or a log; maxClients all: that so many commands run must not keep anybody from
	// ending the session.
	maxBusy    = 64
	maxClients = maxBusy + 16

	helloWait  = 5 * time.Second  // for a client's first message
	sendWait   = 5 * time.Second  // for a client to take an answer
	followWait = 30 * time.Second // for one who follows a log
	totalsWait = 2 * time.Second  // for a client's count, once the session is ended
	partWait   = 5 * time.Second  // for the last answers
)

// Options says what a supervisor watches.
type Options struct {
	Program string        // the version of the program
	Began   time.Duration // of the session, by boottime.Now

	// Token is the SHA-256 of what each client has to present; nil for nothing.
	Token []byte

	Owner  <-chan struct{} // closed when the session's owner has ended; may be nil
	Stop   <-chan struct{} // closed when the session is to end; may be nil
	Logger *slog.Logger
}

// A Server is the supervisor of one session.
type Server struct {
	jail Jail
	o    Options
	log  *slog.Logger
	l    *wire.Listener
	life *activity

	created   time.Time
	requested chan struct{} // has a value once somebody asked for the end
	ending    chan struct{} // closed at the begin of the end
	gone      chan struct{} // closed when nothing of the jail is left, or failed is why
	failed    error

	busy    chan struct{} // a place each
	clients chan struct{}

	mu        sync.Mutex
	answering int           // clients that wait for an answer
	quiet     chan struct{} // closed when none does any more; nil before the end
	procs     []*process
	last      int // number of the last process
}

// New makes the socket of a session, which nobody answers before Run. The jail stays
// the caller's if it fails.
func New(jail Jail, o Options) (*Server, error) {
	l, err := wire.Listen(jail.Dir())
	if err != nil {
		return nil, &jailer.Error{Code: jailer.CodeInternal, Op: "session.socket", Err: err}
	}
	limits := jail.Plan().Limits
	s := &Server{
		jail: jail, o: o, log: o.Logger, l: l,
		life:      newActivity(o.Began, limits.TTL, limits.Idle),
		created:   time.Now().Add(o.Began - boottime.Now()).UTC(),
		requested: make(chan struct{}, 1), ending: make(chan struct{}), gone: make(chan struct{}),
		busy: make(chan struct{}, maxBusy), clients: make(chan struct{}, maxClients),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// Run answers clients until the session ends, removes the jail, and says what could
// not be removed. It must be called on the thread that opened the jail, which dies
// with it.
func (s *Server) Run() error {
	go s.accept()
	return s.End(s.wait())
}

// wait is the session's life. It returns why it is over.
func (s *Server) wait() audit.Reason {
	timer := boottime.NewTimer(0)
	defer timer.Stop()
	for {
		why, left := s.life.expired()
		if why != "" {
			return why
		}
		timer.Reset(left)
		select {
		case <-timer.C:
		case <-s.life.quiet:
		case <-s.requested:
			return audit.Requested
		case <-s.o.Stop:
			return audit.Requested
		case <-s.o.Owner:
			return audit.OwnerExited
		case <-s.jail.Full():
			return s.jail.FullReason()
		case <-s.jail.Done(): // PID 1 was killed: nothing else ends it
			return audit.Failed
		}
	}
}

// End ends the session. Clients that wait for an answer have it before it returns, if
// they take it.
func (s *Server) End(why audit.Reason) error {
	s.log.Info("session ends", "reason", why)
	s.life.end()
	close(s.ending)
	s.failed = s.jail.Close(why)
	close(s.gone)
	s.l.Close()
	select {
	case <-s.answered():
	case <-time.After(partWait):
	}
	return s.failed
}

// answered is closed when no client waits for an answer any more.
func (s *Server) answered() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := make(chan struct{})
	if s.answering == 0 {
		close(done)
	} else {
		s.quiet = done
	}
	return done
}

// count counts a client that waits for an answer.
func (s *Server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answering += n; s.answering == 0 && s.quiet != nil {
		close(s.quiet)
		s.quiet = nil
	}
}

// accept takes clients in until the socket is closed.
func (s *Server) accept() {
	for {
		c, err := s.l.Accept()
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors or memory: those that are held come back
			s.log.Warn("no client taken in", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		c.SendWithin(sendWait)
		select {
		case s.clients <- struct{}{}:
			go func() {
				defer func() { <-s.clients }()
				s.serve(&client{Conn: c, s: s})
			}()
		default:
			// One message fits into the socket's buffer: nothing waits here.
			(&client{Conn: c, s: s}).fail(tooMany)
			c.Close()
		}
	}
}

var tooMany = &jailer.Error{
	Code: jailer.CodeSessionLimit, Op: "session.socket", Retryable: true,
	Message: "as many clients as a session may have are at it", Hint: "wait until one has ended",
}

// A client is one connection, seen by the supervisor.
type client struct {
	*wire.Conn
	s *Server
}

// serve answers one client.
func (s *Server) serve(c *client) {
	defer c.Close()
	if err := c.known(); err != nil {
		s.jail.Denied(asError(err))
		c.fail(err)
		return
	}
	if err := c.ReceiveUntil(time.Now().Add(helloWait)); err != nil {
		return
	}
	m, files, err := c.Receive()
	defer wire.CloseAll(files)
	if err != nil {
		if errors.Is(err, wire.ErrProtocol) {
			c.fail(&jailer.Error{Code: jailer.CodeInvalidRequest, Op: "session.socket", Err: err})
		}
		return
	}
	_ = c.ReceiveUntil(time.Time{})
	if err := checkVersion(m, "the session's supervisor", s.o.Program, "this program"); err != nil {
		c.fail(err)
		return
	}
	if err := s.authorized(m); err != nil {
		s.jail.Denied(asError(err))
		c.fail(err)
		return
	}
	if m.Type != wire.Exec && len(files) > 0 {
		c.fail(&jailer.Error{Code: jailer.CodeInvalidRequest, Op: "session.socket", Message: "descriptors given where none are wanted"})
		return
	}
	if err := s.allowed(c, m); err != nil {
		if e := asError(err); e.Code != jailer.CodeInvalidRequest {
			s.jail.Denied(e)
		}
		c.fail(err)
		return
	}
	s.answer(c, m, files)
}

func (s *Server) answer(c *client, m *wire.Message, files []*os.File) {
	s.count(1)
	defer s.count(-1)
	var err error
	switch m.Type {
	case wire.Exec:
		err = s.held(func() error { return s.exec(c, m, files) })
	case wire.Logs:
		err = s.held(func() error { return s.logs(c, m) })
	case wire.Files:
		err = s.held(func() error { return s.files(c, m) })
	case wire.Start:
		err = s.start(c, m)
	case wire.List:
		err = c.done(s.list(m.Prune))
	case wire.Stop:
		err = s.held(func() error { return s.stop(c, m) })
	case wire.Kill:
		err = s.kill(c, m)
	case wire.State:
		err = c.done(s.State())
	case wire.Delete:
		err = s.remove(c)
	default:
		err = &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "session.socket", Message: fmt.Sprintf("unknown message %.40q", m.Type)}
	}
	if err != nil {
		c.fail(err)
	}
}

// held takes a place for a client that may hold it for long.
func (s *Server) held(f func() error) error {
	select {
	case s.busy <- struct{}{}:
	default:
		return tooMany
	}
	defer func() { <-s.busy }()
	return f()
}

// remove ends the session and answers when nothing of it is left.
func (s *Server) remove(c *client) error {
	select {
	case s.requested <- struct{}{}:
	default: // asked for already
	}
	<-s.gone
	if s.failed != nil {
		return s.failed
	}
	return c.done(struct {
		V  int    `json:"v"`
		ID string `json:"id"`
	}{jailer.ProtocolVersion, s.jail.ID()})
}

// known refuses everybody but the session's user and root. Nobody else can pass the
// directory; that a descriptor of the socket or of the directory went astray must not
// be enough.
func (c *client) known() error {
	cred, err := c.Peer()
	if err == nil && (cred.Uid == uint32(os.Geteuid()) || cred.Uid == 0) {
		return nil
	}
	return &jailer.Error{Code: jailer.CodeUnauthorized, Op: "session.socket", Message: "the session is another user's", Err: err}
}

// checkVersion compares a first message's version with ours.
func checkVersion(m *wire.Message, we, program, they string) error {
	if m.V == wire.Version {
		return nil
	}
	return &jailer.Error{
		Code: jailer.CodeInvalidState, Op: "session.version", Reason: "session.version",
		Message: fmt.Sprintf("%s (jailer %.40q) speaks version %d of the session protocol, %s (jailer %.40q) version %d",
			we, program, wire.Version, they, m.Program, m.V),
		Hint: "use the jailer that created the session, or end its supervisor (kill -TERM) and create another one",
	}
}

// send adds the version, which the first message of each side has.
func (c *client) send(m *wire.Message, files ...*os.File) error {
	m.V, m.Program = wire.Version, c.s.o.Program
	return c.Send(m, files...)
}

func (c *client) done(doc any) error {
	return c.document(wire.Done, 0, doc)
}

func (c *client) document(t wire.Type, signal int, doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	c.lost(c.send(&wire.Message{Type: t, Signal: signal, Document: b}))
	return nil
}

func (c *client) fail(err error) {
	b, merr := json.Marshal(asError(err))
	if merr != nil {
		return
	}
	c.lost(c.send(&wire.Message{Type: wire.Error, Document: b}))
}

// lost notes an answer that its client did not take.
func (c *client) lost(err error) {
	if err != nil && !errors.Is(err, unix.EPIPE) {
		c.s.log.Debug("an answer was not taken", "err", err)
	}
}

func asError(err error) *jailer.Error {
	if e, ok := errors.AsType[*jailer.Error](err); ok {
		return e
	}
	return &jailer.Error{Code: jailer.CodeInternal, Op: "session", Err: err}
}

// context ends with the client's connection. receive is called with each of his
// messages.
func (c *client) context(receive func(*wire.Message)) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		for {
			m, files, err := c.Receive()
			wire.CloseAll(files)
			if err != nil {
				cancel(errClientGone)
				return
			}
			receive(m)
		}
	}()
	return ctx, cancel
}

var errClientGone = errors.New("the client is gone")
