package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer/internal/audit"
	"github.com/jailer-project/jailer/internal/boottime"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/session"
)

// superviseCommand is what create starts; nobody else does.
func (a *app) superviseCommand() *cobra.Command {
	f := &sessionFlags{}
	var answerFD, argsFD int
	c := &cobra.Command{
		Use:    "supervise [flags]",
		Short:  "Keep a session (started by jailer create)",
		Hidden: true,
		Args:   exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			answer, err := session.TakeAnswer(answerFD)
			if err != nil {
				return &usageError{err: errors.New("is started by jailer create alone"), command: "jailer create"}
			}
			args, err := takeArgs(argsFD)
			if err == nil {
				err = c.Flags().Parse(args)
			}
			if err != nil {
				a.code = 1
				_ = answer.Fail(asJailerError(err)) // create was killed, and wants none
				return nil
			}
			if err := a.supervise(f, answer); err != nil {
				a.code = 1
				if answer.Fail(asJailerError(err)) != nil {
					return err
				}
			}
			return nil
		},
	}
	a.registerSession(f, c.Flags())
	c.Flags().IntVar(&answerFD, "answer-fd", 0, "answer on the inherited pipe `N`")
	c.Flags().IntVar(&argsFD, "args-fd", 0, "take the flags of create from the inherited pipe `N`")
	return c
}

// supervise is the life of a session. It stays on the main thread: the jail dies with
// the thread that opened it.
func (a *app) supervise(f *sessionFlags, answer *session.Answer) error {
	beganBoot := boottime.Now()
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) // not ignored: a command would inherit that
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	broken, forget, err := answer.Broken()
	if err != nil {
		return err
	}
	answered := make(chan struct{})
	go func() {
		select {
		case <-broken:
			cancel() // create was killed
		case <-answered:
		}
	}()
	owner, unwatch := launch.WatchOwner(f.ownerPID) // Open refuses one that is gone already
	defer unwatch()
	o, err := a.sessionOptions(f)
	if err != nil {
		return err
	}
	jail, err := launch.Open(ctx, o)
	o.Seed.Close()
	if err != nil {
		return err
	}
	s, err := session.New(jail, session.Options{
		Program: version, Token: o.TokenHash, Began: beganBoot, Owner: owner, Stop: ctx.Done(), Logger: o.Logger,
	})
	if err != nil {
		return errors.Join(err, jail.Close(audit.Failed))
	}
	if err := answer.State(s.State()); err != nil {
		return errors.Join(err, s.End(audit.Requested))
	}
	close(answered)
	forget()
	if err := detach(); err != nil {
		return errors.Join(err, s.End(audit.Failed))
	}
	// Only now: who reads create's streams to their end doesn't wait for the session.
	answer.Close()
	debug.FreeOSMemory() // what was needed to make the jail
	if err := s.Run(); err != nil {
		a.code = 1 // gc removes it, and says what
	}
	return nil
}

// sessionOptions are the flags as launch.Open wants them.
func (a *app) sessionOptions(f *sessionFlags) (launch.Options, error) {
	if err := f.check(); err != nil {
		return launch.Options{}, err
	}
	o, err := a.commandOptions(&f.requestFlags, nil)
	if err != nil {
		return o, err
	}
	o.ID, o.OwnerPID, o.PIDFile = f.id, f.ownerPID, f.pidFile
	err = f.policyAndSeed(&o)
	return o, err
}

// detach lets go of everything that is the caller's: streams, working directory.
func detach() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
	}
	return os.Chdir("/")
}
