package policy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
)

// Exec says what a jail may execute; a profile without it lets it execute anything.
type Exec struct {
	Allow []Executable `json:"allow"`
	// Interpreters may be in the list: what they run is data, and no list bounds it.
	Interpreters bool   `json:"allowInterpreters"`
	Enforce      string `json:"enforce"` // EnforceDescendants or EnforceFirst
}

// An Executable is a file of the root.
type Executable struct {
	Path   string `json:"path"`             // absolute and clean, in the jail; links are followed there
	SHA256 string `json:"sha256,omitempty"` // hex; "" is any content
}

// Values of Exec.Enforce.
const (
	EnforceDescendants = "descendants" // the kernel refuses every other file, whoever executes it
	EnforceFirst       = "first"       // the command alone is looked at
)

type execTable struct {
	Allow        *[]any  `toml:"allow"`
	Interpreters bool    `toml:"allow_interpreters"`
	Enforce      *string `toml:"enforce"`
}

// maxExecutables bounds a list: each is a mount, and a rule that PID 1 makes.
const maxExecutables = 32

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

// exec compiles a profile's table.
func (t execTable) exec() (*Exec, string) {
	e := &Exec{Allow: []Executable{}, Interpreters: t.Interpreters, Enforce: EnforceDescendants}
	if t.Allow == nil {
		return nil, "allow: is missing: name the files that may be executed"
	}
	if t.Enforce != nil {
		if msg := oneOf(*t.Enforce, EnforceDescendants, EnforceFirst); msg != "" {
			return nil, "enforce: " + msg
		}
		e.Enforce = *t.Enforce
	}
	if len(*t.Allow) == 0 || len(*t.Allow) > maxExecutables {
		return nil, fmt.Sprintf("allow: %d files given, want 1 to %d", len(*t.Allow), maxExecutables)
	}
	for i, v := range *t.Allow {
		x, msg := executable(v)
		if msg != "" {
			return nil, fmt.Sprintf("allow[%d]: %s", i, msg)
		}
		if slices.ContainsFunc(e.Allow, func(o Executable) bool { return o.Path == x.Path }) {
			return nil, fmt.Sprintf("allow[%d]: %s is there twice", i, x.Path)
		}
		if !e.Interpreters && RunsCode(x.Path) {
			return nil, fmt.Sprintf("allow[%d]: %s runs code that it is given as data, so the list would promise what it can't hold; allow_interpreters = true takes it", i, x.Path)
		}
		e.Allow = append(e.Allow, x)
	}
	return e, ""
}

func executable(v any) (x Executable, msg string) {
	switch v := v.(type) {
	case string:
		x.Path = v
	case map[string]any:
		for k, sub := range v {
			s, ok := sub.(string)
			switch {
			case k == "path" && ok:
				x.Path = s
			case k == "sha256" && ok && sha256Hex.MatchString(s):
				x.SHA256 = s
			case k == "sha256":
				return x, "sha256: want 64 digits of lower-case hex"
			default:
				return x, fmt.Sprintf("%.40q is unknown: want a path, or { path, sha256 }", k)
			}
		}
	default:
		return x, "want a path, or { path, sha256 }"
	}
	if msg := checkPath(&x.Path); msg != "" {
		return x, msg
	}
	if x.Path == "/" {
		return x, "is a directory"
	}
	return x, ""
}

// codeRunners, beside shells and interpreters, run what they are given as text.
var codeRunners = words("awk gawk mawk nawk original-awk expect emacs vi vim view ex gdb busybox toybox tcc")

// RunsCode says of a program, by its name, that a list of executables can't bound what it
// does: what it is told to do is in files and arguments, or it is the dynamic loader.
func RunsCode(file string) bool {
	name := path.Base(file)
	return is(shells, name) || is(interpreters, name) || is(codeRunners, name) || isLoader(name)
}
