package policy

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/limits"
)

// Any stands for every tenant, or every profile, of an owner.
const Any = "*"

// Access is who may do what beside what a profile grants, and who is asked.
type Access struct {
	// Owners are the users who may do anything at all, nil where the policy has no
	// list: then whoever starts jailer.
	Owners []Owner

	Authorize Program // asked before each operation
	Approve   Program // asked before those that Rules name
	Rules     []Rule

	// MaxSessions and MaxPerTenant bound the jails that live at once in a state
	// directory; 0 is no bound.
	MaxSessions, MaxPerTenant int
}

// An Owner is a user and what he may use.
type Owner struct {
	UID uint32
	// Tenants has Any, or the tenants one of which must be named; none: what is no
	// tenant's.
	Tenants  []string
	Profiles []string // names, or Any
}

// A Program of the host's that is asked something. Without Command there is none.
type Program struct {
	Command []string // Command[0] is absolute
	Timeout time.Duration
}

// FileOwner is the uid of the policy's file, 0 where it came from none: files and
// programs that it names must be his or root's.
func (p *Policy) FileOwner() uint32 { return p.owner }

type ownerTable struct {
	UID      *int64    `toml:"uid"`
	Tenants  *[]string `toml:"tenants"`
	Profiles *[]string `toml:"profiles"`
}

type programTable struct {
	Command *[]string `toml:"command"`
	Timeout *string   `toml:"timeout"`
}

type approveTable struct {
	Command *[]string    `toml:"command"`
	Timeout *string      `toml:"timeout"`
	Rules   *[]ruleTable `toml:"rules"`
}

type ruleTable struct {
	Argv         *[]string `toml:"argv"`
	Paths        *[]string `toml:"paths"`
	Capabilities *[]string `toml:"capabilities"`
}

type sessionsTable struct {
	Max          *int64 `toml:"max_sessions"`
	MaxPerTenant *int64 `toml:"max_sessions_per_tenant"`
}

// The clocks of programs. That of authorize is short, as each verb waits for it.
const (
	authorizeTimeout    = 5 * time.Second
	maxAuthorizeTimeout = 10 * time.Second
	approveTimeout      = time.Minute
	maxApproveTimeout   = time.Hour
)

// MaxSessions is the most that max_sessions may say.
const MaxSessions = 1 << 20

// access compiles the tables that Access comes from.
func (p *Policy) access(name string, f *file) (err error) {
	a := &p.Access
	if f.Owners != nil {
		a.Owners = []Owner{}
		for i, t := range *f.Owners {
			o, err := p.ownerOf(t, a.Owners)
			if err != nil {
				return bad(name, fmt.Sprintf("owners[%d]", i), err.Error())
			}
			a.Owners = append(a.Owners, o)
		}
	}
	if a.Authorize, err = program(f.Authorize.Command, f.Authorize.Timeout, authorizeTimeout, maxAuthorizeTimeout); err != nil {
		return bad(name, "authorize", err.Error())
	}
	if f.Authorize.Timeout != nil && a.Authorize.Command == nil {
		return bad(name, "authorize", "timeout without command")
	}
	if a.Approve, err = program(f.Approve.Command, f.Approve.Timeout, approveTimeout, maxApproveTimeout); err != nil {
		return bad(name, "approve", err.Error())
	}
	if f.Approve.Rules == nil && (f.Approve.Command != nil || f.Approve.Timeout != nil) {
		return bad(name, "approve.rules", "is missing: nothing would be asked for")
	}
	if f.Approve.Rules != nil {
		for i, t := range *f.Approve.Rules {
			r, err := t.rule()
			if err != nil {
				return bad(name, fmt.Sprintf("approve.rules[%d]", i), err.Error())
			}
			a.Rules = append(a.Rules, r)
		}
	}
	for _, m := range []struct {
		key  string
		from *int64
		to   *int
	}{{"max_sessions", f.Sessions.Max, &a.MaxSessions}, {"max_sessions_per_tenant", f.Sessions.MaxPerTenant, &a.MaxPerTenant}} {
		if m.from == nil {
			continue
		}
		if *m.from < 1 || *m.from > MaxSessions {
			return bad(name, "sessions."+m.key, fmt.Sprintf("%d given, want 1 to %d", *m.from, MaxSessions))
		}
		*m.to = int(*m.from)
	}
	return nil
}

