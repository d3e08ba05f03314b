package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/access"
	"github.com/jailer-project/jailer/internal/launch"
	"github.com/jailer-project/jailer/internal/state"
	"github.com/jailer-project/jailer/internal/workspace"
	"github.com/jailer-project/jailer/limits"
	"github.com/jailer-project/jailer/policy"
)

// data is where persistent workspaces are; "" is nowhere.
func (a *app) data() string {
	return workspace.Locate(a.dataDir, os.Getenv("XDG_DATA_HOME"), os.Getenv("HOME"))
}

func (a *app) workspaceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "workspace",
		Short: "List and remove persistent workspaces",
		Long: `Persistent workspaces are directories that outlive a jail: --workspace TENANT/RESOURCE
makes one the jail's /workspace, one writer at a time.

Exit status: 0 done; 1 failed; 2 usage.`,
		Args: noVerb,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.workspaceList(), a.workspaceRm(), a.workspacePrune())
	return c
}

// workspaceJSON is one in a document.
type workspaceJSON struct {
	Name      string            `json:"name"`
	Directory string            `json:"directory,omitempty"` // of one that has no name
	Owner     int               `json:"owner"`
	HostUID   int               `json:"hostUid"`
	CreatedAt time.Time         `json:"createdAt,omitzero"`
	UsedAt    time.Time         `json:"usedAt,omitzero"`
	Token     bool              `json:"token"`
	Busy      bool              `json:"busy"`
	Holder    *workspace.Holder `json:"holder,omitempty"`
	Error     string            `json:"error,omitempty"`
}

func workspacesJSON(all []workspace.Info) []workspaceJSON {
	out := []workspaceJSON{}
	for _, i := range all {
		j := workspaceJSON{
			Name: i.Name.String(), Owner: i.Owner, HostUID: i.HostUID, CreatedAt: i.CreatedAt.Truncate(time.Millisecond),
			UsedAt: i.UsedAt.Truncate(time.Millisecond), Token: i.Token, Busy: i.Busy, Holder: i.Holder,
		}
		if i.Err != nil {
			j.Error = i.Err.Error()
		}
		if i.Name.Tenant == "" { // its record is damaged, and names nothing
			j.Name, j.Directory = "", i.Name.Resource
		}
		out = append(out, j)
	}
	return out
}

func (a *app) workspaceList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Annotations: oneDocument, Short: "List persistent workspaces",
		Args: exactly(0),
		RunE: func(*cobra.Command, []string) error {
			s, err := workspace.Open(a.data())
			if err != nil {
				return err
			}
			all, err := s.List()
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.out, workspacesJSON(all))
			}
			w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tOWNER\tCREATED\tUSED\tTOKEN\tHOLDER")
			for _, i := range all {
				if i.Err != nil {
					fmt.Fprintf(w, "%s\tdamaged: %s\n", printable(i.Name.Resource), printable(i.Err.Error()))
					continue
				}
				holder, token := "", ""
				if i.Busy {
					holder = "?"
				}
				if i.Holder != nil {
					holder = i.Holder.SessionID
				}
				if i.Token {
					token = "yes"
				}
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", text(i.Name.String()), i.Owner, moment(i.CreatedAt), moment(i.UsedAt), text(token), text(holder))
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	a.dataFlag(c.Flags())
	return c
}

func (a *app) workspaceRm() *cobra.Command {
	var policyFile string
	c := &cobra.Command{
		Use: "rm TENANT/RESOURCE", Short: "Remove a persistent workspace with all that is in it",
		Args: exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name, err := workspace.ParseName(args[0])
			if err != nil {
				return usagef("%v", err)
			}
			token, err := a.tokenHash()
			if err != nil {
				return err
			}
			p, err := policy.Load(policyFile)
			if err != nil {
				return err
			}
			dir, err := state.Open(a.stateDir, a.xdg)
			if err != nil {
				return err
			}
			s, err := workspace.Open(a.data())
			if err != nil {
				return err
			}
			gate := access.Gate{Policy: p, UID: os.Getuid()}
			err = gate.Authorize(context.Background(), access.Operation{Name: "workspace.rm", Tenant: name.Tenant, Workspace: name.String()})
			if err == nil {
				err = s.Remove(context.Background(), name, token, launch.ReapHolder)
			}
			if lost := launch.RecordDenied(context.Background(), p, dir, name.Tenant, err); lost != nil {
				a.warn("an event is lost: %v", lost)
			}
			return err
		},
	}
	c.Flags().StringVar(&policyFile, "policy", "", "operator's policy `FILE`, for its event log")
	a.dataFlag(c.Flags())
	a.tokenFlag(c.Flags())
	return c
}

func (a *app) workspacePrune() *cobra.Command {
	var older, policyFile string
	var dryRun, asJSON bool
	c := &cobra.Command{
		Use: "prune", Annotations: oneDocument, Short: "Remove the workspaces that were not used for long",
		Long: `Remove the persistent workspaces that nobody has and that were last let go longer ago
than the policy's workspaces.retention, or --older-than; and what removals have left
that were interrupted.`,
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := policy.Load(policyFile)
			if err != nil {
				return err
			}
			age := p.Retention
			if c.Flags().Changed("older-than") {
				if age, err = limits.ParseDuration(older); err != nil {
					return usagef("--older-than: %v", err)
				}
			}
			s, err := workspace.Open(a.data())
			if err != nil {
				return err
			}
			removed, failure := s.Prune(context.Background(), age, dryRun, launch.ReapHolder)
			if asJSON {
				if err := writeJSON(a.out, map[string]any{"v": jailer.ProtocolVersion, "workspaces": workspacesJSON(removed)}); err != nil {
					return err
				}
			} else {
				for _, i := range removed {
					if i.Err == nil {
						fmt.Fprintf(a.out, "%s (used %s)\n", text(i.Name.String()), moment(i.UsedAt))
					}
				}
			}
			for _, i := range removed {
				if i.Err != nil {
					failure = errors.Join(failure, fmt.Errorf("%s: %w", i.Name, i.Err))
				}
			}
			if failure != nil {
				return &jailer.Error{Code: jailer.CodeInternal, Op: "workspace.prune", Message: "not everything could be removed", Err: failure}
			}
			return nil
		},
	}
	c.Flags().StringVar(&older, "older-than", "", "not used for `DURATION` (default: the policy's workspaces.retention)")
	c.Flags().StringVar(&policyFile, "policy", "", "operator's policy `FILE`")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "remove nothing; say what would be")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	a.dataFlag(c.Flags())
	return c
}
