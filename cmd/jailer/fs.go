package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/files"
	"github.com/jailer-project/jailer/internal/remotefs"
	"github.com/jailer-project/jailer/internal/session"
	"github.com/jailer-project/jailer/internal/terminal"
	"github.com/jailer-project/jailer/limits"
)

func (a *app) fsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "fs",
		Short: "Read and write a session's files",
		Long: `Read and write the files of a session's /workspace from outside, without a
command in it. Paths are relative to /workspace, or begin with it; ".." is
refused, and no link leads out.

Exit status: 0 done; 1 failed; 2 usage.`,
		Args: noVerb,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.fsLs(), a.fsCat(), a.fsPage(), a.fsPut(), a.fsRm(), a.fsMkdir(), a.fsStat())
	return c
}

// inWorkspace does something with the files of a session; writes are paths that it changes.
func (a *app) inWorkspace(arg string, do func(context.Context, *remotefs.Workspace) error, right string, writes ...string) error {
	client, id, err := a.ofID(arg)
	if err != nil {
		return err
	}
	w, err := client.Files(id, session.FilesRequest{Rights: []string{right}, Paths: writes})
	if err != nil {
		return err
	}
	defer w.Close()
	// A signal ends the program: a file that is being written has no name yet.
	return session.FileError(do(context.Background(), w))
}

func (a *app) fsLs() *cobra.Command {
	var asJSON bool
	var cursor string
	var limit int
	c := &cobra.Command{
		Use: "ls ID [PATH]", Annotations: oneDocument, Short: "List a directory",
		Long: `List a directory: type, size, time and name of each entry. With more than --limit
entries, the last line on standard error has the --cursor for the next part.`,
		Args: between(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("limit") && (limit < 1 || limit > files.MaxEntries) {
				return usagef("--limit %d: want 1 to %d", limit, files.MaxEntries)
			}
			if !files.IsListCursor(cursor) {
				return usagef("--cursor %q: is none of a listing's", cursor)
			}
			path := "."
			if len(args) > 1 {
				path = args[1]
			}
			return a.inWorkspace(args[0], func(ctx context.Context, w *remotefs.Workspace) error {
				l, err := w.List(ctx, path, cursor, limit)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.out, l)
				}
				for _, i := range l.Entries {
					if _, err := fmt.Fprintln(a.out, line(i)); err != nil {
						return err
					}
				}
				a.more(l.Cursor)
				return nil
			}, jailer.CapFSList)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().StringVar(&cursor, "cursor", "", "go on where a listing said `CURSOR`")
	c.Flags().IntVar(&limit, "limit", 0, "at most `N` entries (default 1000)")
	a.tokenFlag(c.Flags())
	return c
}

// more tells how to go on.
func (a *app) more(cursor string) {
	if cursor != "" {
		fmt.Fprintf(a.err, "jailer: more: --cursor %s\n", printable(cursor))
	}
}

// line is a file in one line: its name can't end it or drive a terminal.
func line(i files.Info) string {
	name := printable(i.Name)
	if i.Target != "" {
		name += " -> " + printable(i.Target)
	}
	return fmt.Sprintf("%-9s %04o %12d %s %s", i.Type, i.Mode, i.Size, i.ModTime.UTC().Format(time.RFC3339), name)
}

func (a *app) fsStat() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "stat ID PATH", Annotations: oneDocument, Short: "Tell of one file; a link is not followed",
		Args: exactly(2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.inWorkspace(args[0], func(_ context.Context, w *remotefs.Workspace) error {
				i, err := w.Stat(args[1])
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.out, i)
				}
				_, err = fmt.Fprintln(a.out, line(i))
				return err
			}, jailer.CapFSList)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	a.tokenFlag(c.Flags())
	return c
}

func (a *app) fsCat() *cobra.Command {
	var most sizeFlag
	c := &cobra.Command{
		Use: "cat ID PATH", Short: "Copy a file to standard output",
		Long: `Copy a regular file to standard output. One that is larger than the session's
limit for a file, or --max, is refused before a byte of it is read: read it with
` + "`jailer fs page`" + `.`,
		Args: exactly(2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.inWorkspace(args[0], func(ctx context.Context, w *remotefs.Workspace) error {
				_, err := w.Cat(ctx, a.out, args[1], int64(most))
				return err
			}, jailer.CapFSRead)
		},
	}
	c.Flags().Var(&most, "max", "refuse a file of more than `SIZE`")
	a.tokenFlag(c.Flags())
	return c
}

