package policy

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/jailer-project/jailer"
	"github.com/pelletier/go-toml/v2"
)

// maxBytes bounds a policy file.
const maxBytes = 1 << 20

// file is the shape of a policy file. A pointer is nil where the key is absent:
// an empty list is not an absent one, and grants nothing (an empty allow-list
// that was taken for "allow all" is CVE-2025-66479).
type file struct {
	Version    *int64                  `toml:"version"`
	Extends    *string                 `toml:"extends"`
	Locked     bool                    `toml:"locked"`
	Limits     enforceTable            `toml:"limits"`
	Root       rootTable               `toml:"root"`
	Rootfs     map[string]rootfsTable  `toml:"rootfs"`
	Seccomp    map[string]seccompTable `toml:"seccomp"`
	Profiles   map[string]profileTable `toml:"profiles"`
	Events     eventsTable             `toml:"events"`
	Workspaces workspacesTable         `toml:"workspaces"`
	Owners     *[]ownerTable           `toml:"owners"`
	Authorize  programTable            `toml:"authorize"`
	Approve    approveTable            `toml:"approve"`
	Sessions   sessionsTable           `toml:"sessions"`
}

type enforceTable struct {
	Enforce *string `toml:"enforce"`
}

type rootTable struct {
	UIDRange *string `toml:"uid_range"`
}

type rootfsTable struct {
	Path *string `toml:"path"`
}

type workspacesTable struct {
	Retention *string `toml:"retention"`
}

type eventsTable struct {
	Path        *string `toml:"path"`
	SinkOnError *string `toml:"sink_on_error"`
}

type seccompTable struct {
	Path *string `toml:"path"`
}

type profileTable struct {
	Extends      *string       `toml:"extends"`
	Rootfs       *string       `toml:"rootfs"`
	Capabilities *[]string     `toml:"capabilities"`
	Env          envTable      `toml:"env"`
	Network      networkTable  `toml:"network"`
	Seccomp      *string       `toml:"seccomp"`
	AppArmor     *string       `toml:"apparmor"`
	IDs          *string       `toml:"ids"`
	Limits       limitTables   `toml:"limits"`
	Require      *[]string     `toml:"require"`
	Output       outputTable   `toml:"output"`
	Workspace    accessTable   `toml:"workspace"`
	Export       exportTable   `toml:"export"`
	Exec         *execTable    `toml:"exec"`
	Mounts       *[]mountTable `toml:"mounts"`
}

type envTable struct {
	Set   map[string]string `toml:"set"`
	Allow *[]string         `toml:"allow"`
}

type networkTable struct {
	Modes *[]string `toml:"modes"`
}

type outputTable struct {
	Keep    *string `toml:"keep"`
	OnLimit *string `toml:"on_limit"`
}

type accessTable struct {
	Access *string `toml:"access"`
}

type exportTable struct {
	Protected   *[]string `toml:"protected"`
	OnProtected *string   `toml:"on_protected"`
}

type limitTables struct {
	Default limitTable `toml:"default"`
	Max     limitTable `toml:"max"`
}

// limitTable has one member for each field of limits.Fields. The type is any
// because a count may be written 128 or "128", and the parser's own message is
// better than a type error.
type limitTable struct {
	Timeout         any `toml:"timeout"`
	CPUTime         any `toml:"cpu_time"`
	TTL             any `toml:"ttl"`
	Idle            any `toml:"idle"`
	Memory          any `toml:"memory"`
	CPUs            any `toml:"cpus"`
	PIDs            any `toml:"pids"`
	Workspace       any `toml:"workspace"`
	WorkspaceInodes any `toml:"workspace_inodes"`
	TmpSize         any `toml:"tmp_size"`
	TmpInodes       any `toml:"tmp_inodes"`
	Output          any `toml:"output"`
	File            any `toml:"file"`
	Swap            any `toml:"swap"`
	IORead          any `toml:"io_read"`
	IOWrite         any `toml:"io_write"`

	CPUSet *string `toml:"cpuset"`
}

