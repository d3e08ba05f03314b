package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/apparmor"
	"github.com/jailer-project/jailer/internal/host"
)

func (a *app) apparmorCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "apparmor",
		Short: "Load jailer's AppArmor profiles, and say what is loaded",
		Args:  noVerb,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.apparmorLoadCommand(), a.apparmorStatusCommand())
	return c
}

// aboutProfiles is the part of the help that both verbs share.
var aboutProfiles = `Profiles:
  ` + apparmor.Default + `  confines PID 1 of each jail and, with less, the command
  ` + apparmor.Launcher + `          confines nothing: it lets this program, at its installed path,
                  make user namespaces where Ubuntu restricts them
`

func (a *app) apparmorLoadCommand() *cobra.Command {
	var install, asJSON bool
	c := &cobra.Command{
		Use:   "load [flags] [PROFILE…]",
		Short: "Load the profiles into the kernel",
		Long: `Load the AppArmor profiles, or only those that are named, into the kernel. It
needs root and apparmor_parser(8). A profile of the same name is replaced, also for
the processes that run under it. Without --install they are gone after the next
boot.

` + aboutProfiles + `
Exit status: 0 all are loaded; 1 one could not be; 2 usage.`,
		Args: profileNames,
		RunE: func(c *cobra.Command, args []string) error { return a.loadProfiles(c.Context(), args, install, asJSON) },
	}
	c.Flags().BoolVar(&install, "install", false, "write them to /etc/apparmor.d too, from where each boot loads them")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) apparmorStatusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [flags] [PROFILE…]",
		Short: "Say which profiles are loaded",
		Long: `Say of each AppArmor profile, or of those that are named, whether it is loaded, in
which mode, and whether it is the one that this program brings. It needs no
privilege; to compare, apparmor_parser(8) must be installed.

` + aboutProfiles + `
Exit status: 0 each is loaded and holds, and none is known to differ; 1 one isn't,
does differ, or it could not be told; 2 usage. A profile that this host has no need
of is no reason for 1.`,
		Args: profileNames,
		RunE: func(c *cobra.Command, args []string) error { return a.profileStatus(c.Context(), args, asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func profileNames(c *cobra.Command, args []string) error {
	for _, name := range args {
		if !slices.Contains(apparmor.Names(), name) {
			return &usageError{
				err:     fmt.Errorf("no such profile %.64q: %s", name, strings.Join(apparmor.Names(), ", ")),
				command: c.CommandPath(),
			}
		}
	}
	return nil
}

func chosen(args []string) []string {
	if len(args) == 0 {
		return apparmor.Names()
	}
	return args
}

// loadedProfile is one profile of the document of load.
type loadedProfile struct {
	Name     string `json:"name"`
	Loaded   bool   `json:"loaded"`
	Program  string `json:"program,omitempty"` // path that the launcher's profile is attached to
	Path     string `json:"path,omitempty"`    // file, with --install
	Why      string `json:"reason,omitempty"`  // why it isn't loaded, where that is no failure
	attached string
}

func (a *app) loadProfiles(ctx context.Context, args []string, install, asJSON bool) error {
	const op = "apparmor.load"
	if os.Geteuid() != 0 {
		return &jailer.Error{
			Code: jailer.CodePermissionDenied, Op: op, Message: "only root can load an AppArmor profile",
			Hint: "run it as root: sudo jailer apparmor load",
		}
	}
	on, err := apparmor.Enabled(os.DirFS("/"))
	if !on || err != nil {
		return &jailer.Error{
			Code: jailer.CodeIsolationUnavailable, Op: op, Reason: "apparmor", Err: err,
			Message: "this kernel has no AppArmor, or it is switched off", Hint: "run `jailer doctor`",
		}
	}
	doc := struct {
		V        int             `json:"v"`
		Profiles []loadedProfile `json:"profiles"`
	}{V: jailer.ProtocolVersion}
	for _, name := range chosen(args) {
		p, err := loadProfile(ctx, name, install)
		if err != nil {
			e := &jailer.Error{Code: jailer.CodeInternal, Op: op, Path: name, Err: err, Hint: "`jailer apparmor status` says what is loaded"}
			if errors.Is(err, apparmor.ErrNoParser) {
				e.Code, e.Hint = jailer.CodeIsolationUnavailable, "apt-get install apparmor"
			}
			return e
		}
		doc.Profiles = append(doc.Profiles, p)
		if asJSON {
			continue
		}
		switch {
		case !p.Loaded:
			fmt.Fprintf(a.out, "%s: not loaded: %s\n", name, p.Why)
		case p.Path != "":
			fmt.Fprintf(a.out, "%s: loaded%s; %s written for the next boots\n", name, p.attached, p.Path)
		default:
			fmt.Fprintf(a.out, "%s: loaded%s, until the next boot\n", name, p.attached)
		}
	}
	if asJSON {
		return writeJSON(a.out, doc)
	}
	return nil
}

func loadProfile(ctx context.Context, name string, install bool) (loadedProfile, error) {
	p := loadedProfile{Name: name}
	exe, err := os.Executable()
	if err != nil {
		return p, err
	}
	if name == apparmor.Launcher {
		if err := apparmor.Attachable(exe); err != nil {
			return p, fmt.Errorf("the program can't be given rights by its path: %w", err)
		}
		p.Program, p.attached = exe, " for "+exe
	}
	text, err := apparmor.Text(os.DirFS("/"), name, exe)
	if err != nil {
		return p, err
	}
	if text == "" {
		p.Why = noUse
		return p, nil
	}
	if err := apparmor.Load(ctx, text); err != nil {
		return p, err
	}
	p.Loaded = true
	if install {
		p.Path, err = apparmor.Install(name, text)
	}
	return p, err
}

const noUse = "this AppArmor is older than 4.0 and restricts no user namespaces"

// Words of the document of status.
const (
	profileLoaded  = "loaded"
	profileMissing = "not loaded"
	profileUnknown = "could not tell"
)

// profileState is one profile of the document of status.
type profileState struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Mode    string `json:"mode,omitempty"`
	Changed string `json:"changed,omitempty"` // yes, no or could not tell; absent where it isn't loaded
	Needed  bool   `json:"needed"`            // by this host, for what the profile is there for
	OK      bool   `json:"ok"`
	Why     string `json:"reason,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

func (a *app) profileStatus(ctx context.Context, args []string, asJSON bool) error {
	doc := struct {
		V        int            `json:"v"`
		OK       bool           `json:"ok"`
		Profiles []profileState `json:"profiles"`
	}{V: jailer.ProtocolVersion, OK: true}
	for _, name := range chosen(args) {
		s, err := stateOf(ctx, name)
		if err != nil {
			return err
		}
		if s.OK {
			s.Hint = "" // nothing has to be mended
		}
		doc.OK = doc.OK && s.OK
		doc.Profiles = append(doc.Profiles, s)
	}
	if !doc.OK {
		a.code = 1
	}
	if asJSON {
		return writeJSON(a.out, doc)
	}
	for _, s := range doc.Profiles {
		fmt.Fprintf(a.out, "%s: %s\n", s.Name, s.text())
		if s.Hint != "" {
			fmt.Fprintf(a.out, "  mend: %s\n", s.Hint)
		}
	}
	return nil
}

func stateOf(ctx context.Context, name string) (profileState, error) {
	s := profileState{Name: name, State: profileMissing, Needed: name == apparmor.Default || host.Here().RestrictsNamespaces()}
	root := os.DirFS("/")
	on, err := apparmor.Enabled(root)
	if err != nil {
		s.State, s.Why = profileUnknown, err.Error()
		return s, nil
	}
	if !on {
		// Nor does doctor call it needed: a policy that requires it refuses the run.
		s.Why, s.Needed, s.OK = "this kernel has no AppArmor, or it is switched off", false, true
		return s, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return s, err
	}
	text, err := apparmor.Text(root, name, exe)
	if err != nil {
		return s, &jailer.Error{Code: jailer.CodeInternal, Op: "apparmor.status", Path: name, Err: err}
	}
	if text == "" {
		s.Why, s.OK = noUse, true
		return s, nil
	}
	s.judge(apparmor.Check(ctx, name, text))
	return s, nil
}

// judge puts what was found into the words of the document.
func (s *profileState) judge(c apparmor.Status) {
	want := "enforce"
	if c.Name == apparmor.Launcher {
		want = "unconfined"
	}
	switch {
	case c.Err != nil:
		s.State, s.Why = profileUnknown, c.Err.Error()
		s.Hint = apparmor.MountHint
		return
	case c.Mode == "":
		s.OK, s.Hint = !s.Needed, apparmor.LoadHint
		return
	}
	s.State, s.Mode = profileLoaded, c.Mode
	s.Changed = map[bool]string{true: "yes", false: "no"}[c.Changed]
	if c.DiffErr != nil {
		s.Changed, s.Why = profileUnknown, c.DiffErr.Error()
	}
	s.OK = c.Mode == want && !c.Changed
	if !s.OK {
		s.Hint = apparmor.LoadHint
	}
}

func (s *profileState) text() string {
	text := s.State
	if s.State == profileLoaded {
		text += ", mode " + printable(s.Mode) + ", " + map[string]string{
			"yes": "another one than this program's", "no": "this program's",
			profileUnknown: "could not tell whether it is this program's",
		}[s.Changed]
	}
	if !s.Needed {
		text += ", not needed here"
	}
	if s.Why != "" {
		text += ": " + printable(cmp.Or(strings.SplitN(s.Why, "\n", 2)[0], s.Why))
	}
	return text
}