func (a *app) fsPage() *cobra.Command {
	var asJSON bool
	var o files.PageOptions
	var size sizeFlag
	c := &cobra.Command{
		Use: "page ID PATH", Annotations: oneDocument, Short: "Print a part of a text file",
		Long: `Print a page of a text file, at most --lines lines and --bytes bytes, from its
beginning, from --line N, or from where a page before it ended (--cursor). A line
that is longer than a page goes on in the next one; a character is never cut.

What comes after it is told on standard error, or in the document of --json.`,
		Example: `  jailer fs page build7 log.txt --line 4001 --lines 100`,
		Args:    exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("line") && c.Flags().Changed("cursor") {
				return usagef("--line and --cursor: choose one")
			}
			for _, n := range []struct {
				flag  string
				value int64
			}{{"line", o.Line}, {"lines", int64(o.Lines)}} {
				if c.Flags().Changed(n.flag) && n.value < 1 {
					return usagef("--%s %d: must be positive", n.flag, n.value)
				}
			}
			if c.Flags().Changed("bytes") && (size < files.MinPageBytes || size > files.MaxPageBytes) {
				return usagef("--bytes: want %d to %s", files.MinPageBytes, limits.FormatSize(files.MaxPageBytes))
			}
			if !files.IsPageCursor(o.Cursor) {
				return usagef("--cursor %q: is none of a page's", o.Cursor)
			}
			o.Bytes = int(size)
			return a.inWorkspace(args[0], func(ctx context.Context, w *remotefs.Workspace) error {
				p, err := w.Page(ctx, args[1], o)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.out, p)
				}
				if _, err := a.out.Write(p.Data); err != nil {
					return err
				}
				if p.Changed {
					a.warn("the file has changed since the page before")
				}
				a.more(p.Cursor)
				return nil
			}, jailer.CapFSRead)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().Int64Var(&o.Line, "line", 0, "begin at line `N`, from 1")
	c.Flags().IntVar(&o.Lines, "lines", 0, "at most `N` lines (default 500)")
	c.Flags().Var(&size, "bytes", "at most `SIZE` (default 64K)")
	c.Flags().StringVar(&o.Cursor, "cursor", "", "go on where a page said `CURSOR`")
	a.tokenFlag(c.Flags())
	return c
}

func (a *app) fsPut() *cobra.Command {
	var o files.PutOptions
	var mode string
	var most sizeFlag
	c := &cobra.Command{
		Use: "put ID PATH", Short: "Write a file from standard input",
		Long: `Write standard input to a file, which is there whole or not at all: an older one of
that name is replaced at the end. What is no regular file is not replaced.`,
		Example: `  jailer fs put build7 src/main.c --parents < main.c`,
		Args:    exactly(2),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := parseMode(mode)
			if err != nil {
				return err
			}
			o.Mode, o.Max = m, int64(most)
			return a.inWorkspace(args[0], func(ctx context.Context, w *remotefs.Workspace) error {
				_, err := w.Put(ctx, args[1], a.in, o)
				return err
			}, jailer.CapFSWrite, args[1])
		},
	}
	c.Flags().StringVar(&mode, "mode", "0644", "permission `BITS`, octal")
	c.Flags().BoolVar(&o.Parents, "parents", false, "make the directories above it")
	c.Flags().BoolVar(&o.Exclusive, "exclusive", false, "refuse to replace a file")
	c.Flags().Var(&most, "max", "refuse more than `SIZE`")
	a.tokenFlag(c.Flags())
	return c
}

func (a *app) fsRm() *cobra.Command {
	var recursive bool
	c := &cobra.Command{
		Use: "rm ID PATH", Short: "Remove a file or a directory",
		Args: exactly(2),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.inWorkspace(args[0], func(ctx context.Context, w *remotefs.Workspace) error {
				return w.Remove(ctx, args[1], recursive)
			}, jailer.CapFSWrite, args[1])
		},
	}
	c.Flags().BoolVarP(&recursive, "recursive", "r", false, "a directory with all that is in it")
	a.tokenFlag(c.Flags())
	return c
}