func (t limitTable) byName() map[string]any {
	return map[string]any{
		"timeout": t.Timeout, "cpu_time": t.CPUTime, "ttl": t.TTL, "idle": t.Idle,
		"memory": t.Memory, "cpus": t.CPUs, "pids": t.PIDs,
		"workspace": t.Workspace, "workspace_inodes": t.WorkspaceInodes,
		"tmp_size": t.TmpSize, "tmp_inodes": t.TmpInodes,
		"output": t.Output, "file": t.File,
		"swap": t.Swap, "io_read": t.IORead, "io_write": t.IOWrite,
	}
}

// decode reads the TOML and refuses unknown keys, with the line drawn.
func decode(name string, data []byte) (*file, error) {
	if len(data) > maxBytes {
		return nil, bad(name, "", fmt.Sprintf("has %d bytes, more than the %d allowed", len(data), maxBytes))
	}
	if err := checkKeys(name, data); err != nil {
		return nil, err
	}
	f := new(file)
	if err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(f); err != nil {
		return nil, bad(name, "", drawn(err))
	}
	if f.Version == nil {
		return nil, bad(name, "version", "is missing, want version = 1")
	}
	if *f.Version != 1 {
		return nil, bad(name, "version", fmt.Sprintf("%d given, this program reads version 1", *f.Version))
	}
	return f, nil
}

// checkKeys refuses every key with a capital letter, except the names of
// variables below env.set. go-toml matches keys to fields in any case, so
// memory and MEMORY both set the memory limit, the last one wins, and neither
// a reader nor another program sees it.
func checkKeys(name string, data []byte) error {
	var tree map[string]any
	if err := toml.Unmarshal(data, &tree); err != nil {
		return bad(name, "", drawn(err))
	}
	path, ok := findOddKey(tree, nil)
	if ok {
		return nil
	}
	return bad(name, strings.Join(path, "."), oddKey)
}

const oddKey = "keys are written in lower case, in ASCII"

// maxKeyDepth is more than any key of a policy needs; go-toml itself bounds
// arrays and inline tables, but not a.a.a.… .
const maxKeyDepth = 16

func findOddKey(v any, path []string) ([]string, bool) {
	if len(path) > maxKeyDepth {
		return path, false
	}
	switch v := v.(type) {
	case map[string]any:
		variables := len(path) == 4 && path[0] == "profiles" && path[2] == "env" && path[3] == "set"
		for k, sub := range v {
			here := append(path[:len(path):len(path)], k)
			if !variables && strings.ContainsFunc(k, oddInKey) {
				return here, false
			}
			if odd, ok := findOddKey(sub, here); !ok {
				return odd, false
			}
		}
	case []any:
		for _, sub := range v {
			if odd, ok := findOddKey(sub, path); !ok {
				return odd, false
			}
		}
	}
	return nil, true
}

// oddInKey finds capitals, and everything beyond ASCII with them: some of it
// folds to an ASCII letter ("ſ" to s).
func oddInKey(c rune) bool { return c >= 'A' && c <= 'Z' || c > unicode.MaxASCII }

// drawn is the error with the lines that it is about.
func drawn(err error) string {
	const most = 2 << 10
	s := err.Error()
	if e, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		s = "unknown key\n" + e.String()
	} else if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		s = strings.TrimPrefix(s, "toml: ") + "\n" + e.String()
	}
	if len(s) > most {
		s = s[:most] + "…"
	}
	return marked(strings.ToValidUTF8(s, "\uFFFD"))
}

// marked has the library's mark as ours.
func marked(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if before, after, ok := strings.Cut(l, "| "); ok && strings.TrimSpace(before) == "" && strings.HasPrefix(strings.TrimLeft(after, " \t"), "~") {
			mark, text, _ := strings.Cut(strings.TrimLeft(after, " \t"), " ")
			indent := after[:len(after)-len(strings.TrimLeft(after, " \t"))]
			lines[i] = before + "| " + indent + strings.ReplaceAll(mark, "~", "^") + strings.TrimRight(" "+text, " ")
		}
	}
	return strings.Join(lines, "\n")
}

// bad makes the error for a key of a policy file.
func bad(name, key, msg string) *jailer.Error {
	if key != "" {
		msg = key + ": " + msg
	}
	return &jailer.Error{
		Code: jailer.CodeInvalidPolicy, Op: "policy", Path: name, Message: msg,
	}
}