func (p *Policy) ownerOf(t ownerTable, before []Owner) (o Owner, err error) {
	switch {
	case t.UID == nil:
		return o, errors.New("uid is missing")
	case *t.UID < 0 || *t.UID >= 1<<32-1: // -1 is no user (chown(2))
		return o, fmt.Errorf("uid %d is no user", *t.UID)
	case t.Profiles == nil:
		return o, errors.New(`profiles is missing: name those that the user may use, or ["*"]`)
	}
	o = Owner{UID: uint32(*t.UID), Tenants: []string{}, Profiles: slices.Clone(*t.Profiles)}
	if slices.ContainsFunc(before, func(b Owner) bool { return b.UID == o.UID }) {
		return o, fmt.Errorf("uid %d is there twice", o.UID)
	}
	if t.Tenants != nil {
		o.Tenants = slices.Clone(*t.Tenants)
	}
	for _, n := range o.Tenants {
		if n != Any && !plainName.MatchString(n) {
			return o, fmt.Errorf("%.80q is no tenant", n)
		}
	}
	for _, n := range o.Profiles {
		if n != Any && p.profiles[n] == nil {
			return o, fmt.Errorf("there is no profile %.80q", n)
		}
	}
	return o, nil
}

func program(command *[]string, timeout *string, usual, most time.Duration) (x Program, err error) {
	x.Timeout = usual
	if timeout != nil {
		if x.Timeout, err = limits.ParseDuration(*timeout); err != nil {
			return x, fmt.Errorf("timeout: %w", err)
		}
		if x.Timeout <= 0 || x.Timeout > most {
			return x, fmt.Errorf("timeout: %s given, want more than 0 and at most %s", *timeout, most)
		}
	}
	if command == nil {
		return x, nil
	}
	if len(*command) == 0 {
		return x, errors.New("command: is empty")
	}
	if msg := checkPath(&(*command)[0]); msg != "" {
		return x, errors.New("command: " + msg)
	}
	for _, w := range *command {
		if strings.IndexByte(w, 0) >= 0 {
			return x, errors.New("command: contains a NUL byte")
		}
	}
	x.Command = slices.Clone(*command)
	return x, nil
}

func (t ruleTable) rule() (r Rule, err error) {
	given := 0
	for _, l := range []*[]string{t.Argv, t.Paths, t.Capabilities} {
		if l == nil {
			continue
		}
		given++
		if len(*l) == 0 || slices.Contains(*l, "") {
			return r, errors.New("an empty list, or an empty word in it, matches nothing")
		}
	}
	if given != 1 {
		return r, errors.New("want one of argv, paths and capabilities")
	}
	switch {
	case t.Argv != nil:
		if b := path.Base((*t.Argv)[0]); b == "." || b == "/" || b == ".." {
			return r, fmt.Errorf("argv: %q names no program", (*t.Argv)[0])
		}
		r.Argv = slices.Clone(*t.Argv)
	case t.Paths != nil:
		for _, p := range *t.Paths {
			if err := checkPattern(p); err != nil {
				return r, err
			}
		}
		r.Paths = slices.Clone(*t.Paths)
	default:
		for _, c := range *t.Capabilities {
			if !slices.Contains(jailer.Capabilities(), c) {
				return r, fmt.Errorf("capabilities: %.40q is none", c)
			}
		}
		r.Capabilities = slices.Clone(*t.Capabilities)
	}
	return r, nil
}

// Permits says whether a user may do something for a tenant, in a profile. What has no
// profile, as a workspace that nobody uses, is a matter of the tenant alone. The error is
// a *jailer.Error with the code unauthorized.
func (p *Policy) Permits(uid uint32, tenant, profile string) error {
	owners := p.Access.Owners
	if owners == nil {
		return nil
	}
	i := slices.IndexFunc(owners, func(o Owner) bool { return o.UID == uid })
	if i < 0 {
		return p.unauthorized("owners", fmt.Sprintf("uid %d is not among the owners", uid))
	}
	o := owners[i]
	if profile != "" && !slices.Contains(o.Profiles, Any) && !slices.Contains(o.Profiles, profile) {
		return p.unauthorized("profile", fmt.Sprintf("uid %d may not use profile %q", uid, profile))
	}
	switch {
	case slices.Contains(o.Tenants, Any), tenant == "" && len(o.Tenants) == 0, tenant != "" && slices.Contains(o.Tenants, tenant):
		return nil
	case tenant == "":
		return p.unauthorized("tenant", fmt.Sprintf("uid %d has to name its tenant", uid))
	}
	return p.unauthorized("tenant", fmt.Sprintf("uid %d may not act for tenant %.80q", uid, tenant))
}

func (p *Policy) unauthorized(field, msg string) error {
	return &jailer.Error{
		Code: jailer.CodeUnauthorized, Op: "authorize.owners", Path: field, Message: msg,
		Hint: fmt.Sprintf("the policy is %s: its [[owners]] say who may do what", cmp.Or(p.where(), p.Name)),
	}
}
