// Package usermanager asks the caller's systemd user manager for a cgroup: a
// transient scope, delegated, with this process in it
// (org.freedesktop.systemd1(5), systemd.scope(5)). It is for callers who have no
// delegated cgroup of their own: a login session, a cron job, a system service.
//
// It speaks to the manager over the user's message bus, which is documented;
// the manager's private socket is not. Every step is bounded: a bus that accepts
// and never answers is an error, not a hang.
package usermanager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// Wait bounds Enter. An idle manager needs some 20 ms; a bus that has to be
// started first, on a loaded host, can take seconds.
const Wait = 10 * time.Second

// Options of Enter. The zero value is the real host and Wait.
type Options struct {
	RuntimeDir string        // the caller's XDG_RUNTIME_DIR; "" or one without a bus = /run/user/UID
	Wait       time.Duration // for everything together; 0 = Wait

	uid     int    // 0 = the effective one
	runUser string // "" = /run/user
	proc    string // "" = /proc/self
}

func (o Options) withDefaults() Options {
	if o.Wait == 0 {
		o.Wait = Wait
	}
	if o.uid == 0 {
		o.uid = os.Geteuid()
	}
	if o.runUser == "" {
		o.runUser = "/run/user"
	}
	if o.proc == "" {
		o.proc = "/proc/self"
	}
	return o
}

const (
	manager     = "org.freedesktop.systemd1"
	managerPath = dbus.ObjectPath("/org/freedesktop/systemd1")
	managerFace = "org.freedesktop.systemd1.Manager"
)

// property is the (sv) of StartTransientUnit.
type property struct {
	Name  string
	Value dbus.Variant
}

// auxiliary is the (sa(sv)) of StartTransientUnit, of which none is sent.
type auxiliary struct {
	Name       string
	Properties []property
}

// Enter moves this process, all its threads, to a scope of its own below the
// user manager, and returns the unit's name when the kernel says that it is
// there. The scope ends with its last process. The error is an *Error.
func Enter(o Options) (unit string, err error) {
	o = o.withDefaults()
	ctx, cancel := context.WithTimeout(context.Background(), o.Wait)
	defer cancel()
	socket, err := o.socket()
	if err != nil {
		return "", err
	}
	conn, err := connect(ctx, socket, o.uid)
	if err != nil {
		return "", o.noBus(ctx, socket, err)
	}
	defer conn.Close()
	unit = unitName()
	if err := start(ctx, conn, unit); err != nil {
		return "", o.refused(ctx, socket, err)
	}
	if err := o.arrived(socket, unit); err != nil {
		return "", err
	}
	return unit, nil
}

// unitName is new each time: a name that was used is refused while its unit is
// loaded.
func unitName() string {
	b := make([]byte, 8)
	rand.Read(b) // never fails (crypto/rand)
	return "jailer-" + hex.EncodeToString(b) + ".scope"
}

// start makes the scope and waits for the end of the job that moves the process
// there: the call itself is answered before.
func start(ctx context.Context, conn *dbus.Conn, unit string) error {
	signals := make(chan *dbus.Signal, 64)
	conn.Signal(signals)
	err := conn.AddMatchSignalContext(ctx,
		dbus.WithMatchSender(manager), dbus.WithMatchObjectPath(managerPath),
		dbus.WithMatchInterface(managerFace), dbus.WithMatchMember("JobRemoved"))
	if err != nil {
		return err
	}
	systemd := conn.Object(manager, managerPath)
	// Without a subscriber the manager sends no signals.
	if err := systemd.CallWithContext(ctx, managerFace+".Subscribe", 0).Err; err != nil {
		return err
	}
	properties := []property{
		{"Description", dbus.MakeVariant("jailer")},
		// 0 is whoever asks, as the kernel names him to the bus. A number of ours
		// could, in another pid namespace, be a stranger's.
		{"PIDs", dbus.MakeVariant([]uint32{0})},
		// Every controller that the manager has itself.
		{"Delegate", dbus.MakeVariant(true)},
		// Gone at its end, however it ends.
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
	}
	var job dbus.ObjectPath
	err = systemd.CallWithContext(ctx, managerFace+".StartTransientUnit", 0, unit, "fail", properties, []auxiliary{}).Store(&job)
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s, ok := <-signals:
			if !ok {
				return dbus.ErrClosed
			}
			if result, mine := removed(s, job); mine {
				if result == "done" {
					return nil
				}
				return fmt.Errorf("its job ended with %q", result)
			}
		}
	}
}

