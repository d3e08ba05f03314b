package policy

import (
	"fmt"
	"slices"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/jailpath"
)

// files are the request's files and directories, of which the request's own check
// has seen that they are possible. A request's author may be another than the
// operator, so that it takes a capability, and one that was asked for.
func files(p *Policy, f *profile, q *jailer.Request, granted []string) (out []File, dirs []string, err error) {
	if field := firstFile(q); field != "" && !slices.Contains(granted, jailer.CapFSWrite) {
		why := "the profile does not grant"
		if slices.Contains(f.capabilities, jailer.CapFSWrite) {
			why = "was not asked for"
		}
		return nil, nil, deny(p, field, fmt.Sprintf("a request's %s need %q, which %s", field, jailer.CapFSWrite, why))
	}
	for i := range q.Files {
		x := &q.Files[i]
		file := File{}
		if file.Path, err = jailpath.Resolve(x.Path); err != nil {
			return nil, nil, refuse("files", err.Error())
		}
		if file.Mode, err = x.FileMode(); err != nil {
			return nil, nil, refuse("files", err.Error())
		}
		if file.Data, err = x.Data(); err != nil {
			return nil, nil, refuse("files", err.Error())
		}
		out = append(out, file)
	}
	for _, d := range q.Directories {
		abs, err := jailpath.Resolve(d)
		if err != nil {
			return nil, nil, refuse("directories", err.Error())
		}
		dirs = append(dirs, abs)
	}
	return out, dirs, nil
}

// firstFile is the member of q that asks for files, "" if none does.
func firstFile(q *jailer.Request) string {
	switch {
	case len(q.Files) > 0:
		return "files"
	case len(q.Directories) > 0:
		return "directories"
	}
	return ""
}