func (a *app) fsMkdir() *cobra.Command {
	var parents bool
	var mode string
	c := &cobra.Command{
		Use: "mkdir ID PATH", Short: "Make a directory",
		Args: exactly(2),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := parseMode(mode)
			if err != nil {
				return err
			}
			return a.inWorkspace(args[0], func(_ context.Context, w *remotefs.Workspace) error {
				return w.Mkdir(args[1], parents, m)
			}, jailer.CapFSWrite, args[1])
		},
	}
	c.Flags().StringVar(&mode, "mode", "0755", "permission `BITS`, octal")
	c.Flags().BoolVarP(&parents, "parents", "p", false, "those above it too; one that is there is no error")
	a.tokenFlag(c.Flags())
	return c
}

func parseMode(s string) (uint32, error) {
	m, err := strconv.ParseUint(s, 8, 32)
	if err != nil || m > 0o777 {
		return 0, usagef("--mode %q: want octal permission bits, 0000 to 0777", s)
	}
	return uint32(m), nil
}

// sizeFlag is a size as a flag; 0 is not given.
type sizeFlag int64

func (s *sizeFlag) String() string { return "" }
func (s *sizeFlag) Type() string   { return "" }

func (s *sizeFlag) Set(v string) error {
	n, err := limits.ParseSize(v)
	if err == nil && n == 0 {
		err = errors.New("must be positive")
	}
	*s = sizeFlag(n)
	return err
}

// between is cobra.RangeArgs with our kind of error.
func between(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return &usageError{err: fmt.Errorf("takes %d to %d arguments, %d given", least, most, len(args)), command: c.CommandPath()}
		}
		return nil
	}
}

func (a *app) exportCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "export ID GLOB… > FILE.tar", Short: "Take files of a session out, as a tar",
		Long: `Write the files that the globs match to standard output, as a tar of regular files
and directories alone, with relative names and plain modes; its last member,
.jailer-manifest.json, has the SHA-256 of each. Links, devices and whatever else
there is are left out, and named in the manifest.

A glob is a path with *, ? and […] in its elements, and ** for any directories; one
that matches a directory takes all that is in it.

Exit status: 0 done; 1 failed; 2 usage.`,
		Example: `  jailer export build7 'out/**' > out.tar`,
		Args:    atLeast(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if f, ok := a.out.(*os.File); ok && terminal.Is(f) {
				return usagef("standard output is a terminal: send the tar to a file or a pipe")
			}
			return a.inWorkspace(args[0], func(ctx context.Context, w *remotefs.Workspace) error {
				m, err := w.Export(ctx, a.out, args[1:])
				for _, s := range m.Skipped {
					fmt.Fprintf(a.err, "jailer: left out: %s: %s\n", printable(s.Path), printable(s.Reason))
				}
				if m.SkippedMore > 0 {
					fmt.Fprintf(a.err, "jailer: left out: %d more\n", m.SkippedMore)
				}
				return err
			}, jailer.CapExport)
		},
	}
	a.tokenFlag(c.Flags())
	return c
}

func (a *app) importCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "import ID < FILE.tar", Annotations: oneDocument, Short: "Put the files of a tar into a session",
		Long: `Make the files and directories of the tar on standard input in /workspace. A member
that is anything else, has a name that leads out, or a mode with setuid, is refused;
what came before it stays.

Exit status: 0 done; 1 failed; 2 usage.`,
		Args: exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.inWorkspace(args[0], func(ctx context.Context, w *remotefs.Workspace) error {
				m, err := w.Import(ctx, a.in)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.out, m)
				}
				fmt.Fprintf(a.err, "jailer: %d files, %d bytes\n", len(m.Files), m.Bytes)
				return nil
			}, jailer.CapImport)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the manifest")
	a.tokenFlag(c.Flags())
	return c
}

// atLeast is cobra.MinimumNArgs with our kind of error.
func atLeast(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < n {
			return &usageError{err: fmt.Errorf("takes %d arguments or more, %d given", n, len(args)), command: c.CommandPath()}
		}
		return nil
	}
}