// removed reads JobRemoved(u id, o job, s unit, s result).
func removed(s *dbus.Signal, job dbus.ObjectPath) (result string, mine bool) {
	if s.Name != managerFace+".JobRemoved" || len(s.Body) != 4 {
		return "", false
	}
	if path, ok := s.Body[1].(dbus.ObjectPath); !ok || path != job {
		return "", false
	}
	result, mine = s.Body[3].(string)
	return result, mine
}

// arrived asks the kernel: a manager that took somebody else for us would have
// moved him.
func (o Options) arrived(socket, unit string) error {
	b, err := os.ReadFile(o.proc + "/cgroup")
	if err != nil {
		return &Error{ID: "cgroup.manager.scope", File: o.proc + "/cgroup", Reason: "the caller's own cgroup can't be read", Hint: hintOther, Err: err}
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && strings.HasSuffix(path, "/"+unit) {
			return nil
		}
	}
	return &Error{
		ID: "cgroup.manager.scope", File: socket, Hint: hintOther,
		Reason: "the user manager says that it moved this process to " + unit + ", and the kernel doesn't",
	}
}

// Error says why there is no scope, and what mends it.
type Error struct {
	ID     string // as `jailer doctor` prints it
	File   string // the socket, or where one was looked for
	Reason string
	Hint   string
	Err    error
}

func (e *Error) Error() string {
	s := e.Reason
	if e.File != "" {
		s += " (" + e.File + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

const hintOther = "run jailer in a service of the system with `User=` and `Delegate=yes`, or as root"

func (o Options) hintManager() string {
	return "run `systemctl restart user@" + strconv.Itoa(o.uid) + ".service` as root, which ends what the user runs there"
}

func (o Options) noBus(ctx context.Context, socket string, err error) *Error {
	if late(ctx, err) {
		return o.silent(socket, err)
	}
	return &Error{
		ID: "cgroup.manager.bus", File: socket, Err: err,
		Reason: "the user's message bus can't be used", Hint: o.hintManager(),
	}
}

func (o Options) silent(socket string, err error) *Error {
	return &Error{
		ID: "cgroup.manager.timeout", File: socket, Err: err,
		Reason: fmt.Sprintf("the user manager did not answer within %v", o.Wait), Hint: o.hintManager(),
	}
}

func (o Options) refused(ctx context.Context, socket string, err error) *Error {
	if late(ctx, err) {
		return o.silent(socket, err)
	}
	var e dbus.Error
	if errors.As(err, &e) && strings.HasPrefix(e.Name, "org.freedesktop.DBus.Error.") {
		switch strings.TrimPrefix(e.Name, "org.freedesktop.DBus.Error.") {
		case "NoReply", "Timeout", "TimedOut":
			return o.silent(socket, err)
		case "ServiceUnknown", "NameHasNoOwner", "Disconnected":
			return &Error{
				ID: "cgroup.manager.bus", File: socket, Err: err, Hint: o.hintManager(),
				Reason: "the user's message bus has no systemd behind it",
			}
		}
		if strings.Contains(e.Name, ".Spawn.") {
			return &Error{
				ID: "cgroup.manager.bus", File: socket, Err: err, Hint: o.hintManager(),
				Reason: "the user's message bus can't start systemd",
			}
		}
	}
	return &Error{
		ID: "cgroup.manager.scope", File: socket, Err: err,
		Reason: "the user manager did not make a scope for jailer", Hint: hintOther,
	}
}

// late tells a time that ran out from other errors. The library closes the
// connection at the deadline, and may then speak of that alone.
func late(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}
